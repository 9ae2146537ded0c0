"""Opening files below an anchor's descriptor, so that no link and no race leads out of it.

Resolving a path and then opening it loses the race against whoever swaps a link in between. Here the kernel
resolves and opens in one step (`openat2` with RESOLVE_BENEATH); where it cannot, each component is opened by
itself without following links (`walk`).

Errors are OSError: `OutsideAnchor` (EXDEV) for a path that leaves, ELOOP for a link where links are not
allowed, a magic link of /proc or a loop, EINVAL for a name that no file can have, else the system's own.
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
    """A descriptor of the folder, for nothing but opening below it. The caller closes it.

    Links in `path` itself are followed: the anchor is where the person pointed.
    """
    return os.open(path, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_beneath(anchor_fd: int, relative: str, flags: int, mode: int = 0o600, *, links: bool = False) -> int:
    """Open `relative`, resolved below the anchor; the caller closes the descriptor.

    With `links`, links that stay below the anchor are followed (absolute ones never do). `..` is allowed as
    long as it stays. `mode` counts where `flags` create. Never becomes the controlling terminal.
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
    """The whole of a regular file of at most `limit` bytes; with `head`, of a larger one its first bytes.
    Else EFBIG for a larger one; EISDIR for a folder, EINVAL for a device, pipe or socket: none of these is
    waited for."""
    anchor_fd = open_anchor(anchor)
    try:
        fd = open_beneath(anchor_fd, relative, os.O_RDONLY | os.O_NONBLOCK, links=links)
    finally:
        os.close(anchor_fd)
    with os.fdopen(fd, "rb") as file:
        kind = os.fstat(fd).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), relative)
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", relative)
        data = file.read(limit + (not head))
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", relative)
    return data


def real_path_of(fd: int) -> str:
    """The absolute path the descriptor's file has now. FileNotFoundError where it has none any more."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    path = os.readlink(f"/proc/self/fd/{fd}")
    if not os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path
