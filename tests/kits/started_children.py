"""The children that the test's process has started, by itself or by its launcher."""

from __future__ import annotations

import os

from flycore.approval.callers import KERNEL_PROGRAM
from flycore.runners.child.launcher import launcher_id
from flycore.runners.child.observer import observer_id
from flysafe.procfs import children_of, command_line, own_children, read_process


def started_children() -> set[int]:
    """The children that were started for something: neither the launcher nor the observer.

    The kernel of a command is none either; this process adopts it if it is a subreaper.
    """
    launcher = launcher_id()
    launched = map(read_process, children_of(launcher) if launcher else ())
    # A child that was just forked is in the session of this process. One that has ended is the launcher's to
    # reap.
    led = {p.pid for p in launched if p and not p.ended and p.session != os.getsid(0)}
    started = (own_children() | led) - {launcher, observer_id()}
    return {pid for pid in started if KERNEL_PROGRAM not in command_line(pid)}
