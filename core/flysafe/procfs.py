"""Facts about processes from Linux's /proc: parents, sessions, start times, programs, environments.

A process can end between any two reads; then a function returns None or an empty value and does not raise.
The kernel uses a pid again after its process was reaped, so only pid and start time together identify one.
The parameter `proc` is another folder in tests with hostile contents.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from flysafe.spare_descriptors import with_spare_descriptors

PROC = "/proc"
MAX_ANCESTORS = 64
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "csh", "busybox", "ash"})
WRAPPERS = frozenset(
    {"env", "timeout", "sudo", "doas", "xargs", "nice", "ionice", "nohup", "setsid", "stdbuf", "time"}
)
"""Programs that only start another one. What they start was started by the program above them."""
_MAX_LINEAGE = 4096
"""Most processes of a lineage. A process can put itself below any number of others, so a lineage that is
longer counts as unknown."""
_LINEAGE_ATTEMPTS = 5
_MAX_READ = 1 << 22
"""Most bytes of one file. By default the kernel's limit for arguments and environment together is lower."""
_PAGE = 4096
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_DELETED = b" (deleted)"
_FIELDS_NEEDED = 20
"""Fields of `stat` after the name: state is the first, the start time the twentieth."""

_SOCKET_STATE = 3
_LISTENS = b"0A"
"""The field of a line of `net/tcp` that has the state of the socket, and the state of one that listens."""

_PSEUDO_TERMINALS = range(136, 144)
_CONSOLES = 4
_FIRST_SERIAL = 64
"""Device numbers, from Documentation/admin-guide/devices.txt of Linux."""

ProcFolder = str | os.PathLike[str]


class Process(NamedTuple):
    """One process at the moment when it was read."""

    pid: int
    state: str
    """The kernel's letter: R, S, D, T, t, Z, X and others."""
    parent: int
    session: int
    terminal: int
    """Device number of the controlling terminal; 0 where there is none."""
    started: int
    """Clock ticks since boot."""
    name: str
    """The kernel's `comm`: at most 15 bytes, chosen by the process itself."""

    @property
    def ended(self) -> bool:
        """Whether the process has ended. Threads may still run after its first thread has ended."""
        return self.state in "ZX"


def ticks_now() -> int:
    """Return the clock ticks since boot, in the unit of `Process.started` and rounded down like it."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _CLOCK_TICKS)


def read_process(pid: int, proc: ProcFolder = PROC) -> Process | None:
    """Return the process with this pid; None where there is none or its `stat` cannot be parsed."""
    stat = _read_file(f"{os.fspath(proc)}/{pid}/stat")
    # A process chooses its own name, which may hold brackets, spaces and newlines: only the last bracket
    # ends it.
    opening, closing = stat.find(b"("), stat.rfind(b")")
    fields = stat[closing + 1 :].split()
    if opening < 0 or closing < opening or len(fields) < _FIELDS_NEEDED:
        return None
    parent, session, terminal, started = fields[1], fields[3], fields[4], fields[19]
    if not (parent.isdigit() and session.isdigit() and started.isdigit()):
        return None
    return Process(
        pid=pid,
        state=_text(fields[0]),
        parent=int(parent),
        session=int(session),
        terminal=int(terminal) if terminal.isdigit() else 0,
        started=int(started),
        name=_text(stat[opening + 1 : closing]),
    )


def process_table(proc: ProcFolder = PROC) -> dict[int, Process]:
    """Return every process that this process may see, by pid."""
    found = (read_process(int(name), proc) for name in _names(proc) if name.isdecimal())
    return {process.pid: process for process in found if process is not None}


def descendants(roots: Iterable[int], table: Mapping[int, Process]) -> list[int]:
    """Return the roots and all their descendants in the table, each once, parents before their children."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for pid in found:
        fresh = [child for child in children.get(pid, ()) if child not in seen]
        seen.update(fresh)
        found.extend(fresh)
    return found


