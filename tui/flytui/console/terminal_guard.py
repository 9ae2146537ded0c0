"""Who else could press keys on this terminal: the user and the system on which programs can fake input, and
the programs of the kernel that have this very terminal open."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from flysafe.procfs import PROC, Process, ProcFolder, ancestors, descendants, process_table

LEGACY_TIOCSTI = "/proc/sys/dev/tty/legacy_tiocsti"
_OWN_TERMINAL = os.makedev(5, 0)
"""The device /dev/tty, which is the controlling terminal of whoever opens it."""


class KeyRisk(msgspec.Struct, frozen=True):
    """Whether a program can type into a terminal that it has open."""

    root: bool = False
    """Whether flytui, and so each of its programs, runs with effective uid 0: root may type into any
    terminal."""
    tiocsti: bool = False
    """Whether the system lets every program type into its own terminal."""

    @property
    def label(self) -> str:
        """A few words for the header; `""` where an ordinary user's programs are meant to be harmless."""
        if not self.root:
            return ""
        return "root, keys can be faked" if self.tiocsti else "root"


def find_key_risk(setting: str = LEGACY_TIOCSTI) -> KeyRisk:
    """The risk on this system, for this user."""
    allowed = False
    with suppress(OSError):
        allowed = Path(setting).read_text(encoding="ascii").strip() == "1"
    return KeyRisk(root=os.geteuid() == 0, tiocsti=allowed)


def terminal_intruder(terminal: int, kernel_pid: int, proc: ProcFolder = PROC) -> str:
    """Why no key may approve now: which program of the kernel has the terminal open. `""` where none has.

    `terminal` is an open descriptor of it. The kernel, this process and those above it are flytui's own.
    """
    try:
        device = os.fstat(terminal).st_rdev
    except OSError:
        return ""
    table = process_table(proc)
    own = {kernel_pid, os.getpid(), *ancestors(os.getpid(), proc)}
    for pid in descendants([kernel_pid], table):
        process = table.get(pid)
        if process is not None and pid not in own and _has_open(process, device, proc):
            return f"{process.name} (pid {pid}), a program that flytui started, has this terminal open"
    return ""


def _has_open(process: Process, device: int, proc: ProcFolder) -> bool:
    folder = f"{os.fspath(proc)}/{process.pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                found = os.stat(f"{folder}/{name}")
                if stat.S_ISCHR(found.st_mode) and (
                    found.st_rdev == device or (found.st_rdev == _OWN_TERMINAL and process.terminal == device)
                ):
                    return True
    return False
