"""The children of the test's process that run a program: without its launcher, and the ready child.

Whatever starts a child has the launcher make another one ready, so that these two differ before and after.
"""

from __future__ import annotations

from flycore.runners.child.launcher import belongs_to_launcher, is_launcher
from flysafe.procfs import own_children


def started_children() -> set[int]:
    """The children that were started for something."""
    return {pid for pid in own_children() if not belongs_to_launcher(pid)}


def ready_children() -> set[int]:
    """The children that wait for their program."""
    return {pid for pid in own_children() if belongs_to_launcher(pid) and not is_launcher(pid)}
