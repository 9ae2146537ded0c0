"""`workspace.read`: a page of whole lines of a text file."""

from __future__ import annotations

import hashlib
import io
import os

from flycore.model.json import JsonObject
from flycore.runners.workspace.project_files import READ, Project, opened, require_file, shown

PAGE_BYTES = 48 * 1024
"""Most bytes of text on one page; agents get results of at most 64 KiB."""
MOST_COUNTED = 64 * 1024 * 1024
"""How many bytes are read to count lines, and to make a digest."""
_HEAD = 8 * 1024
_CHUNK = 1024 * 1024


def read_page(project: Project, given: str, offset: int, limit: int) -> JsonObject:
    """Return the page of at most `limit` lines after the first `offset` ones.

    Raises PathRefused, and OSError where the file cannot be read.
    """
    with opened(project, given, READ) as (descriptor, real):
        about = require_file(descriptor, given)
        facts: JsonObject = {"path": shown(real), "bytes": about.st_size}
        with open(descriptor, "rb", closefd=False) as file:
            if b"\0" in file.read(_HEAD):
                return {**facts, **_binary(file, about)}
            file.seek(0)
            page = _page(file, offset, limit)
            if page is None:
                return {**facts, **_binary(file, about)}
            return {**facts, "binary": False, **page}


def _binary(file: io.BufferedReader, about: os.stat_result) -> JsonObject:
    if about.st_size > MOST_COUNTED:
        return {"binary": True}
    file.seek(0)
    found = hashlib.sha256()
    left = MOST_COUNTED
    while left > 0 and (chunk := file.read(min(left, _CHUNK))):
        found.update(chunk)
        left -= len(chunk)
    return {"binary": True, "sha256": found.hexdigest()}


def _page(file: io.BufferedReader, offset: int, limit: int) -> JsonObject | None:
    """Return the fields of the page; None where it is no UTF-8 text."""
    lines: list[bytes] = []
    size = number = read = 0
    cut = full = False
    # A line longer than a page is read in parts, and only its first part can be on a page.
    while read < MOST_COUNTED and (line := file.readline(PAGE_BYTES + 1)):
        read += len(line)
        whole = line.endswith(b"\n")
        if number >= offset and not full:
            full = len(lines) == limit or (bool(lines) and size + len(line) > PAGE_BYTES)
            if not full:
                lines.append(line[:PAGE_BYTES])
                size += len(line)
                cut = len(line) > PAGE_BYTES
        while not whole and read < MOST_COUNTED and (rest := file.readline(_CHUNK)):
            read += len(rest)
            whole = rest.endswith(b"\n")
        number += 1
    counted = read < MOST_COUNTED
    return _fields(lines, offset, number if counted else None, more=full or not counted, cut=cut)


def _fields(
    lines: list[bytes], offset: int, total: int | None, *, more: bool, cut: bool
) -> JsonObject | None:
    data = b"".join(lines)
    try:
        text = data.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        # The cut may go through a character.
        if not cut or error.start < len(data) - 3:
            return None
        text = data[: error.start].decode("utf-8", "strict")
    fields: JsonObject = {"text": text, "firstLine": offset + 1, "lines": len(lines)}
    if total is not None:
        fields["totalLines"] = total
    if more and lines:
        fields["nextOffset"] = offset + len(lines)
    if cut:
        fields["cutLine"] = True
    return fields
