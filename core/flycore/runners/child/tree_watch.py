"""The regular look at the process trees of all calls, whichever call is about to end or not.

With each look, orphans that have ended are reaped, control groups that the last process has left are removed,
a launcher that was ended gets a successor, a launcher or an observer that was stopped goes on, and a tree
with more processes than its limit is reported to its owner, who ends it. The system's own limit of processes
counts all processes of the user, so it cannot be set low enough to be of use for one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from flycore.runners.child.launcher import renew_launcher
from flycore.runners.child.observer import renew_observer
from flycore.runners.child.process_tree import ProcessTree, exceeds, reap_orphans
from flysafe.control_groups import memory_control

LOOK_SECONDS = 0.25
"""The time between two looks. A look reads about ten small files of /proc for each process of a call."""


class TreeWatch:
    """The looks on one event loop, made by `tree_watch_of`. They go on while there is anything to look
    after."""

    def __init__(self) -> None:
        # Nothing here refers to the loop, which would then never be freed.
        self._watched: dict[ProcessTree, tuple[int, Callable[[], object]]] = {}
        self._planned = False

    def watch(self, tree: ProcessTree, most: int, on_excess: Callable[[], object]) -> None:
        """Look after the tree; `on_excess` is called once, when it has more than `most` processes."""
        self._watched[tree] = (most, on_excess)
        self._plan()

    def forget(self, tree: ProcessTree) -> None:
        """Stop looking after the tree; nothing where it is not watched."""
        self._watched.pop(tree, None)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._planned = False
        # Without a descriptor or a process left, the next look tries again.
        with suppress(OSError):
            renew_launcher()
            renew_observer()
        left = reap_orphans()
        groups = memory_control().groups
        if groups is not None:
            left = groups.remove_left() or left
        for tree, (most, on_excess) in tuple(self._watched.items()):
            if exceeds(tree, most):
                self.forget(tree)
                on_excess()
        if self._watched or left:
            self._plan()


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, TreeWatch] = WeakKeyDictionary()


def tree_watch_of(loop: asyncio.AbstractEventLoop) -> TreeWatch:
    """The watch of that event loop; it lives as long as the loop."""
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = TreeWatch()
    return watch
