"""Ends the whole process tree of a call, escapees included, and nothing that is not of that call.

Why this finds everybody: this process is a child subreaper, so whoever is orphaned below it becomes its
child. When the leader of a call has left, each survivor of its tree is, or descends from, an adopted child
of ours. After a normal exit it is therefore enough to look at our own list of children: nobody there but
leaders of running calls means that nobody is left, at the price of reading one small file.

Whose an adopted child is: the call in whose session it is; else the call its environment names; else,
for one that has a session of its own and hides its origin, it is ended with the last of the calls that
already ran when it was started. (A process that stays over many calls is no shield: only where no other
call can have started the hidden one, it is its own.) A child in the session of this very process was
started by a library here (a session cannot be joined, only inherited): it is left alone. So whatever else
starts a program in a new session from this process must do so through this room.
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
"""How long a killed tree may take to vanish before it is reported as surviving."""
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class ProcessTree:
    """The processes of one call. `leader` was started by us, leads session and group, is not yet reaped."""

    leader: int
    call_id: str
    started: int
    """Clock ticks since boot, taken before the leader was started."""
    persistent: bool = False
    """Whether it outlives the calls it serves."""


_registered: dict[int, ProcessTree] = {}  # children belong to the process as a whole, and so does this table


_subreaper: list[int] = []


def become_subreaper() -> None:
    """Have orphans of our children re-parented to this process instead of to init; done once a process.

    This makes an escape by a double fork visible: the escaped process shows up as a child of this one.
    """
    if os.getpid() in _subreaper:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _subreaper.append(os.getpid())


def register(leader: int, call_id: str, started: int, *, stays: bool = False) -> ProcessTree:
    """Register the tree of a child that was just started in its own session."""
    tree = ProcessTree(leader, call_id, started, stays)
    _registered[leader] = tree
    return tree


def forget(tree: ProcessTree) -> None:
    """Forget the tree; its leader's pid may be reused from here on."""
    _registered.pop(tree.leader, None)


def has_descendants(tree: ProcessTree) -> bool:
    """Whether anybody of the tree is left besides its leader; cheap when nobody is."""
    return any(True for _ in _adopted(tree))


def count_descendants(tree: ProcessTree) -> int:
    """How many of the tree besides its leader still run."""
    return sum(not process.ended for process in _adopted(tree))


def reap_descendants(tree: ProcessTree) -> None:
    """Reap whoever of a tree that stays was orphaned and has ended."""
    for process in tuple(_adopted(tree)):
        if process.ended:
            _reap(process.pid)


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How a tree was ended."""

    killed: int
    """Who was still there after TERM and its grace."""
    survivors: int
    """Who is left after KILL: 0 unless the system forbids us to end them."""


async def end_tree(tree: ProcessTree, grace_s: float) -> TreeEnd:
    """End everybody: TERM, after `grace_s` seconds KILL. The leader is left to be reaped by whoever
    holds it."""
    left = await _end_with(tree, signal.SIGTERM, grace_s)
    if not left:
        return TreeEnd(0, 0)
    return TreeEnd(left, await _end_with(tree, signal.SIGKILL, KILL_PATIENCE_S))


async def _end_with(tree: ProcessTree, number: signal.Signals, patience_s: float) -> int:
    deadline = time.monotonic() + patience_s
    pause = _FIRST_PAUSE_S
    told: set[tuple[int, int]] = set()
    _signal_group(tree.leader, number)
    while True:
        living, reaped = _members(tree)
        if not living and not reaped:
            return 0
        for process in living:
            if (process.pid, process.started) not in told:
                told.add((process.pid, process.started))
                send_signal(process, number, signal.SIGCONT)
        if living and time.monotonic() >= deadline:
            return len(living)
        await anyio.sleep(pause if living else 0)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _signal_group(leader: int, number: signal.Signals) -> None:
    """At once for the whole group, so that nobody in it forks away between two signals."""
    try:
        os.killpg(leader, number)
        os.killpg(leader, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return


def _members(tree: ProcessTree) -> tuple[list[Process], int]:
    """Who of the tree is alive now, and how many of its zombies were reaped on the way.

    A table of processes is no snapshot: only a look that finds nobody and reaps nobody proves an end, and
    only when the leader had left before it began: what a leader orphans later is no child of ours yet.
    """
    reaped = 0
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
    """Children of ours that are the tree's, except its leader."""
    strangers = own_children().difference(_registered)
    if not strangers:
        return  # the normal end of a call
    own_session = os.getsid(0)
    for pid in strangers:
        process = read_process(pid)
        if process is not None and process.session != own_session and _owner_is(tree, process):
            yield process


def _owner_is(tree: ProcessTree, process: Process) -> bool:
    if process.session in _registered:
        return process.session == tree.leader
    named = environment_value(process.pid, CALL_ID_VARIABLE)
    owner = next((other for other in _registered.values() if named and other.call_id == named), None)
    if owner is not None:
        return owner is tree
    if process.started < tree.started:
        return False
    others = (
        other
        for other in _registered.values()
        if other is not tree and (tree.persistent or not other.persistent)
    )
    return not any(other.started <= process.started for other in others)


def _has_ended(leader: int) -> bool:
    """Whether it is a zombie with all its threads; it stays one, so that its pid stays taken."""
    return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(pid: int) -> bool:
    """Reap an adopted zombie; False when it still has threads that run."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
