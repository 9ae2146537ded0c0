"""The process tree of a call: every process that the call started, found and ended, and no other process.

This process is a child subreaper: a process that is orphaned below it becomes its child. When the leader of a
call has exited, each survivor of its tree is therefore such an adopted child, or descends from one. An
adopted child belongs to the call in whose session it is; else to the call that its environment names; else to
one of the calls that already ran when it was started.

Every program that this process starts in a new session must be registered here: an unregistered one would be
taken for an escaped process of some call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import anyio

from flysafe.procfs import (
    Process,
    descendants,
    environment_value,
    own_children,
    process_table,
    read_process,
    send_signal,
)

CALL_ID_VARIABLE = "FLYTUI_CALL_ID"
KILL_PATIENCE_S = 2.0
"""How long a killed tree may take to disappear before its processes are reported as survivors."""
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class ProcessTree:
    """The processes of one call. The leader is our child, leads its session and process group, and is not
    reaped yet, so that its process id cannot be used by another process."""

    leader: int
    call_id: str
    started: int
    """Clock ticks since boot, taken before the leader was started."""
    persistent: bool = False
    """Whether the tree outlives the calls that it serves."""


# Children belong to the process as a whole, and so does this table of trees by leader.
_registered: dict[int, ProcessTree] = {}
# The ids of processes that are subreapers: a fork of this process inherits the list, but not the setting.
_subreaper: list[int] = []


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, instead of init's; done once for each process.

    With that a process that escaped by a double fork appears as a child of this one.
    """
    if os.getpid() in _subreaper:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _subreaper.append(os.getpid())


def register(leader: int, call_id: str, started: int, *, persistent: bool = False) -> ProcessTree:
    """Register the tree of a child that was just started in its own session."""
    tree = ProcessTree(leader, call_id, started, persistent)
    _registered[leader] = tree
    return tree


def forget(tree: ProcessTree) -> None:
    """Forget the tree, whose leader has been reaped: from here on another process may have the leader's
    id."""
    _registered.pop(tree.leader, None)


def has_descendants(tree: ProcessTree) -> bool:
    """Whether a process of the tree is left besides its leader."""
    return any(True for _ in _adopted(tree))


def count_descendants(tree: ProcessTree) -> int:
    """How many processes of the tree still run, its leader not counted."""
    return sum(not process.ended for process in _adopted(tree))


def reap_descendants(tree: ProcessTree) -> None:
    """Reap the orphans of a persistent tree that have ended."""
    for process in tuple(_adopted(tree)):
        if process.ended:
            _reap(process.pid)


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How a tree was ended."""

    killed: int
    """How many processes were still alive after TERM and its grace."""
    survivors: int
    """How many processes are left after KILL: 0 unless the system forbids this user to end them."""


async def end_tree(tree: ProcessTree, grace_s: float) -> TreeEnd:
    """End every process of the tree: with TERM, and after `grace_s` seconds with KILL. The caller has to reap
    the leader."""
    left = await _end_with(tree, signal.SIGTERM, grace_s)
    if not left:
        return TreeEnd(0, 0)
    return TreeEnd(left, await _end_with(tree, signal.SIGKILL, KILL_PATIENCE_S))


async def _end_with(tree: ProcessTree, number: signal.Signals, patience_s: float) -> int:
    """Send the signal to every process of the tree until none is left; how many are left after
    `patience_s`."""
    deadline = time.monotonic() + patience_s
    pause = _FIRST_PAUSE_S
    # By id and start time: an id can be used again by another process of the tree.
    signalled: set[tuple[int, int]] = set()
    _signal_group(tree.leader, number)
    # Members can start others while they are being signalled, so this looks again until nobody is left.
    while True:
        living, reaped = _members(tree)
        if not living and not reaped:
            return 0
        for process in living:
            if (process.pid, process.started) not in signalled:
                signalled.add((process.pid, process.started))
                send_signal(process, number, signal.SIGCONT)
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
    strangers = own_children().difference(_registered)
    # The normal end of a call: no children but registered leaders means that no tree without its leader is
    # left, at the price of reading one small file of /proc.
    if not strangers:
        return
    own_session = os.getsid(0)
    for pid in strangers:
        process = read_process(pid)
        # A session cannot be joined, only inherited: a child in our own session was started by a library in
        # this process and belongs to no call.
        if process is not None and process.session != own_session and _owner_is(tree, process):
            yield process


def _owner_is(tree: ProcessTree, process: Process) -> bool:
    """Whether an adopted process belongs to the tree: by its session, else by its environment, else by its
    age."""
    if process.session in _registered:
        return process.session == tree.leader
    named = environment_value(process.pid, CALL_ID_VARIABLE)
    owner = next((other for other in _registered.values() if named and other.call_id == named), None)
    if owner is not None:
        return owner is tree
    # A process with a session of its own and without our variable hides its origin. It ends with the last
    # of the calls that may have started it, so that no other call loses a process. A persistent process
    # does not count as such a call unless it is the only one, else the hidden process would live as long as
    # that does.
    if process.started < tree.started:
        return False
    others = (
        other
        for other in _registered.values()
        if other is not tree and (tree.persistent or not other.persistent)
    )
    return not any(other.started <= process.started for other in others)


def _has_ended(leader: int) -> bool:
    """Whether the leader and all its threads have exited. It is not reaped, so that its id stays taken."""
    return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(pid: int) -> bool:
    """Reap an adopted zombie; False where some of its threads still run."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
