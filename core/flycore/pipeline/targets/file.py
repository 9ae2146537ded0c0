"""The file that an agent wants to change, as a target: the kernel reads it before a person is asked, shows
the change as lines of a diff, and binds the approval to the file as it was read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict

AROUND = 3
"""How many unchanged lines are shown before and after a change."""
MOST_PAIRS = 20_000
"""Up to how many pairs of equal lines two texts are compared line by line."""
MOST_FILE_BYTES = 4 * 1024 * 1024
"""The largest file that is read."""
MOST_SEARCHED = 256 * 1024 * 1024
"""Characters that all edits of one change may search together."""
NEW_FILE = "new"
"""Stands in place of the digest of a file that does not exist yet."""


class ChangeDoesNotFit(Exception):
    """The change does not fit the text; the message says why."""


def apply_change(before: str, change: JsonObject) -> str:
    """The text after the change's `edits`, or its `content`. Raises ChangeDoesNotFit."""
    content, edits = change.get("content"), change.get("edits")
    if isinstance(content, str):
        return content
    text = before
    wanted = edits if isinstance(edits, list) else []
    # Each edit searches the whole text.
    if len(wanted) * len(before) > MOST_SEARCHED:
        raise ChangeDoesNotFit(f"{len(wanted):,} edits are too many for a file of {len(before):,} characters")
    for number, edit in enumerate(wanted, 1):
        if len(text) > MOST_FILE_BYTES:
            raise ChangeDoesNotFit(
                f"after {number - 1} edits the text is longer than {MOST_FILE_BYTES:,} characters"
            )
        text = _edited(text, edit, number)
    return text


def _edited(text: str, edit: Json, number: int) -> str:
    if not isinstance(edit, dict):
        raise ChangeDoesNotFit(f"edit {number} is not an object")
    old, new = str(edit.get("old", "")), str(edit.get("new", ""))
    if not old:
        if text:
            raise ChangeDoesNotFit(f"edit {number} replaces nothing, and the file is not empty")
        return new
    found = text.count(old)
    if not found:
        raise ChangeDoesNotFit(f"the text that edit {number} replaces is not in the file")
    if found > 1 and edit.get("all") is not True:
        raise ChangeDoesNotFit(f"the text that edit {number} replaces is in the file {found} times")
    return text.replace(old, new)


def diff_lines(before: str, after: str) -> tuple[str, ...]:
    """The difference: `@@ line N`, then lines that begin with a space, `-` or `+`; empty where nothing
    changes. A text that does not end with a newline differs from one that does."""
    old, new = _lines(before), _lines(after)
    return tuple(_hunks(old, new, _changes(old, new)))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]} (no newline at the end)"]
    return lines[:-1]


LineRange = tuple[int, int, int, int]
"""Lines `[0]` to `[1]` of the old text become lines `[2]` to `[3]` of the new one."""


def _changes(old: Sequence[str], new: Sequence[str]) -> list[LineRange]:
    least = min(len(old), len(new))
    head = next((at for at in range(least) if old[at] != new[at]), least)
    rest = least - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left and not right:
        return []
    spans = [(0, len(left), 0, len(right))]
    # SequenceMatcher takes time in proportion to the pairs of equal lines: a file of thousands of equal
    # lines would hold up the kernel. Above the bound the changed part is shown whole, once as removed and
    # once as added.
    counts = Counter(right)
    if sum(counts[line] for line in left) <= MOST_PAIRS:
        codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        spans = [(a, b, c, d) for tag, a, b, c, d in codes if tag != "equal"]
    return [(a + head, b + head, c + head, d + head) for a, b, c, d in spans]


def _hunks(old: Sequence[str], new: Sequence[str], spans: list[LineRange]) -> Iterator[str]:
    shown = 0
    for index, (a, b, c, d) in enumerate(spans):
        begin = max(shown, a - AROUND)
        if begin > shown or index == 0:
            yield f"@@ line {begin + 1}"
        yield from (f" {line}" for line in old[begin:a])
        yield from (f"-{line}" for line in old[a:b])
        yield from (f"+{line}" for line in new[c:d])
        following = spans[index + 1][0] if index + 1 < len(spans) else len(old)
        shown = min(b + AROUND, following, len(old))
        yield from (f" {line}" for line in old[b:shown])


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