def own_children() -> set[int]:
    """Return the pids of the children of the main thread and of the calling thread, zombies included.

    Children that other threads started are missing, except where the kernel keeps no list for each thread
    and the whole process table is searched.
    """
    own = os.getpid()
    children: set[int] = set()
    # A child belongs to the thread that started it, and the main thread adopts orphans.
    for thread in {own, threading.get_native_id()}:
        try:
            children.update(map(int, _read_whole(f"{PROC}/self/task/{thread}/children").split()))
        except OSError:
            return {process.pid for process in process_table().values() if process.parent == own}
    return children


def children_of(pid: int) -> set[int]:
    """Return the pids of the children of a process with a single thread, zombies included."""
    try:
        return set(map(int, _read_whole(f"{PROC}/{pid}/task/{pid}/children").split()))
    except OSError:
        # Without such a list in this kernel the table is searched; of a process that is gone, nobody is one.
        return {process.pid for process in process_table().values() if process.parent == pid}


def processes_below(roots: Iterable[int], most: int) -> list[int]:
    """Return the roots and their descendants, each once, zombies included, and not more than `most` of them.

    Only the lists of these processes are read, so that it costs little. They are no snapshot: a process that
    is started or ends meanwhile may be missed.
    """
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for pid in found:
        if len(found) >= most:
            break
        fresh = _children_of_threads(pid) - seen
        seen |= fresh
        found += fresh
    return found[:most]


def _children_of_threads(pid: int) -> set[int]:
    """Return the pids of the children of all threads of the process; none where it has ended."""
    try:
        threads = _names(f"{PROC}/{pid}/task")
    except OSError:
        return set()
    lists = (_read_file(f"{PROC}/{pid}/task/{thread}/children") for thread in threads)
    return {int(child) for one in lists for child in one.split()}


def executable_of(pid: int, proc: ProcFolder = PROC) -> str:
    """Return the absolute path of the file that the process runs; empty where it cannot be read."""
    try:
        path = os.fsencode(os.readlink(f"{os.fspath(proc)}/{pid}/exe"))
    except OSError:
        return ""
    return _text(path.removesuffix(_DELETED))


def folder_of(pid: int, proc: ProcFolder = PROC) -> str:
    """Return the working folder of the process; empty where it cannot be read or was removed."""
    try:
        path = os.fsencode(os.readlink(f"{os.fspath(proc)}/{pid}/cwd"))
    except OSError:
        return ""
    return "" if path.endswith(_DELETED) else _text(path)


def command_line(pid: int, proc: ProcFolder = PROC) -> tuple[str, ...]:
    """Return the arguments that the process shows; empty for a kernel thread and for an ended process."""
    raw = _read_file(f"{os.fspath(proc)}/{pid}/cmdline").rstrip(b"\0")
    return tuple(map(_text, raw.split(b"\0"))) if raw else ()


def environment_of(pid: int, proc: ProcFolder = PROC) -> list[bytes]:
    """Return the `NAME=value` entries that the process was started with; empty where they cannot be read.

    A process can overwrite this memory: an entry may show to whom a process belongs, and a missing entry
    proves nothing.
    """
    return _read_file(f"{os.fspath(proc)}/{pid}/environ").split(b"\0")


def environment_value(pid: int, name: str, proc: ProcFolder = PROC) -> str:
    """Return the first variable of that name in `environment_of`; empty where there is none."""
    prefix = os.fsencode(name) + b"="
    values = (entry[len(prefix) :] for entry in environment_of(pid, proc) if entry.startswith(prefix))
    return _text(next(values, b""))


def ancestors(pid: int, proc: ProcFolder = PROC) -> tuple[int, ...]:
    """Return the pids of the ancestors, nearest first, without pid 1; at most `MAX_ANCESTORS`."""
    found: list[int] = []
    current = read_process(pid, proc)
    while current is not None and current.parent > 1 and len(found) < MAX_ANCESTORS:
        # The parents are read one after the other, so a pid that is reused in between can close a circle.
        if current.parent in found or current.parent == pid:
            break
        found.append(current.parent)
        current = read_process(current.parent, proc)
    return tuple(found)


