"""Digests of files, read through a descriptor and remembered by what `stat` says of them."""

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
"""A file that changed this recently could change again within one tick of its clock: not remembered."""

_remembered: dict[Identity, str] = {}


def identity(about: os.stat_result) -> Identity:
    """What tells this content of this file from any other."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def file_digest(path: str) -> tuple[Identity, str]:
    """Identity and SHA-256 of a regular file; no link is followed at the end of `path`.

    Raises OSError where it cannot be read, is no regular file, or changes while it is read.
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
    """A descriptor for reading a regular file, and never one that blocks or is reached by a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "is no regular file", path)
    return descriptor


def read_through(descriptor: int, path: str, take: Callable[[bytes], object]) -> str:
    """SHA-256 of all bytes, each handed to `take` as well. Raises OSError when the file changes meanwhile."""
    before = identity(os.fstat(descriptor))
    sha = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        sha.update(chunk)
        take(chunk)
    if identity(os.fstat(descriptor)) != before:
        raise OSError(None, "changed while it was read", path)
    return sha.hexdigest()


def known_digest(about: Identity) -> str | None:
    """The digest of that content, where it was read before."""
    return _remembered.get(about)


def remember(descriptor: int, sha: str) -> tuple[Identity, str]:
    """Note the digest that was just read through `descriptor`; its identity with it."""
    now = identity(os.fstat(descriptor))
    if settled(now):
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[now] = sha
    return now, sha


def settled(about: Identity) -> bool:
    """Whether the last change is so long ago that another one shows. Whatever sets mtime moves ctime."""
    return time.time_ns() - about[4] > _SETTLED_NS
