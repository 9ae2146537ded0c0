"""The three processes of a console that runs: found by their supervisor, ended, and waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from flysafe.procfs import Process, children_of, command_line, read_process
from kits.waits import until

PATIENCE = 60.0
_LAUNCHER, _OBSERVER = "launcher_program.py", "observer_program.py"


class ConsoleProcesses(NamedTuple):
    """The processes of one `flytui`."""

    supervisor: int
    console: int
    kernel: int
    """0 while none runs: it starts, or another one holds the root."""


def processes_of(supervisor: int) -> ConsoleProcesses:
    """The processes below that supervisor, as they are now. A console that has not started is 0."""
    try:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    except OSError:
        children = []
    console = kernel = 0
    for pid in map(int, children):
        process = read_process(pid)
        if process is None or gone(pid):
            continue
        # The kernel is in a session of its own, the console in that of the terminal.
        if process.session == pid:
            kernel = pid
        else:
            console = pid
    return ConsoleProcesses(supervisor, console, kernel)


def gone(pid: int) -> bool:
    """Whether the process has ended. A zombie counts: its parent may never wait for it."""
    try:
        is_zombie = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        # Its other threads may still run when the first one has ended, and keep its files open and locked.
        return is_zombie and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


def launcher_of(kernel: int) -> int:
    """The launcher of that kernel; 0 where it has none now."""
    # A fork of it is in its group: a child that has not executed its program, once the launcher was killed.
    return next((pid for pid in children_of(kernel) if is_of_launcher(pid) and _leads_group(pid)), 0)


def kill_launcher(kernel: int) -> int:
    """Kill the launcher of that kernel, once it has one, and return its id."""
    until("the launcher", lambda: launcher_of(kernel))
    pid = launcher_of(kernel)
    assert pid  # 0 would be every process of this test run
    os.kill(pid, signal.SIGKILL)
    return pid


def is_of_launcher(pid: int) -> bool:
    """Whether the process is a launcher, or a fork of one that has not executed a program."""
    return any(_LAUNCHER in word for word in command_line(pid))


def is_observer(pid: int) -> bool:
    """Whether the process is an observer."""
    return any(_OBSERVER in word for word in command_line(pid))


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def still_runs(process: Process) -> bool:
    """Whether this very process runs; a zombie does not."""
    now = read_process(process.pid)
    return now is not None and not now.ended and now.started == process.started


def kill_with_kernel(supervisor: int, read: Callable[[], object] = lambda: None) -> None:
    """Kill the kernel and the supervisor, which cannot start another, and wait until they have gone and the
    console has left by itself. `read` takes what the console still draws on its terminal."""
    os.kill(supervisor, signal.SIGSTOP)
    found = processes_of(supervisor)
    for pid in (found.kernel, supervisor):
        if pid:
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    # The kernel as well: on a busy machine the console may see its supervisor go before that has ended.
    while not (gone(found.console) and gone(found.kernel)):
        assert time.monotonic() < end, "the console or the kernel never left"
        with suppress(OSError):
            read()
        time.sleep(0.02)
