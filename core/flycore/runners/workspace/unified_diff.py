"""Reads unified diffs, as `diff -u` and `git diff` write them, and applies their hunks: pure functions.

A hunk has to fit exactly. It is applied at the line that it names, or, where it does not fit there, at the
one other place where it does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from flycore.model.base import Value
from flycore.runners.workspace.text_changes import ChangeDoesNotFit

MOST_FILES = 200
MOST_HUNKS = 5_000
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NO_NEWLINE = "\\"
_NOWHERE = "/dev/null"
_UNSUPPORTED = {
    "rename from": "renames are not applied: delete the file and make the other one",
    "copy from": "copies are not applied: make the file",
    "GIT binary patch": "binary patches are not applied",
    "Binary files": "binary patches are not applied",
    "old mode": "changes of modes are not applied",
}


class BadPatch(ChangeDoesNotFit):
    """The text is no patch that can be applied; the message says why, with the line."""


class Hunk(Value, frozen=True):
    """One hunk: what it replaces, with the lines around it, and what takes its place. Lines hold their line
    ends."""

    start: int
    """The line of the old file where it begins, from 1; 0 for an empty file."""
    old: tuple[str, ...]
    new: tuple[str, ...]


class FilePatch(Value, frozen=True):
    """The patch of one file. `creates` and `deletes` say that there is none before or after."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the patches of the files, in their order. Raises BadPatch."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    reader = _Reader(lines)
    patches = reader.files()
    if not patches:
        raise BadPatch("there is no file in the patch: each begins with a line --- and a line +++")
    names = [patch.path for patch in patches]
    if len(set(names)) < len(names):
        raise BadPatch("the patch has one file twice: put all its hunks together")
    return tuple(patches)


