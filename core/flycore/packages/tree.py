"""The files of a package: listed, and their checksum.

A package holds files and folders only. A file has one of two modes, 0755 where its owner may execute it and
0644 otherwise, since archives keep no more than that. The checksum is the SHA-256 over one line for each file
but the metadata: path, mode in octal and SHA-256 of its contents, separated by NUL, in the order of the bytes
of the paths, each line ended by a newline.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator

import msgspec

from flycore.packages.area import PackageRefused
from flysafe.beneath import open_beneath

MOST_FILES = 10_000
MOST_BYTES = 512 << 20
"""The limits of a package: its files, and their bytes together."""
LEFT_OUT = frozenset((".git", "__pycache__"))
"""Folders that are no part of a package that is taken from a folder."""
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 16
PROGRAM, FILE = 0o755, 0o644
"""The modes of a package's files: with and without the right to execute."""


class TreeFile(msgspec.Struct, frozen=True):
    """One file of a package."""

    path: str
    mode: int
    sha256: str
    size: int


def walk(anchor: int, relative: str) -> Iterator[tuple[str, bool]]:
    """Yield the path of each file and folder, and whether it is a folder; a folder before what is in it.

    Raises PackageRefused (`links`) for anything else.
    """
    fd = open_beneath(anchor, relative or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(fd) as found:
            items = sorted((item.name, item.stat(follow_symlinks=False).st_mode) for item in found)
    finally:
        os.close(fd)
    for name, mode in items:
        path = f"{relative}/{name}" if relative else name
        if stat.S_ISDIR(mode):
            if name not in LEFT_OUT:
                yield path, True
                yield from walk(anchor, path)
        elif stat.S_ISREG(mode):
            yield path, False
        else:
            raise PackageRefused("links", f"{path}: a package holds files and folders only, and no links")


def read_tree(folder: int) -> tuple[TreeFile, ...]:
    """Return all files below an open folder, in the order of the bytes of their paths.

    Raises PackageRefused (`links`, `too-many`, `too-big`) and OSError.
    """
    files: list[TreeFile] = []
    total = 0
    for path, is_folder in walk(folder, ""):
        if is_folder:
            continue
        if len(files) >= MOST_FILES:
            raise PackageRefused("too-many", f"more than {MOST_FILES} files")
        files.append(_tree_file(folder, path, MOST_BYTES - total))
        total += files[-1].size
    return tuple(sorted(files, key=lambda file: os.fsencode(file.path)))


def _tree_file(folder: int, path: str, room: int) -> TreeFile:
    fd = open_beneath(folder, path, READ)
    with os.fdopen(fd, "rb") as content:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise PackageRefused("links", f"{path}: changed while it was read")
        sha, size = hashlib.sha256(), 0
        while chunk := content.read(CHUNK):
            size += len(chunk)
            if size > room:
                raise PackageRefused("too-big", f"more than {MOST_BYTES} bytes")
            sha.update(chunk)
    return TreeFile(path, PROGRAM if facts.st_mode & 0o100 else FILE, sha.hexdigest(), size)


def checksum(files: tuple[TreeFile, ...], metadata: str = "") -> str:
    """Return the checksum over all files but the one named `metadata`: 64 hex digits."""
    sha = hashlib.sha256()
    for file in files:
        if file.path != metadata:
            sha.update(b"%s\0%04o\0%s\n" % (os.fsencode(file.path), file.mode, file.sha256.encode("ascii")))
    return sha.hexdigest()


def is_missing(error: OSError) -> bool:
    """Return whether the error says that there is nothing of that name."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR)
