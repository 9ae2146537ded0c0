"""The system call `openat2` of Linux, which resolves a path below a descriptor in one step."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable

from flysafe.walk import OutsideAnchor

_NUMBER = 437
"""Number of the system call, the same on every architecture."""
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MAX_TRIES = 64
"""EAGAIN means that a folder was moved during the call. This often in a row, somebody does it on purpose."""
_OpenAt2 = Callable[[int, bytes, int, int, int], int]


@functools.cache
def _syscall() -> _OpenAt2 | None:
    """Return the call as a function of (descriptor, path, flags, mode, resolve); None where it is missing."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # takes milliseconds to import, and most commands open no file this way

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def openat2(fd: int, path: bytes, flags: int, mode: int, resolve: int) -> int:
        how = OpenHow(flags, mode, resolve)
        opened = syscall(
            ctypes.c_long(_NUMBER),
            ctypes.c_int(fd),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if opened < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fsdecode(path))
        return int(opened)

    return openat2


@functools.cache
def available() -> bool:
    """Return whether the call works on this machine."""
    # Linux before 5.6 does not have it, and a seccomp filter may refuse it. Only a trial shows the latter.
    call = _syscall()
    if call is None:
        return False
    # Only the path, because a sandbox may forbid to read the root.
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    anchor = os.open("/", flags)
    try:
        os.close(call(anchor, b".", flags, 0, _BENEATH))
    except OSError:
        return False
    finally:
        os.close(anchor)
    return True


def open_resolved(anchor_fd: int, path: bytes, flags: int, mode: int, links: bool) -> int:
    """Open `path` below the anchor. Raises OutsideAnchor where it leads outside, and OSError."""
    call = _syscall()
    if call is None:
        raise OSError(errno.ENOSYS, "openat2 is missing", os.fsdecode(path))
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS)
    if not flags & os.O_CREAT:
        mode = 0  # openat2 refuses a mode that would not be used
    for _ in range(_MAX_TRIES):
        try:
            return call(anchor_fd, path, flags, mode, resolve)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise OutsideAnchor(os.fsdecode(path)) from None
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise
    raise OSError(errno.EAGAIN, "the folders keep moving", os.fsdecode(path))
