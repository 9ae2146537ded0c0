"""Converts the protocol's positions to those of the answers.

The protocol has URIs, lines that count from 0, and columns in UTF-16 units. The answers have paths below the
project, and lines and columns that count from 1, columns in characters.
"""

from __future__ import annotations

import os
from urllib.parse import quote, unquote, urlsplit

from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.sdk.paths import open_project_file

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_TEXTS = 200
"""Files that are read for the columns of one answer. In further files, columns are UTF-16 units."""


def uri_of(path: str) -> str:
    """The URI of an absolute path."""
    return "file://" + quote(path)


def path_of(uri: object) -> str | None:
    """The absolute, normal path of a file URI, whatever its escapes; None for anything else."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        return None
    return None if "\0" in path else os.path.normpath(path)


def read_text(call: Call, path: str) -> str:
    """The text of a UTF-8 file below the project. Raises `ToolFailed`: `too-large`, `not-text`, and those
    of `open_project_file`."""
    descriptor, status = open_project_file(call, path)
    with open(descriptor, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise ToolFailed("too-large", f"{path} is larger than {MAX_FILE_BYTES} bytes", path=path)
        data = file.read(MAX_FILE_BYTES)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as broken:
        raise ToolFailed("not-text", f"{path} is not UTF-8", path=path) from broken


class DocumentPositions:
    """Converts the positions in the files of one project. It reads each file at most once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._roots = {os.path.normpath(call.project_dir), os.path.realpath(call.project_dir)}
        self._texts: dict[str, list[str]] = {}

    def add_text(self, path: str, text: str) -> None:
        """Set the text of a file, so that the file is not read again."""
        self._texts[path] = text.split("\n")

    def relative(self, uri: object) -> str | None:
        """The path below the project; None for a file elsewhere."""
        path = path_of(uri)
        for root in self._roots if path else ():
            if path and path.startswith(root.rstrip("/") + "/"):
                return os.path.relpath(path, root)
        return None

    def span(self, path: str, range: object) -> JsonObject:
        """`line`, `column`, `endLine` and `endColumn` of a range of the protocol. Invalid ones are left
        out."""
        found: JsonObject = {}
        for key, line, column in (("start", "line", "column"), ("end", "endLine", "endColumn")):
            point = range.get(key) if isinstance(range, dict) else None
            row = _count(point.get("line")) if isinstance(point, dict) else None
            units = _count(point.get("character")) if isinstance(point, dict) else None
            if row is not None and units is not None:
                found[line] = row + 1
                found[column] = self._characters(path, row, units) + 1
        return found

    def _characters(self, path: str, row: int, units: int) -> int:
        lines = self._lines(path)
        if row >= len(lines):
            return units
        return len(lines[row].encode("utf-16-le")[: units * 2].decode("utf-16-le", "ignore"))

    def _lines(self, path: str) -> list[str]:
        if path not in self._texts:
            if len(self._texts) >= MAX_TEXTS:
                return []
            try:
                text = read_text(self._call, path)
            except ToolFailed:
                text = ""
            self._texts[path] = text.split("\n")
        return self._texts[path]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None
