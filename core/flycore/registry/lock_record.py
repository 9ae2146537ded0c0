"""The record in the lock file of a root, as far as a program needs it that looks for the kernel.

It uses the standard library only, because a command that sends one message must start fast.
"""

from __future__ import annotations

import os
import stat

from flysafe.runtime_folder import MAX_SOCKET_PATH

MAX_RECORD_BYTES = 64 * 1024
"""More than a record may have: a path has at most 4,096 bytes, and in JSON six times as many."""


def read_lock_record(path: str | os.PathLike[str]) -> bytes | None:
    """Return the bytes of the record; None where it cannot be read, or where another user owns the file or
    may write it."""
    try:
        # A pipe in this place would block without O_NONBLOCK.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        facts = os.fstat(fd)
        writable_by_others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or writable_by_others:
            return None
        return os.read(fd, MAX_RECORD_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)


def is_socket_path(named: str) -> bool:
    """Return whether a record may name this path as that of the holder's socket."""
    return os.path.isabs(named) and "\0" not in named and len(os.fsencode(named)) <= MAX_SOCKET_PATH
