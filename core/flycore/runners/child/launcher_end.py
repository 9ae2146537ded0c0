"""How the launcher ends what a kernel that is gone has left: the processes below the launcher, and those that
it was told to keep (`launcher_program`).

The launcher loads this file by its path when it starts, with the standard library only: when the kernel is
gone, the file may be, too.
"""

from __future__ import annotations

import os
import select
import signal
import time

END_SECONDS = 20.0
"""How long the launcher tries to end what a kernel left. What is left then may not be ended by this user."""
_PAUSE_S = 0.002


def end_below(kept: dict[int, int]) -> None:
    """End all processes below this one, and the kept ones with all below them, until none is left. `kept` has
    their ids by pidfd."""
    deadline = time.monotonic() + END_SECONDS
    poll = select.poll()
    for pidfd in kept:
        poll.register(pidfd, select.POLLIN)
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            # Whatever was started here is below this process, so nothing of it is left.
            if not kept:
                return
        for pidfd, _ in poll.poll(0):
            poll.unregister(pidfd)
            del kept[pidfd]
        # A stopped process starts no other one: only what has stopped is found as a whole.
        stopped: dict[int, int] = {}
        while fresh := _stop_others(stopped, kept):
            stopped |= fresh
        for pidfd in stopped.values():
            _signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        time.sleep(_PAUSE_S)


def _stop_others(stopped: dict[int, int], kept: dict[int, int]) -> dict[int, int]:
    """Stop what is below this process or kept, without these. Returns the pidfds by id."""
    below, fresh = _below(kept), {}
    for pid in below.keys() - stopped.keys():
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue  # it has exited
        # The descriptor means one process from here on. Another one may have got the id before.
        if _parent_of(pid) == below[pid]:
            fresh[pid] = pidfd
            _signal(pidfd, signal.SIGSTOP)
        else:
            os.close(pidfd)
    return fresh


def _below(kept: dict[int, int]) -> dict[int, int]:
    """The kept processes, and all processes below them and below this one: their parents by id."""
    parents = parents_by_id()
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    found = dict.fromkeys((os.getpid(), *kept.values()))
    walked = list(found)
    for pid in walked:  # grows while it is walked
        fresh = [child for child in below.get(pid, ()) if child not in found]
        found.update(dict.fromkeys(fresh))
        walked += fresh
    return {pid: parents[pid] for pid in found if pid != os.getpid() and pid in parents}


def _signal(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return  # it has exited, or may not be signalled


def parents_by_id() -> dict[int, int]:
    """The parent of each process, by id."""
    found = {int(name): _parent_of(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    return {pid: parent for pid, parent in found.items() if parent}


def _parent_of(pid: int) -> int:
    """The parent of the process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            # A process chooses its own name, which may hold brackets and spaces: the last bracket ends it.
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0
