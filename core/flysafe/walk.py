"""The one error that says a path left its anchor."""

from __future__ import annotations

import errno
import os
import stat


class OutsideAnchor(OSError):
    """The path leads out of its anchor, or would have to in order to be resolved. `errno` is EXDEV."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "leads out of its folder", path)


# Opening below a descriptor one component at a time, for machines without `openat2`.
#
# The kernel is never asked to follow a link or to climb: links are read and their components walked in
# turn, and `..` steps back to the descriptor this walk came from. A link swapped in after it was looked at
# is refused by O_NOFOLLOW.


_MOST_LINKS = 40
"""As many as Linux itself follows."""
_LONGEST = 4096
"""PATH_MAX, which the system's own calls hold to."""
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_STEP = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_walking(anchor_fd: int, path: bytes, flags: int, mode: int, links: bool) -> int:
    """Open `path` below the anchor. OutsideAnchor where it leaves, OSError for everything else."""
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    if len(path) >= _LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), os.fsdecode(path))
    folders = [os.dup(anchor_fd)]
    try:
        return _walk(folders, path, flags, mode, _MOST_LINKS if links else 0)
    finally:
        for fd in folders:
            os.close(fd)


def _walk(folders: list[int], path: bytes, flags: int, mode: int, links_left: int) -> int:
    """`folders` are the descriptors from the anchor down to where the walk stands; the caller closes them."""
    left = _components(path)
    while left:
        name = left.pop(0)
        if name == b"..":
            if len(folders) == 1:
                raise OutsideAnchor(os.fsdecode(path))
            os.close(folders.pop())
            continue
        if name == b".":
            continue
        if not left and _wants_link(flags):
            return _open_last(folders[-1], name, flags, mode)
        target = _link_target(folders[-1], name)
        if target is None and left:
            folders.append(os.open(name, _STEP, dir_fd=folders[-1]))
        elif target is None:
            return _open_last(folders[-1], name, flags, mode)
        elif not links_left:
            raise _loop(path)
        elif target.startswith(b"/"):
            raise OutsideAnchor(os.fsdecode(path))
        else:
            links_left -= 1
            left[:0] = _components(target)
    return os.open(b".", flags | os.O_DIRECTORY, mode, dir_fd=folders[-1])


def _components(path: bytes) -> list[bytes]:
    """The names in order; a path that ends in a slash ends in `.`, which only a folder has."""
    names = [name for name in path.split(b"/") if name]
    return [*names, b"."] if path.endswith(b"/") else names


def _link_target(folder: int, name: bytes) -> bytes | None:
    """Where the link leads; None for what is no link, or is not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _wants_link(flags: int) -> bool:
    """Whether the last name is taken as it is, so that the system's own open answers for a link there."""
    return bool(flags & os.O_NOFOLLOW) or flags & (os.O_CREAT | os.O_EXCL) == os.O_CREAT | os.O_EXCL


def _open_last(folder: int, name: bytes, flags: int, mode: int) -> int:
    fd = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    if not flags & os.O_NOFOLLOW and stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)  # O_PATH opens a link that was swapped in, rather than refusing it
        raise _loop(name)
    return fd


def _loop(path: bytes) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
