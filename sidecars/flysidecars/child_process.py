"""Programs a sidecar starts and keeps: each in a session of its own, ended with everybody it has started.

Whose a process is: it descends from the program, is in its session, or was started with its mark, which a
double fork into another session does not shed. Linux: read from /proc.
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
"""The variable that carries the mark; whoever inherits the environment inherits it."""
GRACE_S = 2.0
"""Between TERM and KILL."""
KILL_PATIENCE_S = 2.0
_PAUSE_S = 0.01
_NOT_INHERITED = ("FLYTUI_TOOL_MODE",)


class ChildProcess:
    """A program that runs, with pipes for its three streams (stdin only where `talks`).

    Raises `ToolFailed` (`delegate-failed`) where it cannot be started. Whoever makes it calls `end`.
    """

    __slots__ = ("_mark", "_started", "popen")

    def __init__(self, argv: Sequence[str], folder: str | int, *, talks: bool) -> None:
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
            said = failed.strerror if isinstance(failed, OSError) else "an argument cannot be passed on"
            raise ToolFailed("delegate-failed", f"{argv[0]} cannot be started: {said}") from failed
        found = read_process(self.popen.pid)
        self._started = found.started if found else -1

    def end(self, grace_s: float = GRACE_S) -> int:
        """End it and its tree: TERM, after `grace_s` seconds KILL. The program's exit code, negative for a
        signal; -9 where the system does not let us end it."""
        self.finish(grace_s)
        code = self.popen.poll()
        return -signal.SIGKILL if code is None else code

    def finish(self, grace_s: float = GRACE_S) -> None:
        """End the tree as `end` does, and leave the program to be reaped by who waits for it."""
        if not self._end_with(signal.SIGTERM, grace_s):
            self._end_with(signal.SIGKILL, KILL_PATIENCE_S)

    def signal_tree(self, number: signal.Signals) -> None:
        """Signal everybody of the tree, once."""
        for process in _living(self.popen.pid, self._started, self._mark):
            send_signal(process, number, signal.SIGCONT)

    def exit_code(self, patience_s: float = 0.0) -> int | None:
        """How the program itself has left, None where it still runs after `patience_s` seconds. It stays to
        be reaped by `end`, so that its pid stays taken."""
        if self.popen.returncode is not None:
            return self.popen.returncode
        descriptor = os.pidfd_open(self.popen.pid)
        try:
            select.select((descriptor,), (), (), patience_s)
        finally:
            os.close(descriptor)
        gone = os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if gone is None:
            return None
        return gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()

    def _end_with(self, number: signal.Signals, patience_s: float) -> bool:
        """Signal everybody until nobody is left; whether that came about in time."""
        deadline = time.monotonic() + patience_s
        signalled: set[tuple[int, int]] = set()
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
    """Everybody of the tree who has not ended."""
    table = process_table()
    roots = [leader] if leader in table and table[leader].started == started else []
    wanted = f"{MARK}={mark}".encode()
    roots += [pid for pid, process in table.items() if pid != leader and _belongs(process, leader, wanted)]
    return [process for pid in descendants(roots, table) if not (process := table[pid]).ended]


def _belongs(process: Process, leader: int, wanted: bytes) -> bool:
    return process.session == leader or wanted in environment_of(process.pid)
