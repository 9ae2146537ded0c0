"""The file that an agent wants to change, read by the kernel before anyone is asked: what the change makes of
it is shown as a diff, and the approval holds for the file as it was read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import msgspec

from flycore.executive.file_change import ChangeDoesNotFit, apply_change, diff_lines
from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict

MOST_FILE_BYTES = 4 * 1024 * 1024
"""Of a file that is looked at."""
NEW_FILE = "new"
"""In the place of a digest where there is no such file."""


class FileTarget(Value, frozen=True, kw_only=True):
    """The file as it was, and what the change would make of it."""

    preview: Preview
    diff: tuple[str, ...] = ()


def read_file_target(input: JsonObject, root: Path) -> FileTarget:
    """Look at the file of an `agent.edit`. A path that is not absolute starts at `cwd`, else at `root`. What
    cannot be read, or does not fit, is said in the preview: the person decides on the input alone then."""
    given, cwd = str(input.get("path", "")), input.get("cwd")
    if "\0" in given or (isinstance(cwd, str) and "\0" in cwd):
        return FileTarget(preview=Preview(file=given, unread="the path holds a NUL"))
    path = os.path.realpath(root / (cwd if isinstance(cwd, str) else "") / given)
    try:
        data = _read(path)
    except FileNotFoundError:
        return _file_target(path, NEW_FILE, b"", input)
    except OSError as error:
        return FileTarget(preview=Preview(file=path, unread=error.strerror or str(error)))
    return _file_target(path, hashlib.sha256(data).hexdigest(), data, input)


def _read(path: str) -> bytes:
    """The bytes of a regular file. Raises OSError; opens nothing that could wait or be changed by opening."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MOST_FILE_BYTES // 1024 // 1024} MiB")
    return data


def _file_target(path: str, digest: str, data: bytes, input: JsonObject) -> FileTarget:
    preview = Preview(file=path, file_digest=digest)
    try:
        before, after = _texts(data, input)
        diff = diff_lines(before, after)
    except UnicodeDecodeError:
        return FileTarget(preview=msgspec.structs.replace(preview, unread="it is not UTF-8 text"))
    except (ChangeDoesNotFit, StrictJsonError) as error:
        return FileTarget(preview=msgspec.structs.replace(preview, unread=str(error)))
    return FileTarget(preview=preview, diff=diff)


def _texts(data: bytes, input: JsonObject) -> tuple[str, str]:
    """The text before and after the change, of the file or of a notebook's cell.

    Raises Unfit, StrictJsonError and UnicodeDecodeError.
    """
    cell = input.get("cell")
    if not isinstance(cell, dict):
        text = data.decode("utf-8")
        return text, apply_change(text, input)
    after = str(cell.get("new_source", ""))
    mode = cell.get("edit_mode", "replace")
    if mode == "insert":
        return "", after
    source = _source(read_strict(data), cell.get("cell_id"))
    return source, "" if mode == "delete" else after


def _source(notebook: Json, wanted: Json) -> str:
    """Text of the cell of that id."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict) and cell.get("id") == wanted and wanted is not None:
            source = cell.get("source")
            return "".join(map(str, source)) if isinstance(source, list) else str(source)
    raise ChangeDoesNotFit("the notebook has no cell of that id")
