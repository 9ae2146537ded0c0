"""The processes that end with the kernel: kept by their pidfds, looked after while they run, and ended.

The launcher (`launcher_program`) loads this file by its path, with the standard library only. While a child
runs, it also looks for processes that became children of the kernel meanwhile: what a child left when it
exited, or after it gave its own setting up. What is nobody's child by the time that the kernel is gone is
found by its environment, which names the session of the kernel's calls: the system ends bwrap together with
the kernel, but not what bwrap has started a moment before.
"""

from __future__ import annotations

import os
import select
import signal
import time

LOOK_SECONDS = 1.0
"""How often the launcher looks for what children have left to the kernel."""
END_SECONDS = 20.0
"""How long the launcher tries to end what a kernel left. What is left then may not be ended by this user."""
_STOP_SECONDS = 2.0
"""How long all processes may take to stop: one in an uninterruptible read stops only after it."""
_LOOK_PAUSE_S = 0.002
_SIGNAL_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP of the kernel's `include/uapi/linux/pidfd.h`, since Linux 6.9."""
_STOPPED_OR_ENDED = "TtZX"


class _Process:
    """A process as /proc shows it; `started` in clock ticks since boot."""

    # A named tuple would import `typing`, which takes as long as all of the launcher's start.
    __slots__ = ("parent", "session", "started", "state")

    def __init__(self, state: str, parent: int, session: int, started: int) -> None:
        self.state, self.parent, self.session, self.started = state, parent, session, started


