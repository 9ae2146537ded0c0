"""What /proc says of processes: who is whose child, in which session, since when."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36
_MOST_READ = 1 << 22
_PAGE = 4096
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process at the moment it was looked at; `started` tells a reused pid from the first one."""

    pid: int
    state: str
    """The kernel's letter: R, S, D, T, t, Z, X, …"""
    ppid: int
    sid: int
    started: int
    """Clock ticks since boot."""

    @property
    def ended(self) -> bool:
        """Whether it only waits to be reaped (or has threads that outlived its first one)."""
        return self.state in "ZX"


def ticks_now() -> int:
    """Clock ticks since boot, in the unit of `Process.started`, rounded down as there."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _CLOCK_TICKS)


def read_process(pid: int) -> Process | None:
    """The process, or None where there is none (any more)."""
    try:
        stat = _read_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def process_table() -> dict[int, Process]:
    """Every process this one may see, by pid."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def own_children() -> set[int]:
    """Pids of the children of this process's main thread and of the calling one, zombies among them.

    An orphan is adopted by the main thread, a child belongs to the thread that started it: who is of no
    interest here is only what other threads have started. Where the kernel keeps no such list the whole
    table is searched.
    """
    own = os.getpid()
    children: set[int] = set()
    for thread in {own, threading.get_native_id()}:
        try:
            children.update(map(int, _read_file(f"/proc/self/task/{thread}/children").split()))
        except OSError:
            return {process.pid for process in process_table().values() if process.ppid == own}
    return children


def environment_value(pid: int, name: bytes) -> str:
    """A variable of the environment the process was started with; empty where unreadable or absent.

    A process can rewrite this memory: it may attribute a process, never acquit one.
    """
    try:
        block = _read_file(f"/proc/{pid}/environ")
    except OSError:
        return ""
    for pair in block.split(b"\0"):
        if pair.startswith(name + b"="):
            return pair[len(name) + 1 :].decode("utf-8", "replace")
    return ""


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process; one that has gone, or is not ours to signal, is left alone.

    The descriptor pins the pid before the start time is compared, so a reused pid is never hit.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = read_process(process.pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


_subreaper: list[int] = []


def become_subreaper() -> None:
    """Have orphans of our children re-parented to this process instead of to init; done once a process.

    This is what makes escaping by a double fork visible: the escapee shows up as a child of ours.
    """
    if os.getpid() in _subreaper:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _subreaper.append(os.getpid())


def _read_file(path: str) -> bytes:
    """A file of /proc, up to a bound that none of the kernel's own reaches. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = bytearray()
        while len(data) < _MOST_READ and (part := os.read(descriptor, _PAGE)):
            data += part
        return bytes(data)
    finally:
        os.close(descriptor)
