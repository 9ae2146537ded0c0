"""Files that are either the old or the new one, and folders that are nobody else's."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace `path` by a file of exactly these bytes and mode, on disk when this returns.

    A reader, and a machine that loses power, sees the whole old file or the whole new one. A link at `path`
    is replaced, not followed. Raises OSError, and then leaves `path` as it was and nothing beside it.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_in(folder, path.name, data, mode)
    finally:
        os.close(folder)


def write_in(folder: int, name: str, data: bytes, mode: int) -> None:
    """The same in an open folder, whatever path leads to it by now."""
    beside = f".{name[:128]}.{secrets.token_hex(8)}"
    try:
        _write_new(folder, beside, data, mode)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    os.fsync(folder)


def _write_new(folder: int, name: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)


def private_folder(path: Path) -> None:
    """Make sure of a folder 0700 that belongs to this user; missing parents are made the same way.

    PermissionError where it cannot be trusted: another's, a link or no folder, or one that others could have
    written to. A folder that others could only read is closed to them.
    """
    missing = [path]
    while not os.path.lexists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _untrusted(path, "is a link or no folder") from error
        raise
    try:
        _take(fd, path)
    finally:
        os.close(fd)


def _take(fd: int, path: Path) -> None:
    facts = os.fstat(fd)
    if facts.st_uid != os.geteuid():
        raise _untrusted(path, f"belongs to user {facts.st_uid}")
    if facts.st_mode & _OTHERS_WRITE:
        raise _untrusted(path, "others may write to it")
    if stat.S_IMODE(facts.st_mode) != stat.S_IRWXU:
        os.fchmod(fd, stat.S_IRWXU)


def _untrusted(path: Path, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, why, str(path))
