"""Opens files below a descriptor one component at a time, for machines without `openat2`.

The operating system is never asked to follow a link or to go up. Links are read and their components walked
in turn, and `..` goes back to the descriptor that this walk came from.
"""

from __future__ import annotations

import errno
import os
import stat


class OutsideAnchor(OSError):
    """The path leads outside its anchor, or passes through the outside. `errno` is EXDEV."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "leads out of its folder", path)


_MAX_LINKS = 40
"""Links in one path, as many as Linux itself follows."""
_MAX_PATH = 4096
"""PATH_MAX of Linux, so that both ways of opening refuse the same paths."""
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_STEP = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_walking(anchor_fd: int, path: bytes, flags: int, mode: int, links: bool) -> int:
    """Open `path` below the anchor. Raises OutsideAnchor where it leads outside, and OSError."""
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    if len(path) >= _MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), os.fsdecode(path))
    folders = [os.dup(anchor_fd)]
    try:
        return _walk(folders, path, flags, mode, _MAX_LINKS if links else 0)
    finally:
        for fd in folders:
            os.close(fd)


def _walk(folders: list[int], path: bytes, flags: int, mode: int, links_left: int) -> int:
    """Open the path. `folders` has the descriptors from the anchor down; the caller closes them."""
    remaining = _components(path)
    while remaining:
        name = remaining.pop(0)
        if name == b"..":
            if len(folders) == 1:
                raise OutsideAnchor(os.fsdecode(path))
            os.close(folders.pop())
            continue
        if name == b".":
            continue
        if not remaining and _wants_link(flags):
            return _open_last(folders[-1], name, flags, mode)
        target = _link_target(folders[-1], name)
        if target is None and remaining:
            # O_NOFOLLOW refuses a link that took the place of the folder after `_link_target` read it.
            folders.append(os.open(name, _STEP, dir_fd=folders[-1]))
        elif target is None:
            return _open_last(folders[-1], name, flags, mode)
        elif not links_left:
            raise _loop(path)
        elif target.startswith(b"/"):
            raise OutsideAnchor(os.fsdecode(path))
        else:
            links_left -= 1
            remaining[:0] = _components(target)
    return os.open(b".", flags | os.O_DIRECTORY, mode, dir_fd=folders[-1])


def _components(path: bytes) -> list[bytes]:
    """Return the names in order. A path that ends in a slash ends in `.`, which only a folder has."""
    names = [name for name in path.split(b"/") if name]
    return [*names, b"."] if path.endswith(b"/") else names


def _link_target(folder: int, name: bytes) -> bytes | None:
    """Return the target of the link; None where there is nothing, or something that is not a link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _wants_link(flags: int) -> bool:
    """Return whether a link as the last component is opened itself, or refused by the system's `open`."""
    return bool(flags & os.O_NOFOLLOW) or flags & (os.O_CREAT | os.O_EXCL) == os.O_CREAT | os.O_EXCL


def _open_last(folder: int, name: bytes, flags: int, mode: int) -> int:
    fd = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    if not flags & os.O_NOFOLLOW and stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)  # O_PATH opens a link that was swapped in, rather than refusing it
        raise _loop(name)
    return fd


def _loop(path: bytes) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