class _Reader:
    """Reads the lines of a patch one after the other."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def _bad(self, why: str) -> BadPatch:
        return BadPatch(f"line {self._at + 1} of the patch: {why}")

    def files(self) -> list[FilePatch]:
        """Return all files. Lines between them, such as those of git and of mails, are passed over."""
        found: list[FilePatch] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            for beginning, why in _UNSUPPORTED.items():
                if line.startswith(beginning):
                    raise self._bad(why)
            following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
            if line.startswith("--- ") and following.startswith("+++ "):
                found.append(self._file(line[4:], following[4:]))
            elif line.startswith("@@ "):
                raise self._bad("a hunk without the lines --- and +++ of its file")
            else:
                self._at += 1
            if len(found) > MOST_FILES:
                raise self._bad(f"more than {MOST_FILES} files")
        return found

    def _file(self, before: str, after: str) -> FilePatch:
        old, new = _name(before), _name(after)
        if old == new == _NOWHERE:
            raise self._bad("neither side names a file")
        git = (old.startswith("a/") or old == _NOWHERE) and (new.startswith("b/") or new == _NOWHERE)
        if git:
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        if _NOWHERE not in (old, new) and old != new:
            raise self._bad(f"the two sides name different files, {old} and {new}: renames are not applied")
        self._at += 2
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@ "):
            hunks.append(self._hunk())
            if len(hunks) > MOST_HUNKS:
                raise self._bad(f"more than {MOST_HUNKS} hunks")
        if not hunks:
            raise self._bad("a file without hunks")
        creates, deletes = old == _NOWHERE, new == _NOWHERE
        if creates and (len(hunks) > 1 or hunks[0].old):
            raise self._bad("a new file has one hunk, which only adds lines")
        if deletes and (len(hunks) > 1 or hunks[0].new):
            raise self._bad("a deleted file has one hunk, which only removes lines")
        return FilePatch(new if creates else old, tuple(hunks), creates, deletes)

    def _hunk(self) -> Hunk:
        head = _HUNK.match(self._lines[self._at])
        if head is None:
            raise self._bad("it is no @@ line of a hunk")
        start = int(head[1])
        left, right = (1 if head[group] is None else int(head[group]) for group in (2, 4))
        self._at += 1
        old: list[str] = []
        new: list[str] = []
        while len(old) < left or len(new) < right:
            if self._at >= len(self._lines):
                raise self._bad("the patch ends within a hunk")
            self._line(old, new)
        self._last_ends(old, new)
        if len(old) != left or len(new) != right:
            raise self._bad("the hunk has another number of lines than its @@ line says")
        return Hunk(start, tuple(old), tuple(new))

    def _line(self, old: list[str], new: list[str]) -> None:
        line = self._lines[self._at]
        sign, rest = line[:1], line[1:] + "\n"
        # Editors and mails strip the blank of an empty line that stays.
        if sign in (" ", ""):
            old.append(rest)
            new.append(rest)
        elif sign == "-":
            old.append(rest)
        elif sign == "+":
            new.append(rest)
        elif sign == _NO_NEWLINE and (old or new):
            self._strip(old, new)
        else:
            raise self._bad("a line of a hunk begins with a blank, with - or with +")
        self._at += 1

    def _last_ends(self, old: list[str], new: list[str]) -> None:
        if self._at < len(self._lines) and self._lines[self._at].startswith(_NO_NEWLINE):
            self._strip(old, new)
            self._at += 1

    def _strip(self, old: list[str], new: list[str]) -> None:
        """Take the line end from the line before, of the side or sides that it belongs to."""
        sign = self._lines[self._at - 1][:1]
        for side, signs in ((old, " -"), (new, " +")):
            if side and (sign in signs or not sign):
                side[-1] = side[-1].removesuffix("\n")


def _name(text: str) -> str:
    """Return the file of a --- or +++ line; what stands behind a tab is a time."""
    name = text.split("\t", 1)[0].rstrip("\r")
    if name.startswith('"') and name.endswith('"') and len(name) > 1:
        return _unquoted(name[1:-1])
    return name


_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "a": b"\a", "b": b"\b", "f": b"\f"}
_ESCAPE = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)


def _unquoted(text: str) -> str:
    """Return a name as git quotes it: bytes as three octal digits, and the escapes of C."""
    # All of it becomes bytes first: one character may be written as several escapes.
    made = bytearray()
    for index, piece in enumerate(_ESCAPE.split(text)):
        if index % 2 == 0:
            made += piece.encode("utf-8", "surrogatepass")
        elif len(piece) == 3:
            made.append(int(piece, 8) & 0xFF)
        else:
            made += _ESCAPES.get(piece, piece.encode("utf-8", "surrogatepass"))
    return os.fsdecode(bytes(made))


def apply_hunks(before: str, patch: FilePatch) -> str:
    """Return the text after the hunks. Raises ChangeDoesNotFit."""
    lines = _split(before)
    result: list[str] = []
    done = shift = 0
    for number, hunk in enumerate(patch.hunks, 1):
        wanted = (hunk.start if not hunk.old else hunk.start - 1) + shift
        at = _place(lines, hunk, wanted, done)
        if at is None:
            raise ChangeDoesNotFit(
                f"hunk {number} of {patch.path}, at line {hunk.start}, does not fit the file as it is"
            )
        shift = at - (wanted - shift)
        result += lines[done:at]
        result += hunk.new
        done = at + len(hunk.old)
    result += lines[done:]
    if any(not line.endswith("\n") for line in result[:-1]):
        raise ChangeDoesNotFit(f"{patch.path} would have a line without its end before its last line")
    return "".join(result)


def _split(text: str) -> list[str]:
    """Return the lines with their ends, where only a newline ends a line."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _place(lines: Sequence[str], hunk: Hunk, wanted: int, least: int) -> int | None:
    """Return where the hunk fits, from `least` on: where it is wanted, or at the one other place."""
    old = list(hunk.old)
    if wanted >= least and lines[wanted : wanted + len(old)] == old and wanted <= len(lines):
        return wanted
    if not old:
        return None
    found = [
        at
        for at in range(least, len(lines) - len(old) + 1)
        if lines[at] == old[0] and lines[at : at + len(old)] == old
    ]
    return found[0] if len(found) == 1 else None