def starters(pid: int, proc: ProcFolder = PROC) -> tuple[int, ...]:
    """Return the pids of the ancestors through which the process was started, nearest first: shells and
    wrappers, and then the program that started them."""
    found: list[int] = []
    for ancestor in ancestors(pid, proc):
        found.append(ancestor)
        if os.path.basename(executable_of(ancestor, proc)) not in SHELLS | WRAPPERS:
            break
    return tuple(found)


def lineage(pid: int, proc: ProcFolder = PROC) -> tuple[Process, ...] | None:
    """Return the process and all its ancestors, nearest first, without pid 1.

    None where they cannot be told: the process ended, or it has too many ancestors. `ancestors` stops short
    in these cases, which suits a display; this function suits decisions.
    """
    # A parent that ends during the walk leaves a gap, and its child gets another parent: the walk begins
    # anew. A process that makes that happen each time stays unknown.
    for _ in range(_LINEAGE_ATTEMPTS):
        found: dict[int, Process] = {}
        current = pid
        while current > 1 and current not in found and len(found) < _MAX_LINEAGE:
            process = read_process(current, proc)
            if process is None:
                break
            found[current] = process
            current = process.parent
        if current <= 1:
            return tuple(found.values())
    return None


def ancestor_names(pid: int, proc: ProcFolder = PROC) -> tuple[str, ...]:
    """Return the ancestors, nearest first, each as its name and pid: `bash 4121`."""
    found = (read_process(parent, proc) for parent in ancestors(pid, proc))
    return tuple(f"{process.name} {process.pid}" for process in found if process is not None)


def terminal_of(pid: int, proc: ProcFolder = PROC) -> str:
    """Return the controlling terminal: `pts/3`, `tty2`, or `major:minor`; empty where there is none."""
    process = read_process(pid, proc)
    if process is None or not process.terminal:
        return ""
    major, minor = os.major(process.terminal), os.minor(process.terminal)
    if major in _PSEUDO_TERMINALS:
        return f"pts/{minor}"
    return f"tty{minor}" if major == _CONSOLES and minor < _FIRST_SERIAL else f"{major}:{minor}"


def send_signal(process: Process, *numbers: signal.Signals) -> None:
    """Send signals to exactly this process. Nothing happens where it ended or may not be signalled."""
    with suppress(OSError):
        with_spare_descriptors(lambda: _send_signal(process, numbers))


def _send_signal(process: Process, numbers: Iterable[signal.Signals]) -> None:
    descriptor = os.pidfd_open(process.pid)
    try:
        # The descriptor refers to one process for good. It is opened before the start times are compared, so
        # that a process which got the pid in the meantime is never signalled.
        now = read_process(process.pid)
        if now is not None and now.started == process.started:
            for number in numbers:
                signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


def listening_sockets(proc: ProcFolder = PROC) -> frozenset[str]:
    """Return the addresses, with their ports, at which TCP servers of this machine listen, in the form of
    /proc; empty where that is not known."""
    return frozenset(
        fields[1].decode("ascii", "replace")
        for name in ("tcp", "tcp6")
        for line in _read_file(f"{proc}/self/net/{name}").splitlines()[1:]
        if len(fields := line.split()) > _SOCKET_STATE and fields[_SOCKET_STATE] == _LISTENS
    )


def _read_file(path: str) -> bytes:
    """Return the contents of a file of /proc; empty where it cannot be read."""
    try:
        return _read_whole(path)
    except OSError:
        return b""


def _names(folder: ProcFolder) -> list[str]:
    """Return the names in a folder of /proc. Raises OSError."""
    return with_spare_descriptors(lambda: os.listdir(folder))


def _read_whole(path: str) -> bytes:
    """Return the contents of a file of /proc, at most `_MAX_READ` bytes. Raises OSError."""
    return with_spare_descriptors(lambda: _read_once(path))


def _read_once(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = bytearray()
        # A read of `environ` may return one page only, however many bytes were requested.
        while len(data) < _MAX_READ and (part := os.read(descriptor, _PAGE)):
            data += part
        return bytes(data)
    finally:
        os.close(descriptor)


def _text(data: bytes) -> str:
    """Return the bytes as text without surrogates, which JSON and digests cannot represent."""
    return data.decode("utf-8", "replace")
