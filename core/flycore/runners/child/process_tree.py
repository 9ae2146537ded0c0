"""The process tree of a call: every process that the call started, found and ended, and no other process.

Each leader is a child subreaper (`launcher_program`): while it lives, a process that is orphaned below it
becomes its own child, whatever sessions, groups and environments that process has. This process is a
subreaper, too: when a leader exits, what it left becomes a child of this process. A child in another session
that is no leader is therefore left over from a call whose leader has exited, or has shed its leader's setting
on purpose. In both cases its call is over for it, and the next end of a call that ran when it was started
takes it along.

Every program that this process starts in a new session must be registered here: an unregistered one would be
taken for such a process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

import anyio
import msgspec

from flycore.runners.child.launcher import belongs_to_launcher
from flysafe.procfs import (
    Process,
    children_of,
    descendants,
    own_children,
    process_table,
    read_process,
    send_signal,
    tree_size,
)
from flysafe.spare_descriptors import keep_spare_descriptors

KILL_PATIENCE_S = 2.0
"""How long a killed tree may take to get smaller before its processes are reported as survivors. On a busy
machine the system takes longer than that to end several hundred, and ends them one after the other."""
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


class ProcessTree(msgspec.Struct, frozen=True, eq=False):
    """The processes of one call. The leader is our child, leads its session and process group, and is not
    reaped yet, so that its process id cannot be used by another process."""

    leader: int
    call_id: str
    started: int
    """Clock ticks since boot, taken before the leader was started."""
    persistent: bool = False
    """Whether the tree outlives the calls that it serves."""
    sidecar: str = ""
    """The id of the entry that the leader's program belongs to."""
    watched: bool = False
    """Whether the leader only watches over the program, which ends at once when the leader does."""
    first_process: Callable[[], int] = lambda: 0
    """Returns the id of the first process of the program's process namespace, as soon as the leader has
    reported it; 0 where there is none."""


# Children belong to the process as a whole, and so does this table of trees by leader.
_registered: dict[int, ProcessTree] = {}
_leaving: set[int] = set()
"""The ids of adopted processes that run nobody's code any more and are about to exit."""
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
    leader: int,
    call_id: str,
    started: int,
    *,
    persistent: bool = False,
    sidecar: str = "",
    watched: bool = False,
    first_process: Callable[[], int] = lambda: 0,
) -> ProcessTree:
    """Register the tree of a child that was just started in its own session."""
    tree = ProcessTree(leader, call_id, started, persistent, sidecar, watched, first_process)
    _registered[leader] = tree
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
    return any(True for _ in _adopted(tree))


def count_descendants(tree: ProcessTree) -> int:
    """How many processes of the tree still run, its leader not counted."""
    return sum(not process.ended for process in _adopted(tree))


def let_leave(tree: ProcessTree) -> bool:
    """Take the first process of the program's namespace out of the tree, whose leader has exited, where it is
    all that is left and has no process below it. Returns whether that was so.

    That process dies with its watching leader: all others of the namespace are below it, and so none is left.
    Its own end may take many milliseconds, in which the system takes the namespace down.
    """
    pid = tree.first_process()
    left = [process.pid for process in _adopted(tree)]
    if not pid or left != [pid] or children_of(pid):
        return False
    _leaving.add(pid)
    return True


def exceeds(tree: ProcessTree, most: int) -> bool:
    """Whether the tree has more than `most` processes, zombies included: each of them takes a process id."""
    roots = [tree.leader, *(process.pid for process in _adopted(tree))]
    return tree_size(roots, most + 1) > most


def reap_orphans() -> bool:
    """Reap the orphans of all trees that have ended. Returns whether processes are left that no tree looks
    after."""
    # What a call leaves is reaped when it ends. A program that gave its setting up leaves its orphans to this
    # process before that, and a call may last for hours.
    for tree in tuple(_registered.values()):
        reap_descendants(tree)
    _reap_leaving()
    return bool(_leaving)


def leaving() -> frozenset[int]:
    """Return the first processes of namespaces that are going by themselves, and will be reaped later."""
    return frozenset(_leaving)


def _reap_leaving() -> None:
    for pid in tuple(_leaving):
        if _reap(pid):
            _leaving.discard(pid)


def reap_descendants(tree: ProcessTree) -> None:
    """Reap the orphans of the tree that have ended."""
    for process in tuple(_adopted(tree)):
        if process.ended:
            _reap(process.pid)


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
    # Members can start others while they are being signalled, so this looks again until nobody is left.
    while True:
        living, reaped = _members(tree)
        if not living and not reaped:
            return 0
        for process in living:
            if process.pid != spared and (process.pid, process.started) not in signalled:
                signalled.add((process.pid, process.started))
                send_signal(process, number, signal.SIGCONT)
        if number == signal.SIGKILL and (fewest is None or len(living) < fewest):
            fewest, deadline = len(living), time.monotonic() + patience_s
        if living and time.monotonic() >= deadline:
            return len(living)
        # Only zombies were reaped: what they orphaned may be adopted by now, so the next look is at once.
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


def _members(tree: ProcessTree) -> tuple[list[Process], int]:
    """The processes of the tree that are alive now, and how many of its zombies were reaped.

    The tree has ended only when this finds nobody and reaps nobody.
    """
    reaped = 0
    # The process table is read one process after the other, so it is no snapshot: a process may be missed
    # while its parent exits. The leader is looked at first: what it orphans later is no child of ours yet.
    roots = [] if _has_ended(tree.leader) else [tree.leader]
    for process in _adopted(tree):
        if process.ended and _reap(process.pid):
            reaped += 1
        else:
            roots.append(process.pid)
    table = process_table()
    living = (table[pid] for pid in descendants(roots, table) if pid in table)
    return [process for process in living if not process.ended or process.pid in roots], reaped


def _adopted(tree: ProcessTree) -> Iterable[Process]:
    """The adopted children of this process that belong to the tree; its leader is not one of them."""
    if _leaving:
        _reap_leaving()
    strangers = own_children().difference(_registered, _leaving)
    strangers = {pid for pid in strangers if not belongs_to_launcher(pid)}
    # The normal end of a call: no children but registered leaders means that no tree without its leader is
    # left, at the price of reading one small file of /proc.
    if not strangers:
        return
    # The first process of another call's namespace is that call's, and it does not end this one. Where calls
    # end at once, several of them are here, and each would make the others read the whole process table.
    strangers.difference_update(other.first_process() for other in _registered.values() if other is not tree)
    own_session = os.getsid(0)
    for pid in strangers:
        process = read_process(pid)
        # A session cannot be joined, only inherited: a child in our own session was started by a library in
        # this process and belongs to no call.
        if process is not None and process.session != own_session and _owner_is(tree, process):
            yield process


def _owner_is(tree: ProcessTree, process: Process) -> bool:
    """Whether an orphan ends with the tree: it was started during the call, and no leader keeps it."""
    if process.session in _registered:
        return process.session == tree.leader
    # A process from before the call is none of its own. Of several calls that have ended, either may take
    # what the other one left.
    return process.started >= tree.started


def _has_ended(leader: int) -> bool:
    """Whether the leader and all its threads have exited. It is not reaped, so that its id stays taken."""
    return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(pid: int) -> bool:
    """Reap an adopted zombie; False where some of its threads still run."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
