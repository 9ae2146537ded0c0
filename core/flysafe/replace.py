"""Replacing and making single files beneath an anchor, so that no link and no race leads out of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flysafe.atomic import write_in
from flysafe.beneath import open_anchor, open_beneath, read_beneath, real_path_of

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def replace_beneath(anchor: Path, relative: str, before: bytes, data: bytes) -> None:
    """Replace the file's bytes, which still have to be `before`; its mode stays. A link that stays below the
    anchor is followed, and stays. A reader sees the whole old file or the whole new one.

    Raises OSError, EBUSY where the file is another by now; then it is as it was.
    """
    with _anchor(anchor) as anchor_fd:
        fd = open_beneath(anchor_fd, relative, os.O_RDONLY | os.O_NONBLOCK, links=True)
        with os.fdopen(fd, "rb"):
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            real = os.path.relpath(real_path_of(fd), real_path_of(anchor_fd))
        folder = open_beneath(anchor_fd, os.path.dirname(real) or ".", _FOLDER)
        try:
            if read_beneath(anchor, real, len(before) + 1) != before:
                raise OSError(errno.EBUSY, "it was changed meanwhile; try again")
            write_in(folder, os.path.basename(real), data, mode)
        finally:
            os.close(folder)


def create_beneath(anchor: Path, relative: str, data: bytes, mode: int = 0o644) -> None:
    """Make a file, and the one folder it lies in where that is missing. FileExistsError where anything has
    that name, be it a link that leads nowhere; OSError otherwise, and then nothing of it stays."""
    parent, name = os.path.split(relative)
    with _anchor(anchor) as anchor_fd:
        if parent:
            _make_folder(anchor_fd, parent)
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


def _make_folder(anchor_fd: int, name: str) -> None:
    """One folder directly below the anchor."""
    with contextlib.suppress(FileExistsError):
        fd = open_beneath(anchor_fd, ".", _FOLDER)
        try:
            os.mkdir(name, 0o755, dir_fd=fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _anchor(path: Path) -> Iterator[int]:
    fd = open_anchor(path)
    try:
        yield fd
    finally:
        os.close(fd)