class Children:
    """The processes that end with the kernel, each by a pidfd, which means one process for good: an id may be
    used again."""

    def __init__(self, kernel: int) -> None:
        self._kernel = kernel
        self._poll = select.poll()
        self._next_look = 0.0
        self._known: dict[int, tuple[int, int]] = {}
        """By pidfd: the process id, and when it was started."""
        self._since: dict[int, int] = {}
        """By pidfd: from when on what its process left may have been started, in ticks since boot."""
        self._marks: set[bytes] = set()

    def add_mark(self, mark: bytes) -> None:
        """End also each process whose environment has a variable that begins so, name and value."""
        self._marks.add(mark)

    def watch(self, descriptor: int) -> None:
        """Let `wait` tell when that descriptor, which belongs to somebody else, can be read."""
        self._poll.register(descriptor, select.POLLIN)

    def ignore(self, descriptor: int) -> None:
        """Let `wait` say nothing of that descriptor any more."""
        self._poll.unregister(descriptor)

    def add(self, pid: int, pidfd: int, since: int | None = None) -> None:
        """Keep the process, and close its pidfd when it exits. `since` is when its program was asked for,
        in ticks since boot; without it, the process was started for it."""
        if since is None and (process := _read(pid)) is not None:
            since = process.started
        if not self._keep(pid, pidfd, since) and since is not None:
            self._note_orphans(since)

    def _keep(self, pid: int, pidfd: int, since: int | None = None) -> bool:
        """Keep the process; False where it has exited."""
        process = _read(pid)
        # A process that has not exited after the look at /proc had its id during the look.
        if process is None or process.state in "ZX" or _has_exited(pidfd):
            os.close(pidfd)
            return False
        self._known[pidfd] = (pid, process.started)
        self._since[pidfd] = process.started if since is None else since
        self._poll.register(pidfd, select.POLLIN)
        return True

    def wait(self) -> set[int]:
        """Wait until one of the watched descriptors can be read, or for a while, and look after the processes
        meanwhile. Returns the watched descriptors that can be read."""
        ready = [number for number, _ in self._poll.poll(LOOK_SECONDS * 1000 if self._known else None)]
        exited = [number for number in ready if number in self._known]
        # Before they are forgotten: what a child leaves becomes the kernel's when the child exits.
        if exited or time.monotonic() >= self._next_look:
            self._note_orphans()
            self._next_look = time.monotonic() + LOOK_SECONDS
        for number in exited:
            self._forget(number)
        return set(ready).difference(exited)

    def end_all(self) -> None:
        """End all processes and their descendants, until none is left."""
        # The sockets of a process are closed before its children get another parent, so that some may still
        # be found there.
        self._note_orphans()
        deadline = time.monotonic() + END_SECONDS
        ended = False
        while not ended and time.monotonic() < deadline:
            # A process that has exited starts nothing any more: the last look begins when all have.
            none_left = not self._known
            # A stopped process starts no other one: only what has stopped is known as a whole.
            self._stop_all()
            for pidfd in self._known:
                _send(pidfd, signal.SIGKILL)
            for pidfd in tuple(self._known):
                if _has_exited(pidfd):
                    self._forget(pidfd)
            ended = none_left and not self._known
            if self._known:
                time.sleep(_LOOK_PAUSE_S)

    def _stop_all(self) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        for pidfd, (pid, _) in tuple(self._known.items()):
            # The whole group with one call: none of its members can start another one between two signals.
            # But never that of this process, which a child that waits for its program is in as well.
            if _group_of(pid) not in (0, os.getpgrp()):
                _send(pidfd, signal.SIGSTOP, _SIGNAL_GROUP)
            _send(pidfd, signal.SIGSTOP)
        while time.monotonic() < deadline:
            table = _table()
            found = self._descendants(table)
            fresh = [pid for pid in found if self._stop(pid, table[pid].started)]
            if not fresh and all(table[pid].state in _STOPPED_OR_ENDED for pid in found):
                return
            time.sleep(0 if fresh else _LOOK_PAUSE_S)

    def _descendants(self, table: dict[int, _Process]) -> list[int]:
        """The known processes that are in the table, those with a mark, and all below them."""
        below: dict[int, list[int]] = {}
        for pid, process in table.items():
            below.setdefault(process.parent, []).append(pid)
        found = [
            pid for pid, started in self._known.values() if pid in table and table[pid].started == started
        ]
        found += [pid for pid in table.keys() - set(found) if self._is_marked(pid)]
        seen = set(found)
        for pid in found:  # grows while it is walked
            more = [child for child in below.get(pid, ()) if child not in seen]
            seen.update(more)
            found += more
        return found

    def _is_marked(self, pid: int) -> bool:
        variables = _contents(f"/proc/{pid}/environ").split(b"\0") if self._marks else ()
        return any(variable.startswith(mark) for variable in variables for mark in self._marks)

    def _stop(self, pid: int, started: int) -> bool:
        """Stop and keep a process that was found; False where it was known or has exited."""
        if (pid, started) in self._known.values():
            return False
        pidfd = _open(pid, started)
        if pidfd < 0 or not self._keep(pid, pidfd):
            return False
        _send(pidfd, signal.SIGSTOP)
        return True

    def _note_orphans(self, since: int | None = None) -> None:
        """Keep what has become a child of the kernel, of the processes that were started at `since` or
        later; without it, since the first of those that are known."""
        if since is None and not self._known:
            return
        ids = {pid for pid, _ in self._known.values()}
        first = min(self._since.values(), default=since or 0)
        own_session = os.getsid(0)
        for pid in _children_of(self._kernel) - ids - {os.getpid()}:
            process = _read(pid)
            # A process in the kernel's own session was started by a library there, and belongs to no call.
            if process is None or process.parent != self._kernel or process.session == own_session:
                continue
            if process.started >= min(first, since or first) and process.state not in "ZX":
                pidfd = _open(pid, process.started)
                if pidfd >= 0:
                    self._keep(pid, pidfd)

    def _forget(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        del self._known[pidfd], self._since[pidfd]
        os.close(pidfd)


def _open(pid: int, started: int) -> int:
    """A pidfd of the process with that id and start; -1 where it has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    # The descriptor means one process from here on, so that a look after that shows whether it is that one.
    process = _read(pid)
    if process is not None and process.started == started:
        return pidfd
    os.close(pidfd)
    return -1


def _send(pidfd: int, number: signal.Signals, flags: int = 0) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number, None, flags)
    except OSError:
        return  # it has exited, or may not be signalled, or this system does not know the flag


def _group_of(pid: int) -> int:
    """The process group of the process; 0 where it has ended."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _has_exited(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _children_of(pid: int) -> set[int]:
    """The children of all threads of the process; none where this system has no such lists."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    lists = (_contents(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return {int(child) for one in lists for child in one.split()}


def _table() -> dict[int, _Process]:
    found = {int(name): _read(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    return {pid: process for pid, process in found.items() if process is not None}


def _read(pid: int) -> _Process | None:
    # A process chooses its own name, which may hold brackets and spaces: the last bracket ends it.
    fields = _contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return _Process(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def _contents(path: str) -> bytes:
    """The contents of a file of /proc; empty where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = b""
            while part := file.read(65_536):
                data += part
            return data
    except OSError:
        return b""
