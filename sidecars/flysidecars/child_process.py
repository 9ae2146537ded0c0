"""Programs that a sidecar starts and keeps running, and that it ends together with all their descendants.

Each program gets a session of its own. A process belongs to the program's tree when it descends from the
program, is in its session, or has the program's mark in its environment. This is read from /proc (Linux).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time

from flysafe.procfs import Process, descendants, environment_of, process_table, read_process, send_signal
from flysidecars.sdk import ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "FLYTUI_CHILD"
"""The environment variable that carries the mark. Every descendant inherits it with the environment."""
GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_PATIENCE_S = 2.0
"""Seconds to wait for the processes to disappear after SIGKILL."""
_PAUSE_S = 0.01
# The kernel sets this for the sidecar itself. A program that the sidecar starts is not a tool of the kernel.
_NOT_INHERITED = ("FLYTUI_TOOL_MODE",)


class ChildProcess:
    """A running program with pipes for stdout and stderr, and for stdin if `talks` is true.

    Raises `ToolFailed` (`delegate-failed`) if the program cannot be started. The owner calls `end`.
    """

    __slots__ = ("_mark", "_started", "popen")

    def __init__(self, argv: Sequence[str], folder: str | int, *, talks: bool) -> None:
        # A process that forks twice and opens a new session has lost its parent and its session,
        # but it keeps the environment: the mark finds it again.
        self._mark = f"{os.getpid()}-{os.urandom(8).hex()}"
        env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        cwd = folder if isinstance(folder, str) else f"/proc/self/fd/{folder}"
        try:
            self.popen = subprocess.Popen(
                argv,
                bufsize=0,
                cwd=cwd,
                env={**env, MARK: self._mark},
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as failed:
            reason = failed.strerror if isinstance(failed, OSError) else "an argument cannot be passed on"
            raise ToolFailed("delegate-failed", f"{argv[0]} cannot be started: {reason}") from failed
        # A pid alone may be reused by another process; pid and start time together name one process.
        found = read_process(self.popen.pid)
        self._started = found.started if found else -1

    def end(self, grace_s: float = GRACE_S) -> int:
        """End the program and its tree: SIGTERM, then SIGKILL after `grace_s` seconds.

        Returns the program's exit code, negative for a signal; -9 if the system does not let us end it.
        """
        self.end_tree(grace_s)
        code = self.popen.poll()
        return -signal.SIGKILL if code is None else code

    def end_tree(self, grace_s: float = GRACE_S) -> None:
        """End the tree as `end` does, but do not reap the program: another thread waits for it."""
        if not self._signal_until_gone(signal.SIGTERM, grace_s):
            self._signal_until_gone(signal.SIGKILL, KILL_PATIENCE_S)

    def signal_tree(self, number: signal.Signals) -> None:
        """Send a signal once to every process of the tree."""
        for process in _living(self.popen.pid, self._started, self._mark):
            send_signal(process, number, signal.SIGCONT)

    def exit_code(self, patience_s: float = 0.0) -> int | None:
        """Return the program's exit code, negative for a signal; None if it still runs after `patience_s`
        seconds. The program is not reaped."""
        if self.popen.returncode is not None:
            return self.popen.returncode
        descriptor = os.pidfd_open(self.popen.pid)
        try:
            select.select((descriptor,), (), (), patience_s)
        finally:
            os.close(descriptor)
        # WNOWAIT leaves the zombie to `end`: until it is reaped, no other process can get its pid, and the
        # signals that `end` sends cannot reach a stranger.
        gone = os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if gone is None:
            return None
        return gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status

    def close(self) -> None:
        """Close this end of the pipes."""
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()

    def _signal_until_gone(self, number: signal.Signals, patience_s: float) -> bool:
        """Signal each process of the tree once; True if none is left within `patience_s` seconds."""
        deadline = time.monotonic() + patience_s
        signalled: set[tuple[int, int]] = set()
        # The tree is read again in each round: a process may fork between the reading and its signal.
        while living := _living(self.popen.pid, self._started, self._mark):
            for process in living:
                if (process.pid, process.started) not in signalled:
                    signalled.add((process.pid, process.started))
                    send_signal(process, number, signal.SIGCONT)
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
        return True


def _living(leader: int, started: int, mark: str) -> list[Process]:
    """The processes of the tree that have not ended."""
    table = process_table()
    roots = [leader] if leader in table and table[leader].started == started else []
    marker = f"{MARK}={mark}".encode()
    roots += [pid for pid, process in table.items() if pid != leader and _belongs(process, leader, marker)]
    return [process for pid in descendants(roots, table) if not (process := table[pid]).ended]


def _belongs(process: Process, leader: int, marker: bytes) -> bool:
    return process.session == leader or marker in environment_of(process.pid)
