"""Digests of files, read through a descriptor and remembered by the facts that `stat` returns."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable

Identity = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds."""

_CHUNK = 1 << 20
_MOST_REMEMBERED = 8_192
_SETTLED_NS = 100_000_000
"""The digest of a file that changed this recently is not remembered: it could change again within one tick of
the file system's clock, and the change would not show."""

_remembered: dict[Identity, str] = {}


def identity(about: os.stat_result) -> Identity:
    """The facts that change whenever the content of the file does."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def file_digest(path: str) -> tuple[Identity, str]:
    """The identity and SHA-256 of a regular file; a link at the end of `path` is not followed.

    Raises OSError where the file cannot be read, is not a regular file, or changes while it is read.
    """
    about = os.stat(path, follow_symlinks=False)
    known = _remembered.get(identity(about))
    if known is not None and stat.S_ISREG(about.st_mode):
        return identity(about), known
    descriptor = open_regular(path)
    try:
        return remember(descriptor, read_through(descriptor, path, lambda _: None))
    finally:
        os.close(descriptor)


def open_regular(path: str) -> int:
    """A descriptor for reading a regular file. Raises OSError for a link and for any other kind of file."""
    # O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "is not a regular file", path)
    return descriptor


def read_through(descriptor: int, path: str, take: Callable[[bytes], object]) -> str:
    """The SHA-256 of all bytes, which are also passed to `take`. Raises OSError where the file changes
    meanwhile."""
    before = identity(os.fstat(descriptor))
    sha = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        sha.update(chunk)
        take(chunk)
    if identity(os.fstat(descriptor)) != before:
        raise OSError(None, "changed while it was read", path)
    return sha.hexdigest()


def known_digest(about: Identity) -> str | None:
    """The digest of the file with that identity; None where it is not remembered."""
    return _remembered.get(about)


def remember(descriptor: int, sha: str) -> tuple[Identity, str]:
    """Remember the digest that was just read through `descriptor`, and return it with the file's identity."""
    now = identity(os.fstat(descriptor))
    if settled(now):
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[now] = sha
    return now, sha


def settled(about: Identity) -> bool:
    """Whether the last change is so long ago that a further one would show in the file's times."""
    # ctime decides: a program can set mtime to any value, but that moves ctime to the present.
    return time.time_ns() - about[4] > _SETTLED_NS
