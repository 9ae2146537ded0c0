"""The tool `data.convert`: reads the input, converts it and writes the result.

Files between jsonl and csv are converted row by row, in memory that does not grow with the file.
"""

from __future__ import annotations

import os
from io import StringIO, TextIOWrapper

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.paths import NewFile, open_project_file
from flysidecars.utility.convert import documents, markup, tables
from flysidecars.utility.convert.values import LossLog, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    Read = Callable[[str, LossLog], object]
    Write = Callable[[object, LossLog], str]

READERS: dict[str, Read] = {
    "json": documents.read_json,
    "jsonl": documents.read_jsonl,
    "yaml": documents.read_yaml,
    "toml": documents.read_toml,
    "csv": tables.read_csv,
    "xml": markup.read_xml,
    "text": documents.read_text,
}
WRITERS: dict[str, Write] = {
    "json": documents.write_json,
    "jsonl": documents.write_jsonl,
    "yaml": documents.write_yaml,
    "toml": documents.write_toml,
    "csv": tables.write_csv,
    "xml": markup.write_xml,
    "text": documents.write_text,
}
MIME = {
    "json": "application/json",
    "jsonl": "application/jsonl",
    "yaml": "application/yaml",
    "toml": "application/toml",
    "csv": "text/csv",
    "xml": "application/xml",
    "text": "text/plain",
}
MAX_BYTES = 32 * 1024 * 1024
"""Bytes of data that is converted in memory: all but files between jsonl and csv."""
INLINE_BYTES = 512 * 1024
"""Bytes of a result in the answer; a larger one needs `outputPath`."""
PROGRESS_BYTES = 16 * 1024 * 1024
MAX_LINE = 4 * 1024 * 1024
ROWS = ("csv", "jsonl")


def data_convert(call: Call) -> JsonObject:
    """Convert `input` or the file `path`, and return the result or write it to `outputPath`."""
    source, target = call.choice("from", READERS), call.choice("to", WRITERS)
    path, output = call.optional_text("path"), call.optional_text("outputPath")
    lost = LossLog()
    if path is not None and output is not None and source in ROWS and target in ROWS and source != target:
        return _answer_file(_stream(call, source, path, output, lost), target, lost)
    text = WRITERS[target](READERS[source](_incoming(call, path), lost), lost)
    if output is None:
        return _answer_inline(text, lost)
    file = NewFile(call, output)
    with file as held:
        held.write(text.encode())
    return _answer_file(file, target, lost)


def _incoming(call: Call, path: str | None) -> str:
    if path is None:
        return call.text("input")
    descriptor, status = open_project_file(call, path)
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > MAX_BYTES:
            raise ToolFailed("too-big", f"{path} is larger than {MAX_BYTES} bytes", path=path)
        data = file.read(MAX_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolFailed("unreadable", f"{path} is not UTF-8 at byte {error.start}", path=path) from error


def _answer_inline(text: str, lost: LossLog) -> JsonObject:
    size = len(text.encode())
    if size > INLINE_BYTES:
        raise InvalidInput("outputPath", f"the result has {size} bytes: name a file to write it to")
    return {"output": text, "bytes": size} | _lossy(lost)


def _answer_file(file: NewFile, target: str, lost: LossLog) -> JsonObject:
    artifact = {"path": file.path, "mimeType": MIME[target], "bytes": file.size}
    return {"outputPath": file.path, "bytes": file.size, "artifacts": [artifact]} | _lossy(lost)


def _lossy(lost: LossLog) -> JsonObject:
    words = lost.words()
    return {"lossy": words} if words else {}


def _stream(call: Call, source: str, path: str, output: str, lost: LossLog) -> NewFile:
    """Convert a file row by row."""
    descriptor, status = open_project_file(call, path)
    with os.fdopen(descriptor, "rb") as raw:
        file = NewFile(call, output)
        with file as held:
            read = _Lines(call, raw, status.st_size, passes=1 if source == "csv" else 2)
            pieces = _csv_to_jsonl(read) if source == "csv" else _jsonl_to_csv(read, lost)
            try:
                for piece in pieces:
                    held.write(piece.encode())
            except UnicodeDecodeError as error:
                raise Unreadable("UTF-8 text", f"byte {error.start} of a piece") from error
    return file


class _Lines:
    """The lines of a file, which can be read more than once, with progress over all passes."""

    def __init__(self, call: Call, raw: BinaryIO, size: int, passes: int) -> None:
        self._call, self._raw, self._size, self._total = call, raw, size, size * passes
        self._before = self._told = 0

    def read(self) -> Iterator[str]:
        """Yield the lines from the beginning of the file."""
        self._raw.seek(0)
        text = TextIOWrapper(self._raw, "utf-8-sig", newline="")
        try:
            while line := text.readline(MAX_LINE):
                if len(line) == MAX_LINE and not line.endswith("\n"):
                    raise Unreadable("rows", f"a line of more than {MAX_LINE} characters")
                self._tell(self._before + self._raw.tell())
                yield line
        finally:
            text.detach()
        self._before += self._size

    def _tell(self, done: int) -> None:
        if done - self._told >= PROGRESS_BYTES:
            self._told = done
            self._call.progress(min(done, self._total), self._total)


def _csv_to_jsonl(lines: _Lines) -> Iterator[str]:
    for row in tables.rows_of(lines.read()):
        yield f"{documents.line_of(row)}\n"


def _jsonl_to_csv(lines: _Lines, lost: LossLog) -> Iterator[str]:
    """Write csv rows in two passes: the columns must be known before the first row is written."""
    columns = tables.columns_of(_objects(lines, LossLog()))
    held = StringIO(newline="")
    tables.write_header(held, columns)
    yield held.getvalue()
    for at, row in _objects(lines, lost):
        held = StringIO(newline="")
        tables.write_row(held, columns, at, row, lost)
        yield held.getvalue()


def _objects(lines: _Lines, lost: LossLog) -> Iterator[tuple[int, object]]:
    kept = 0
    for number, line in enumerate(lines.read(), 1):
        if line.strip():
            yield kept, documents.read_line(line, number, lost)
            kept += 1
