"""The words for a kernel and for the process that holds a root."""

from __future__ import annotations

import time

from flysafe.text import safe_text


def clock_time(seconds: float) -> str:
    """A Unix time in the person's time zone, as in `2026-06-15 12:00:01`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def holder_text(pid: int, since: float, role: str, calls: str = "") -> str:
    """Describe the process that holds a root, with the `calls` that it runs; `pid` is 0 if its lock does not
    name it."""
    if not pid:
        return "another process, which the lock of this root does not name"
    # Nobody waits for `flytui serve`, so a kernel without a console is one that a command started.
    kernel = "the kernel that a command started" if role == "headless" else role
    return (
        f"{kernel}, pid {pid}, since {clock_time(since)}{f', which runs {safe_text(calls)}' if calls else ''}"
    )


def kernel_name(role: str, on_demand: bool) -> str:
    """Return what a person calls a kernel of that role."""
    if on_demand:
        return "started by a command"
    return "flytui serve" if role == "headless" else role
