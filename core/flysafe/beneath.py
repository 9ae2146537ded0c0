"""Opens files below the descriptor of a folder, the anchor, so that no link and no race leads outside.

A program that resolves a path and opens it afterwards can be tricked: somebody replaces a part of the path
with a link in between. Here the operating system resolves and opens in one step (`openat2` with
RESOLVE_BENEATH). Where it cannot, each component is opened by itself without following links (`walk`).

Errors are OSError: `OutsideAnchor` (EXDEV) for a path that leads outside, ELOOP for a link where links are
not allowed, for a magic link of /proc and for a loop, EINVAL for a name that no file can have, and the
system's own errors.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from flysafe import openat2, walk
from flysafe.walk import OutsideAnchor

__all__ = ("OutsideAnchor", "open_anchor", "open_beneath", "read_beneath", "real_path_of")

_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)


def open_anchor(path: str | Path) -> int:
    """Return a descriptor of the folder `path`, for opening files below it. The caller closes it.

    Links in `path` itself are followed, because a person named this path.
    """
    return os.open(path, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_beneath(anchor_fd: int, relative: str, flags: int, mode: int = 0o600, *, links: bool = False) -> int:
    """Open `relative` below the anchor and return the descriptor, which the caller closes.

    With `links`, links that stay below the anchor are followed; absolute links never do. `..` is allowed
    while it stays below. `mode` is that of a new file. A terminal never becomes the controlling one.
    """
    if "\0" in relative:
        raise OSError(errno.EINVAL, "a NUL in the path", relative)
    if relative.startswith("/"):
        raise OutsideAnchor(relative)
    try:
        name = os.fsencode(relative)
    except UnicodeEncodeError as error:
        raise OSError(errno.EINVAL, "not a file name", relative) from error
    flags |= os.O_CLOEXEC | (0 if flags & _PATH_ONLY else os.O_NOCTTY)  # openat2 refuses both together
    opener = openat2.open_resolved if openat2.available() else walk.open_walking
    return opener(anchor_fd, name, flags, mode, links)


def read_beneath(
    anchor: Path, relative: str, limit: int, *, links: bool = False, head: bool = False
) -> bytes:
    """Return the contents of a regular file of at most `limit` bytes.

    With `head`, the result for a larger file is its first `limit` bytes. Raises OSError: EFBIG for a larger
    file otherwise, EISDIR for a folder, and EINVAL for a device, a pipe or a socket.
    """
    anchor_fd = open_anchor(anchor)
    try:
        # Without O_NONBLOCK, opening a pipe would wait until somebody writes to it.
        fd = open_beneath(anchor_fd, relative, os.O_RDONLY | os.O_NONBLOCK, links=links)
    finally:
        os.close(anchor_fd)
    with os.fdopen(fd, "rb") as file:
        kind = os.fstat(fd).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), relative)
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", relative)
        data = file.read(limit + (not head))  # one byte more shows that the file is larger
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", relative)
    return data


def real_path_of(fd: int) -> str:
    """Return the current absolute path of the descriptor's file. FileNotFoundError where it was deleted."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    path = os.readlink(f"/proc/self/fd/{fd}")  # of a deleted file it ends in " (deleted)", hence the check
    if not os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path
