"""Digests of folders that a program runs in place from: its own folder, a folder that an argument names, and
the working folder.

Left out are `.git`, caches, what the folder's `.gitignore` leaves out, and what the tool declares to write.
Nothing of these is read, so that a tool which writes its own files does not change its seal.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from flycore.sandbox.digests import ChangedWhileReadError, file_digest
from flycore.sandbox.observed_files import note_content, real_path

MOST_FILES = 5_000
MOST_BYTES = 64 << 20
LARGEST_IGNORE_FILE = 1 << 16
CACHES = frozenset(
    {"__pycache__", ".cache", ".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn", ".tox"}
)
"""Names of folders that version control and caches of build tools live in."""

Ignored = Callable[[str, bool], bool]
"""Whether a path relative to the folder, of a folder or not, is left out."""


class TooLargeError(OSError):
    """The folder holds more than is sealed of a folder in place."""


class FolderDigest(msgspec.Struct, frozen=True):
    """The digest of a folder, and in words what of it is not covered."""

    digest: str
    left_out: tuple[str, ...] = ()


def folder_digest(
    root: str, written: tuple[str, ...] = (), apart: frozenset[str] = frozenset()
) -> FolderDigest:
    """The digest over names, kinds, rights and contents below `root`, a real path. `written` are the absolute
    paths that the tool declares to write; those of `apart` have seals of their own.

    Raises TooLargeError above the limits, and OSError for a file that cannot be read or changes meanwhile.
    """
    ignored = _ignored_by(root)
    sha = hashlib.sha256(b"flytui folder 1\0")
    size = 0
    left_out: dict[str, None] = {}
    for files, (path, about) in enumerate(_walk(root, ignored, written, apart, left_out), start=1):
        size += about.st_size if stat.S_ISREG(about.st_mode) else 0
        if files > MOST_FILES or size > MOST_BYTES:
            raise TooLargeError(None, "holds more than can be sealed", root)
        for part in _parts(root, path, about, left_out):
            encoded = os.fsencode(part)
            sha.update(b"%d:" % len(encoded))
            sha.update(encoded)
    return FolderDigest(sha.hexdigest(), tuple(left_out))


def is_written(path: str, written: tuple[str, ...]) -> bool:
    """Whether the tool declares to write the path or a folder above it."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in written)


def _walk(
    root: str,
    ignored: Ignored,
    written: tuple[str, ...],
    apart: frozenset[str],
    left_out: dict[str, None],
) -> Iterator[tuple[str, os.stat_result]]:
    """Every member that counts, with its path relative to `root`, sorted within each folder."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        where = os.path.join(root, folder) if folder else root
        note_content(where, os.lstat(where))
        with os.scandir(where) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError as fault:
                # It went between the listing and this look; the whole seal is made again.
                raise ChangedWhileReadError(None, "changed while it was read", entry.path) from fault
            is_folder = stat.S_ISDIR(about.st_mode)
            if (is_folder and entry.name in CACHES) or entry.path in apart:
                continue
            if is_written(entry.path, written):
                left_out["what the tool declares to write"] = None
                continue
            if ignored(path, is_folder):
                left_out["what .gitignore leaves out"] = None
                continue
            if is_folder:
                waiting.append(path)
            note_content(entry.path, about)
            yield path, about


def _parts(root: str, path: str, about: os.stat_result, left_out: dict[str, None]) -> Iterator[str]:
    """What goes into the digest of one member."""
    kind = stat.S_IFMT(about.st_mode)
    # The rights to run decide what runs; those to read and write do not.
    yield f"{kind:o} {about.st_mode & 0o111:o}"
    yield path
    full = os.path.join(root, path)
    if kind == stat.S_IFREG:
        yield file_digest(full)[1]
    elif kind == stat.S_IFLNK:
        yield os.readlink(full)
        yield _behind_link(root, full, path, left_out)


def _behind_link(root: str, full: str, path: str, left_out: dict[str, None]) -> str:
    """The digest of the file that a link leads to; a folder within `root` is read for itself."""
    target = real_path(full)
    if target is None:
        return "absent"
    about = os.lstat(target)
    if stat.S_ISREG(about.st_mode):
        return file_digest(target)[1]
    if not (target + "/").startswith(root.rstrip("/") + "/"):
        left_out[f"the folder that {path} leads to"] = None
    return "other"


# The patterns of a `.gitignore`, as gitignore(5) describes them.


def _ignored_by(root: str) -> Ignored:
    path = os.path.join(root, ".gitignore")
    try:
        about = os.lstat(path)
    except OSError:
        note_content(path, None)
        return lambda relative, folder: False
    note_content(path, about)
    if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_IGNORE_FILE:
        return lambda relative, folder: False
    with open(path, "rb") as file:
        text = file.read(LARGEST_IGNORE_FILE)
    return ignore_rules(text.decode("utf-8", "surrogateescape"))


@lru_cache(maxsize=16)
def ignore_rules(text: str) -> Ignored:
    """The patterns of a `.gitignore` as a function; the last pattern that fits decides."""
    rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def ignored(path: str, folder: bool) -> bool:
        verdict, names = False, path.split("/")
        for pattern, negated, only_folders in rules:
            if (folder or not only_folders) and _fits(pattern, names):
                verdict = not negated
        return verdict

    return ignored


_AnyFolders = None
"""Stands in a pattern for `**`, which fits any number of folders."""
_Segment = re.Pattern[str] | None


def _rule(line: str) -> tuple[list[_Segment], bool, bool] | None:
    """The pattern of a line by its segments, whether it takes names back in, and whether it is for folders
    only."""
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!")
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = re.sub(r"\\(.)", r"[\1]", text.lstrip("/"))
    if not text:
        return None
    # `fnmatch` makes expressions that do not backtrack beyond one star: a clone's pattern cannot hold the
    # kernel up.
    segments: list[_Segment] = [
        _AnyFolders if segment == "**" else re.compile(fnmatch.translate(segment))
        for segment in text.split("/")
    ]
    return segments if anchored else [_AnyFolders, *segments], negated, only_folders


def _fits(pattern: list[_Segment], path: list[str]) -> bool:
    """Whether the segments of a pattern fit those of a path. Only the last `**` is tried again, which is
    enough, as for stars within a name."""
    at = here = 0
    again: tuple[int, int] | None = None
    while here < len(path):
        segment = pattern[at] if at < len(pattern) else False
        if segment is _AnyFolders:
            again, at = (at + 1, here), at + 1
        elif isinstance(segment, re.Pattern) and segment.fullmatch(path[here]):
            at, here = at + 1, here + 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            at, here = again
        else:
            return False
    return at == len(pattern)
