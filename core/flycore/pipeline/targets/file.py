"""The file that an agent wants to change, as a target: the kernel reads it before a person is asked, shows
the change as lines of a diff, and binds the approval to the file as it was read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import msgspec

from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.runners.workspace.text_changes import (
    MOST_FILE_BYTES,
    ChangeDoesNotFit,
    apply_change,
    diff_lines,
)

NEW_FILE = "new"
"""Stands in place of the digest of a file that does not exist yet."""


class FileTarget(Value, frozen=True, kw_only=True):
    """The file as it was read, and the change that the call would make to it."""

    preview: Preview
    diff: tuple[str, ...] = ()


def read_file_target(input: JsonObject, root: Path) -> FileTarget:
    """Read the file of an `agent.edit`. A relative path starts at `cwd`, or at `root` where there is none.
    Where the file cannot be read or the change does not fit, the preview says why, and the person decides on
    the input alone."""
    given, cwd = str(input.get("path", "")), input.get("cwd")
    if "\0" in given or (isinstance(cwd, str) and "\0" in cwd):
        return FileTarget(preview=Preview(file=given, unread="the path holds a NUL character"))
    path = os.path.realpath(root / (cwd if isinstance(cwd, str) else "") / given)
    try:
        data = _read(path)
    except FileNotFoundError:
        return _file_target(path, NEW_FILE, b"", input)
    except OSError as error:
        return FileTarget(preview=Preview(file=path, unread=error.strerror or str(error)))
    return _file_target(path, hashlib.sha256(data).hexdigest(), data, input)


def _read(path: str) -> bytes:
    """The bytes of a regular file. Raises OSError."""
    # The type is checked before the open as well: opening a device can have an effect, such as rewinding a
    # tape.
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    # Without O_NONBLOCK the open would wait for a writer, if the file became a FIFO after the check.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
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

    Raises ChangeDoesNotFit, StrictJsonError and UnicodeDecodeError.
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
    """The text of the cell with that id. Raises ChangeDoesNotFit where there is none."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, dict) and cell.get("id") == wanted and wanted is not None:
            source = cell.get("source")
            return "".join(map(str, source)) if isinstance(source, list) else str(source)
    raise ChangeDoesNotFit("the notebook has no cell with that id")
