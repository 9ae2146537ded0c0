"""What this process is to the operating system: who may look into it, and how many descriptors it may open.

Any process of a user may read another one's environment in `/proc/PID/environ`, trace it and take its
descriptors, unless the kernel of the system is told not to allow that. A process with CAP_SYS_PTRACE, such as
root's, may do all of it anyhow.

A kernel needs descriptors for each connection and each running program. The usual soft limit of 1,024 is a
habit of old programs, not of the system. Programs that the kernel starts get the limit back that it had.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Collection
from contextlib import suppress

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_ENV_START, _ENV_END = 49, 50
"""Places of the addresses in /proc/self/stat, counted from 0: fields 50 and 51 of proc_pid_stat(5)."""
_NAME_FIELDS = 2
_READ_BY_LIBRARIES = frozenset(("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "TERM", "TMPDIR", "TZ"))
"""Variables that the C library reads in that very memory."""
WANTED_DESCRIPTORS = 8_192
"""Descriptors that a kernel may open, where the hard limit allows it."""
_limit_before: list[int] = []


def forbid_inspection() -> None:
    """Forbid other processes of this user to read this one's environment and memory, to trace it, and to
    take its descriptors. It also leaves no core dump. A program that it starts is not affected."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def is_inspectable() -> bool:
    """Return whether other processes of this user may inspect this one."""
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0))


def erase_from_environment(names: Collection[str]) -> None:
    """Overwrite the values of these variables in the memory that `/proc/self/environ` shows.

    `os.environ` keeps them: it has copies. Raises nothing: where the block cannot be found, nothing is done.
    """
    wanted = {name.encode("utf-8", "surrogateescape") for name in names if name not in _READ_BY_LIBRARIES}
    start, end = _environment_block()
    if not wanted or not start < end:
        return
    at = start
    # Addresses come from the system, and each entry ends with a NUL within the block.
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and value and name in wanted:
            ctypes.memset(at + len(name) + len(equals), ord("-"), len(value))
        at += len(entry) + 1


def _environment_block() -> tuple[int, int]:
    """Return the first address of the block and the one behind it; (0, 0) where they are not told."""
    try:
        with open("/proc/self/stat", "rb") as file:
            data = file.read()
    except OSError:
        return 0, 0
    # The name of the process, in brackets, may hold spaces: the fields are counted from behind it.
    fields = data[data.rfind(b")") + 1 :].split()
    places = [place - _NAME_FIELDS for place in (_ENV_START, _ENV_END)]
    numbers = [fields[place] for place in places if len(fields) > place and fields[place].isdigit()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == len(places) else (0, 0)


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as it is useful, and return the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _limit_before[:] = [soft]
        return wanted
    return soft


def descriptor_limit_before() -> int | None:
    """Return the soft limit that `raise_descriptor_limit` replaced; None where it did not."""
    return _limit_before[0] if _limit_before else None
