"""What an observer notes of a confined program: the filter that asks it, and what was granted.

The observer itself is a process (`runners/child/observer_program.py`). It is told what a program may reach,
so that its notes are only about the rest. The numbers of system calls are those of Linux 6.12, as in
`seccomp`.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import platform
import stat
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from flycore.model.enums import Level
from flycore.model.program import ObserverOrder
from flycore.sandbox.confinement import Confinement, SystemLayout
from flycore.sandbox.evidence import PRIVATE
from flycore.sandbox.seccomp import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    Architecture,
    address_families,
    assemble_observing,
    packed,
    socket_call,
)

READ, WRITE = 1, 2
"""What a folder grants, as the observer takes it."""
FIRST_RELEASE = (5, 9)
"""The first kernel that says when no process uses a filter any more, and has all else that is needed."""
_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")
"""What every program finds there is its own, or no entry can grant it."""
_GET_ACTION_AVAILABLE = 2  # of seccomp(2)
_ASK_LISTENER = 0x7FC00000


class _Place(NamedTuple):
    """One path of a system call: the kind of the note, and the numbers of the arguments that hold the folder
    (-1 for the current one), the path, and the flags of an opening call."""

    kind: str
    folder: int
    text: int
    how: str = ""
    flags: int = 0


_CALLS: dict[str, tuple[_Place, ...]] = {
    "open": (_Place("r", -1, 0, "flags", 1),),
    "openat": (_Place("r", 0, 1, "flags", 2),),
    "openat2": (_Place("r", 0, 1, "structure", 2),),
    "creat": (_Place("w", -1, 0),),
    "truncate": (_Place("w", -1, 0),),
    "chdir": (_Place("s", -1, 0),),
    "execve": (_Place("r", -1, 0),),
    "execveat": (_Place("r", 0, 1),),
    **{name: (_Place("s", -1, 0),) for name in ("stat", "lstat", "access", "readlink")},
    **{name: (_Place("s", 0, 1),) for name in ("newfstatat", "statx", "faccessat", "faccessat2")},
    "readlinkat": (_Place("s", 0, 1),),
    "mkdir": (_Place("d", -1, 0),),
    "mkdirat": (_Place("d", 0, 1),),
    **{name: (_Place("w", -1, 0),) for name in ("rmdir", "unlink", "mknod", "chmod", "chown", "lchown")},
    **{name: (_Place("w", 0, 1),) for name in ("unlinkat", "mknodat", "fchmodat", "fchmodat2", "fchownat")},
    "utime": (_Place("w", -1, 0),),
    "utimes": (_Place("w", -1, 0),),
    "utimensat": (_Place("w", 0, 1),),
    "rename": (_Place("w", -1, 0), _Place("w", -1, 1)),
    "renameat": (_Place("w", 0, 1), _Place("w", 2, 3)),
    "renameat2": (_Place("w", 0, 1), _Place("w", 2, 3)),
    "link": (_Place("r", -1, 0), _Place("w", -1, 1)),
    "linkat": (_Place("r", 0, 1), _Place("w", 2, 3)),
    "symlink": (_Place("w", -1, 1),),
    "symlinkat": (_Place("w", 1, 2),),
}
_SINCE_5 = {"openat2": 437, "faccessat2": 439, "fchmodat2": 452}
_NUMBERS = {
    Architecture.X86_64: {
        "open": 2, "stat": 4, "lstat": 6, "access": 21, "truncate": 76, "chdir": 80, "rename": 82,
        "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "readlink": 89,
        "chmod": 90, "chown": 92, "lchown": 94, "utime": 132, "mknod": 133, "utimes": 235,
        "openat": 257, "mkdirat": 258, "mknodat": 259, "fchownat": 260, "newfstatat": 262,
        "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "readlinkat": 267, "fchmodat": 268,
        "faccessat": 269, "utimensat": 280, "renameat2": 316, "statx": 332,
        "execve": 59, "execveat": 322, **_SINCE_5,
    },
    Architecture.AARCH64: {
        "truncate": 45, "chdir": 49, "openat": 56, "mkdirat": 34, "mknodat": 33, "fchownat": 54,
        "newfstatat": 79, "unlinkat": 35, "renameat": 38, "linkat": 37, "symlinkat": 36, "readlinkat": 78,
        "fchmodat": 53, "faccessat": 48, "utimensat": 88, "renameat2": 276, "statx": 291, "execve": 221,
        "execveat": 281, **_SINCE_5,
    },
}  # fmt: skip
_SECCOMP = {Architecture.X86_64: 317, Architecture.AARCH64: 277}


def why_not_observed(bubblewrap_program: str = "") -> str:
    """Return why no program can be observed on this machine; empty if one can. The path is that of the
    bubblewrap that confines programs here; empty if none does."""
    try:
        # An observed program cannot gain the rights of such a file, which that bwrap needs.
        if bubblewrap_program and os.stat(bubblewrap_program).st_mode & stat.S_ISUID:
            return f"{bubblewrap_program} is a set-user-ID program"
    except OSError:
        pass  # it is gone, which each start says
    return _why_not_by_system()


@cache
def _why_not_by_system() -> str:
    """Why the system lets no program be observed; empty if it does."""
    try:
        architecture = Architecture(platform.machine())
    except ValueError:
        return f"there is no filter of system calls for {platform.machine()}"
    if _release() < FIRST_RELEASE:
        return "it needs Linux 5.9 or newer"
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = ctypes.c_uint32(_ASK_LISTENER)
    if libc.syscall(_SECCOMP[architecture], _GET_ACTION_AVAILABLE, 0, ctypes.byref(wanted)) < 0:
        return f"the kernel refuses to have calls observed: {os.strerror(ctypes.get_errno() or errno.EPERM)}"
    return ""


def _release() -> tuple[int, int]:
    major, _, rest = platform.release().partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def observer_order(
    architecture: Architecture, confinement: Confinement, layout: SystemLayout, level: Level
) -> ObserverOrder:
    """Return what an observer is told of a program with these limits."""
    numbers = _NUMBERS[architecture]
    # Landlock shows the facts of every file, so asking for them is not refused.
    observed = {
        numbers[name]: [tuple(place) for place in places]
        for name, places in _CALLS.items()
        if name in numbers and not (level is Level.DEGRADED and all(place.kind == "s" for place in places))
    }
    granted = dict(_granted(confinement, layout, level))
    allowed = address_families(network=confinement.network, unix=confinement.unix_sockets)
    families = tuple(family for family in (AF_UNIX, AF_INET, AF_INET6) if family not in allowed)
    order = (
        {os.fsencode(path): rights for path, rights in granted.items()},
        [os.fsencode(path) for path in _parents(path for path, rights in granted.items() if rights)],
        [os.fsencode(path) for path in confinement.shown_empty],
        observed,
        socket_call(architecture),
        AF_UNIX,
        [numbers["execve"], numbers["execveat"]],
        # Bubblewrap is executed before the program. At the other level the process confines itself.
        2 if level is Level.ENFORCED else 1,
    )
    return ObserverOrder(
        system_call=_SECCOMP[architecture],
        filter=packed(assemble_observing(architecture, observed, families)),
        granted=marshal.dumps(order),
    )


def _granted(confinement: Confinement, layout: SystemLayout, level: Level) -> Iterator[tuple[str, int]]:
    """The folders with their rights. The deepest one counts, and of two for one path the last."""
    yield from ((path, READ | WRITE) for path in _OF_THE_SYSTEM)
    yield from ((path, READ) for path in layout.folders)
    yield from ((path, READ) for path, _ in layout.links)
    if confinement.network:
        yield from ((path, READ) for path in layout.network)
    # Under bubblewrap, what a program reads there may be a file of this machine that it does not see, and
    # what it writes is its own.
    yield from ((path, WRITE if level is Level.ENFORCED else 0) for path in PRIVATE)
    mounts = tuple(confinement.ordered_mounts())
    # A folder within a granted one is not empty: the mount of the granted one has its files.
    within = tuple(mount.path.rstrip("/") + "/" for mount in mounts)
    yield from ((path, 0) for path in confinement.shown_empty if not path.startswith(within))
    for mount in mounts:
        yield mount.path, READ | WRITE if mount.writable else READ


def _parents(paths: Iterator[str]) -> set[str]:
    found: set[str] = {"/"}
    for path in paths:
        while (path := os.path.dirname(path)) not in found:
            found.add(path)
    return found
