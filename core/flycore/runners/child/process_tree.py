"""The process tree of a call: every process that the call started, found and ended, and no other process.

A program in a process namespace is told by the first process of the namespace. Everything in it is below that
process, and the system ends it together with it. If a control group was delegated to flytui, the processes of
each other call are in a group of their own, which the system can end as a whole. The process table is read
only if there is neither.

Every other leader is a child of the launcher, and both are child subreapers (`launcher_program`): while the
leader lives, a process that is orphaned below it becomes its own child, whatever sessions, groups and
environments that process has. When a leader exits, what it left becomes a child of the launcher, or of this
process if the launcher was ended. A child of these two in another session that is no leader is therefore left
over from a call whose leader has exited, or has shed its leader's setting on purpose. In both cases its call
is over for it, and the next end of a call that ran when it was started takes it along.

Every program that this process starts in a new session must be registered here: an unregistered one would be
taken for such a process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection

import anyio
import msgspec

from flycore.runners.child.launcher import launcher_id
from flycore.runners.child.namespace_process import leaving, reap_leaving
from flycore.runners.child.observer import observer_id
from flycore.runners.child.process import ChildProcess
from flysafe.control_groups import MemoryGroup
from flysafe.procfs import (
    Process,
    children_of,
    descendants,
    own_children,
    process_table,
    processes_below,
    read_process,
    send_signal,
)
from flysafe.spare_descriptors import keep_spare_descriptors

KILL_PATIENCE_S = 2.0
"""How long a killed tree may take to get smaller before its processes are reported as survivors. On a busy
machine the system takes longer than that to end several hundred, and ends them one after the other."""
MOST_SIGNALLED = 10_000
"""How many processes of a namespace get a signal of their own; all end with its first one."""
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


class ProcessTree(msgspec.Struct, frozen=True, eq=False):
    """The processes of one call. The leader leads its session and process group, and is not reaped yet, so
    that its process id cannot be used by another process."""

    process: ChildProcess
    """The leader."""
    call_id: str
    started: int
    """Clock ticks since boot, taken before the leader was started."""
    persistent: bool = False
    """Whether the tree outlives the calls that it serves."""
    sidecar: str = ""
    """The id of the entry that the leader's program belongs to."""
    watched: bool = False
    """Whether the leader only watches over the program, which ends at once when the leader does."""
    group: MemoryGroup | None = None
    """The control group of its processes; None if they have none of their own."""

    @property
    def leader(self) -> int:
        """The id of the leader."""
        return self.process.pid


