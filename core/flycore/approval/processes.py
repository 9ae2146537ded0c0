"""What `/proc` tells of a process. Processes vanish at any moment; then there is simply less to tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MAX_ANCESTORS = 64
MAX_READ = 1_048_576
_DELETED = " (deleted)"
_FIELDS_NEEDED = 20
"""Fields of `stat` after the name: state is the first, the parent the second, the start the twentieth."""

_PSEUDO_TERMINALS = range(136, 144)
_CONSOLES = 4
_FIRST_SERIAL = 64
"""Device numbers, as Documentation/admin-guide/devices.txt of Linux has them."""


class Process(NamedTuple):
    """One process as it was at one moment."""

    pid: int
    parent: int
    started: int
    """Clock ticks since boot."""
    name: str
    """The kernel's `comm`: at most 15 bytes, chosen by the process itself."""


def read_process(pid: int, proc: Path = PROC) -> Process | None:
    """The process, None where there is none (any more)."""
    text = _read(proc / str(pid) / "stat").decode("utf-8", "surrogateescape")
    opening, closing = text.find("("), text.rfind(")")
    fields = text[closing + 1 :].split()
    if opening < 0 or closing < opening or len(fields) < _FIELDS_NEEDED:
        return None
    parent, started = fields[1], fields[19]
    if not (parent.isdecimal() and started.isdecimal()):
        return None
    return Process(pid, int(parent), int(started), _printable(text[opening + 1 : closing]))


def executable_of(pid: int, proc: Path = PROC) -> str:
    """Absolute path of the running file, empty where it cannot be known."""
    try:
        path = os.readlink(proc / str(pid) / "exe")
    except OSError:
        return ""
    return _printable(path.removesuffix(_DELETED))


def command_line(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The arguments as the process shows them; empty for a kernel thread and for one that is gone."""
    raw = _read(proc / str(pid) / "cmdline").rstrip(b"\0")
    return tuple(_printable(os.fsdecode(part)) for part in raw.split(b"\0")) if raw else ()


def environment_value(pid: int, name: str, proc: Path = PROC) -> str:
    """One variable of the environment the process was started with, empty where it cannot be read."""
    prefix = os.fsencode(name) + b"="
    for item in _read(proc / str(pid) / "environ").split(b"\0"):
        if item.startswith(prefix):
            return _printable(os.fsdecode(item[len(prefix) :]))
    return ""


def ancestors(pid: int, proc: Path = PROC) -> tuple[int, ...]:
    """Pids of the parents, nearest first, without pid 1; bounded, whatever `/proc` says."""
    found: list[int] = []
    current = read_process(pid, proc)
    while current is not None and current.parent > 1 and len(found) < MAX_ANCESTORS:
        if current.parent in found or current.parent == pid:
            break
        found.append(current.parent)
        current = read_process(current.parent, proc)
    return tuple(found)


def kin(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The parents, nearest first, each as its name and pid: `bash 4121`."""
    found = (read_process(parent, proc) for parent in ancestors(pid, proc))
    return tuple(f"{process.name} {process.pid}" for process in found if process is not None)


def terminal_of(pid: int, proc: Path = PROC) -> str:
    """The controlling terminal, `pts/3` or `tty2`, another by its numbers; empty where there is none."""
    fields = _read(proc / str(pid) / "stat").rpartition(b")")[2].split()
    number = int(fields[4]) if len(fields) >= _FIELDS_NEEDED else 0
    if number <= 0:
        return ""
    major, minor = os.major(number), os.minor(number)
    if major in _PSEUDO_TERMINALS:
        return f"pts/{minor}"
    return f"tty{minor}" if major == _CONSOLES and minor < _FIRST_SERIAL else f"{major}:{minor}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_READ)
    except OSError:
        return b""


def _printable(text: str) -> str:
    """Without surrogates, which no JSON and no digest can hold; drawing it safely is the screen's job."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
