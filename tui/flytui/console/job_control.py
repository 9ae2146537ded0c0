"""Stops the console's job as ctrl+z does for other programs, where a shell is there to take it up again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from flysafe.procfs import PROC, ProcFolder, ancestors

NO_SHELL = "no shell has this console as a job, so nothing could take it up again"


def stop_job(pid: int) -> str:
    """Stop the process group of `pid`, which is the console's supervisor. Return why that cannot be done;
    `""` where the signal was sent."""
    why_not = job_obstacle(pid)
    if not why_not:
        # The whole group, as a terminal does: `flytui | tee log` is one job.
        os.killpg(os.getpgid(pid), signal.SIGTSTP)
    return why_not


def job_obstacle(pid: int, proc: ProcFolder = PROC) -> str:
    """Why nothing would take up that process after a stop; `""` where a shell would. The system ignores a
    terminal's stop for such a group, too, but this console stops itself and would stay stopped."""
    with suppress(OSError):
        if _ignores_stop(pid, proc):
            return NO_SHELL
        group, session = os.getpgid(pid), os.getsid(pid)
        for ancestor in (*ancestors(pid, proc), 1):  # in a container, the shell may be the first process
            if os.getpgid(ancestor) != group:
                return "" if os.getsid(ancestor) == session else NO_SHELL
    return NO_SHELL


def _ignores_stop(pid: int, proc: ProcFolder) -> bool:
    """Whether the process was started with the signal ignored, as by a shell without jobs."""
    with open(f"{proc}/{pid}/status", "rb") as file:
        for raw in file.read(65_536).splitlines():
            name, _, value = raw.partition(b":")
            if name == b"SigIgn":
                return bool(int(value, 16) >> (signal.SIGTSTP - 1) & 1)
    return False