# Children belong to the process as a whole, and so does this table of trees by leader.
_registered: dict[int, ProcessTree] = {}
_served: dict[int, str] = {}
"""The call that each persistent tree serves, by leader."""
# The ids of processes that are subreapers: a fork of this process inherits the list, but not the setting.
_subreaper: list[int] = []


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, instead of init's; done once for each process.

    With that a process that escaped by a double fork appears as a child of this one.
    """
    if os.getpid() in _subreaper:
        return
    # It answers for all of them from now on, and has to find and end them whatever it lacks.
    keep_spare_descriptors()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _subreaper.append(os.getpid())


def register(
    process: ChildProcess,
    call_id: str,
    started: int,
    *,
    persistent: bool = False,
    sidecar: str = "",
    watched: bool = False,
    group: MemoryGroup | None = None,
) -> ProcessTree:
    """Register the tree of a child that was just started in its own session."""
    tree = ProcessTree(process, call_id, started, persistent, sidecar, watched, group)
    _registered[process.pid] = tree
    return tree


def tree_of(leader: int) -> ProcessTree | None:
    """Return the registered tree with that leader."""
    return _registered.get(leader)


def call_served(tree: ProcessTree) -> str:
    """Return the id of the call that the tree serves now, or was started for."""
    return _served.get(tree.leader, tree.call_id)


def set_call_served(tree: ProcessTree, call_id: str) -> None:
    """Note which call a persistent tree serves now."""
    if tree.leader in _registered:
        _served[tree.leader] = call_id


def forget(tree: ProcessTree) -> None:
    """Forget the tree, whose leader has been reaped: from here on another process may have the leader's
    id."""
    _registered.pop(tree.leader, None)
    _served.pop(tree.leader, None)


def has_descendants(tree: ProcessTree) -> bool:
    """Whether a process of the tree is left besides its leader."""
    return bool(_adopted(tree))


def count_descendants(tree: ProcessTree) -> int:
    """How many processes of the tree still run, its leader not counted."""
    return sum(not process.ended for process in _adopted(tree))


def namespace_leaves(tree: ProcessTree) -> bool:
    """Whether the tree, whose leader has exited, is a namespace of which only the first process is left, on
    its way out: the system ends it with the leader."""
    pid = tree.process.first_process
    return bool(pid) and [process.pid for process in _adopted(tree)] == [pid] and not children_of(pid)


def exceeds(tree: ProcessTree, most: int) -> bool:
    """Whether the tree has more than `most` processes, zombies included: each of them takes a process id."""
    roots = [tree.leader, *(process.pid for process in _adopted(tree))]
    return len(processes_below(roots, most + 1)) > most


def reap_orphans() -> bool:
    """Reap the orphans of all trees that have ended. Returns whether processes are left that no tree looks
    after."""
    # The launcher reaps what its children leave. If it was ended, this process has to, and a call may last
    # for hours.
    for tree in tuple(_registered.values()):
        for process in _adopted(tree):
            if process.ended:
                _reap(process.pid)
    return reap_leaving()


class TreeEnd(msgspec.Struct, frozen=True):
    """How a tree was ended."""

    killed: int
    """How many processes were still alive after TERM and its grace."""
    survivors: int
    """How many processes are left after KILL: 0 unless the system forbids this user to end them."""


async def end_tree(tree: ProcessTree, grace_s: float) -> TreeEnd:
    """End every process of the tree: with TERM, and after `grace_s` seconds with KILL; with KILL at once
    where that is 0. The caller has to reap the leader."""
    left = await _end_with(tree, signal.SIGTERM, grace_s) if grace_s else 1
    if not left:
        return TreeEnd(0, 0)
    return TreeEnd(left, await _end_with(tree, signal.SIGKILL, KILL_PATIENCE_S))


async def _end_with(tree: ProcessTree, number: signal.Signals, patience_s: float) -> int:
    """Send the signal to every process of the tree until none is left; how many are left after
    `patience_s`, which for KILL counts anew whenever fewer are left."""
    deadline = time.monotonic() + patience_s
    fewest: int | None = None
    pause = _FIRST_PAUSE_S
    # By id and start time: an id can be used again by another process of the tree.
    signalled: set[tuple[int, int]] = set()
    # A leader that only watches takes the program down with it, which would then have no time to leave. It
    # ends by itself once the program has.
    spared = tree.leader if tree.watched and number == signal.SIGTERM else 0
    if not spared:
        _signal_group(tree.leader, number)
    if number == signal.SIGKILL and tree.group is not None:
        # At once, also what is just being forked. Without it in this kernel, they are killed one by one.
        tree.group.kill()
    # Members can start others while they are being signalled, so this looks again until nobody is left.
    while True:
        living, whole = _members(tree)
        if not living and whole:
            return 0
        for process in living:
            if process.pid != spared and (process.pid, process.started) not in signalled:
                signalled.add((process.pid, process.started))
                send_signal(process, number, signal.SIGCONT)
        if number == signal.SIGKILL and (fewest is None or len(living) < fewest):
            fewest, deadline = len(living), time.monotonic() + patience_s
        if living and time.monotonic() >= deadline:
            return len(living)
        # Some have gone, and what they orphaned may be adopted by now: the next look is at once.
        await anyio.sleep(pause if living else 0)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _signal_group(leader: int, number: signal.Signals) -> None:
    """Signal the process group of the leader."""
    # One system call for the whole group: no member can fork between two signals. CONT lets a stopped
    # member act on TERM. The leader is not reaped yet, so its id still names this group.
    try:
        os.killpg(leader, number)
        os.killpg(leader, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return


def _members(tree: ProcessTree) -> tuple[list[Process], bool]:
    """The processes of the tree that are alive now, and whether this look was a whole one.

    The tree has ended only when a whole look finds nobody.
    """
    whole = True
    # The leader is looked at first: what it orphans later is no child of ours yet.
    roots = [] if tree.process.has_exited() else [tree.leader]
    for process in _adopted(tree):
        if process.ended and _reap(process.pid):
            whole = False
        else:
            roots.append(process.pid)
    known = _known_members(tree, roots)
    if known is not None:
        found = filter(None, map(read_process, known))
        return [process for process in found if not process.ended or process.pid in roots], whole
    # The table is read one process after the other, so it is no snapshot: a process may be missed while its
    # parent exits.
    table = process_table() if roots else {}
    # One that the launcher has reaped by now may have left others to it.
    whole = whole and all(pid in table for pid in roots)
    living = (table[pid] for pid in descendants(roots, table) if pid in table)
    return [process for process in living if not process.ended or process.pid in roots], whole


def _known_members(tree: ProcessTree, roots: list[int]) -> Collection[int] | None:
    """The processes of the tree, if the system knows who belongs to it; None if only the whole process table
    tells that. `roots` are the leader and those that are not below it any more."""
    if tree.process.first_process:
        # One that this misses ends with the first process, too.
        return processes_below(roots, MOST_SIGNALLED)
    if tree.group is None:
        return None
    inside = tree.group.processes()
    others = (read_process(pid) for pid in roots if pid not in inside)
    # A program without a sandbox can put a process of its own into another group.
    return None if any(process and not process.ended for process in others) else inside.union(roots)


def _adopted(tree: ProcessTree) -> list[Process]:
    """The processes of the tree that are not below its leader any more."""
    # The processes of a namespace stay below its first one, which ends last.
    if first := tree.process.first_process:
        process = None if tree.process.namespace_ended() else read_process(first)
        return [] if process is None else [process]
    own_session = os.getsid(0)
    while True:
        # The normal end of a call: no children but registered leaders means that no tree without its leader
        # is left, at the price of reading two small files of /proc.
        found = [read_process(pid) for pid in _strangers()]
        # What one that has gone since then left is a child of the launcher by now.
        if all(found):
            # A session cannot be joined, only inherited: a child in our own session was started by a library
            # in this process, and belongs to no call.
            children = (process for process in found if process and process.session != own_session)
            return [process for process in children if _owner_is(tree, process)]


def _strangers() -> set[int]:
    """The children of this process and of the launcher that lead no tree."""
    strangers, launcher = own_children(), launcher_id()
    if launcher:
        strangers |= children_of(launcher)
        strangers.discard(launcher)
    strangers.difference_update(_registered, leaving(), (observer_id(),))
    # The first process of another call's namespace is that call's, and it does not end this one.
    strangers.difference_update(other.process.first_process for other in _registered.values())
    return strangers


def _owner_is(tree: ProcessTree, process: Process) -> bool:
    """Whether an orphan ends with the tree: it was started during the call, and no leader keeps it."""
    if process.session in _registered:
        return process.session == tree.leader
    # A process from before the call is none of its own. Of several calls that have ended, either may take
    # what the other one left.
    return process.started >= tree.started


def _reap(pid: int) -> bool:
    """Reap a zombie; False if some of its threads still run, or if it is the launcher's to reap."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False
