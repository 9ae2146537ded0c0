"""Atomic writes of files, and folders that only this user can use."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from flysafe.beneath import open_anchor, open_beneath, read_beneath, real_path_of

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace `path` with a file of exactly these bytes and this mode, on disk when this returns.

    Readers see the whole old file or the whole new one, also after a loss of power. A link at `path` is
    replaced, not followed. Raises OSError; then `path` is as it was, and no other file is left.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_in(folder, path.name, data, mode)
    finally:
        os.close(folder)


def write_in(folder: int, name: str, data: bytes, mode: int) -> None:
    """Replace the file `name` of an open folder, as `write_atomic` does. The folder may have been moved."""
    # The temporary file must be in the same folder: `rename` is atomic only within one file system.
    beside = f".{name[:128]}.{secrets.token_hex(8)}"
    try:
        _write_new(folder, beside, data, mode)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    os.fsync(folder)  # without this, the rename may be lost with the power although the data is not


def _write_new(folder: int, name: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)


def private_folder(path: Path, mode: int = stat.S_IRWXU) -> None:
    """Make a folder with that mode, and missing parents with mode 0700, or check the one that exists.

    Raises PermissionError where the folder is not safe: it belongs to another user, is a link or not a
    folder, or other users could write to it. A folder with another mode gets this one, so that others cannot
    read it; one that has it already is left as it is, with the time of its last change.
    """
    with contextlib.suppress(OSError):
        facts = os.lstat(path)
        # Most often it is there and as it should be, which one look shows.
        if stat.S_ISDIR(facts.st_mode) and _is_private(facts, mode):
            return
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
            raise _untrusted(path, "is a link or not a folder") from error
        raise
    try:
        _make_private(fd, path, mode)
    finally:
        os.close(fd)


def _make_private(fd: int, path: Path, mode: int) -> None:
    # By the descriptor, not by the path: another folder could take its place between check and change.
    facts = os.fstat(fd)
    if facts.st_uid != os.geteuid():
        raise _untrusted(path, f"belongs to user {facts.st_uid}")
    if facts.st_mode & _OTHERS_WRITE:
        raise _untrusted(path, "other users may write to it")
    if stat.S_IMODE(facts.st_mode) != mode:
        os.fchmod(fd, mode)


def _is_private(facts: os.stat_result, mode: int) -> bool:
    own = facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS_WRITE
    return own and stat.S_IMODE(facts.st_mode) == mode


def _untrusted(path: Path, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, why, str(path))


_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def replace_beneath(anchor: Path, relative: str, before: bytes, data: bytes) -> None:
    """Replace the contents of a file below `anchor`, which must still be `before`. Its mode stays.

    A link that stays below the anchor is followed and kept. Readers see the whole old file or the whole new
    one. Raises OSError, with EBUSY where the contents are not `before`; then the file is as it was.
    """
    with _anchor(anchor) as anchor_fd:
        fd = open_beneath(anchor_fd, relative, os.O_RDONLY | os.O_NONBLOCK, links=True)
        with os.fdopen(fd, "rb"):
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            # The rename below must replace the file that the link leads to, and not the link.
            real = os.path.relpath(real_path_of(fd), real_path_of(anchor_fd))
        folder = open_beneath(anchor_fd, os.path.dirname(real) or ".", _FOLDER)
        try:
            if read_beneath(anchor, real, len(before) + 1) != before:
                raise OSError(errno.EBUSY, "it was changed in the meantime; try again")
            write_in(folder, os.path.basename(real), data, mode)
        finally:
            os.close(folder)


def create_beneath(anchor: Path, relative: str, data: bytes, mode: int = 0o644) -> None:
    """Make a file below `anchor`, and its folders where they are missing.

    Raises FileExistsError where anything has that name, even a broken link, and OSError for other failures.
    No part of the file is left then.
    """
    parent, name = os.path.split(relative)
    with _anchor(anchor) as anchor_fd:
        if parent:
            make_folders(anchor_fd, parent)
        folder = open_beneath(anchor_fd, parent or ".", _FOLDER, links=True)
        try:
            fd = os.open(
                name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                mode,
                dir_fd=folder,
            )
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise
            os.fsync(folder)
        finally:
            os.close(folder)


def make_folders(anchor_fd: int, relative: str) -> None:
    """Make the folders of a relative path, each where it is missing, below the descriptor of the one before.

    A link that leads outside is not followed: then the next step raises OSError.
    """
    above = "."
    for name in relative.split("/"):
        fd = open_beneath(anchor_fd, above, _FOLDER, links=True)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=fd)
        finally:
            os.close(fd)
        above = f"{above}/{name}"


@contextlib.contextmanager
def _anchor(path: Path) -> Iterator[int]:
    fd = open_anchor(path)
    try:
        yield fd
    finally:
        os.close(fd)
