"""The callers behind local connections: programs of the person, and processes that a kernel started.

A process that a kernel started calls for whoever called it. It must not take the name of the terminal or
agent that happens to be above the kernel: that caller's leases and rules are not its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from flycore.approval.callers import identify_peer, is_own_command
from flycore.kernel.lock import LockHolder
from flycore.model.call import Activity, Caller
from flycore.model.caller import SIDECAR_PREFIX, UNKNOWN_PROGRAM
from flycore.model.session import CALL_ID_VARIABLE
from flycore.registry.paths import KERNEL_LOCK, RootPaths
from flycore.runners.child.process_tree import call_served, tree_of
from flysafe.procfs import Process, command_line, environment_value, executable_of, lineage

UNNAMED = "of an unknown call"
"""The name of a process that no tree of this kernel has: one of another kernel, or one that left its tree."""
OWN_PROGRAM = "program of flytui"
"""The name of a program that a kernel started for itself, such as the one that notifies."""

FindCall = Callable[[str], Activity | None]
"""Returns a call by its id."""


def identify_local_peer(pid: int, door: str, places: RootPaths, find_call: FindCall) -> Caller:
    """Return the caller behind the process `pid`, which is connected or is this one.

    Never raises. A process whose ancestors cannot be told is an unknown caller, which no rule for a caller
    covers.
    """
    line = lineage(pid)
    if line is None:
        return Caller(door=door, program=UNKNOWN_PROGRAM, pid=pid)
    started = _started_by_kernel(line, places)
    return identify_peer(pid, door) if started is None else _sidecar(started, door, find_call)


def _started_by_kernel(line: tuple[Process, ...], places: RootPaths) -> tuple[Process, ...] | None:
    """Return the part of the lineage that a kernel started, nearest first; None where no kernel did."""
    kernels = {os.getpid(), *(_other_kernels(places) if _has_own_command(line[1:]) else ())}
    for index, process in enumerate(line[1:], start=1):
        # A session cannot be joined, only inherited. Every tool gets a session of its own, so a child in the
        # kernel's session is a program that the person runs from the console.
        if process.pid in kernels and line[index - 1].session != process.session:
            return line[:index]
    # A kernel of this user that keeps its state elsewhere is not found by its lock, and one that was killed
    # is no ancestor any more. Their children still carry the variable, unless they shed it.
    marked = [index for index, process in enumerate(line) if environment_value(process.pid, CALL_ID_VARIABLE)]
    return line[: marked[-1] + 1] if marked else None


def _has_own_command(line: tuple[Process, ...]) -> bool:
    """Return whether one of the processes is the `flytui` command."""
    return any(
        is_own_command(
            os.path.basename(executable_of(process.pid)) or process.name, command_line(process.pid)
        )
        for process in line
    )


def _other_kernels(places: RootPaths) -> set[int]:
    """Return the pids in the lock files of all roots of this user. A killed kernel leaves its record."""
    found: set[int] = set()
    for path in places.state_dir.parent.glob(f"*/{KERNEL_LOCK}"):
        found.add(_holder_of(path))
    return found


def _holder_of(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(4096), type=LockHolder).pid
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return 0


def _sidecar(line: tuple[Process, ...], door: str, find_call: FindCall) -> Caller:
    # The leader of the call's tree stands for all its processes, so that they share one key and a sidecar
    # cannot get another by starting a process.
    tree = next((found for process in line if (found := tree_of(process.pid)) is not None), None)
    if tree is None:
        leader, name, call = line[-1], UNNAMED, None
    else:
        leader = next(process for process in line if process.pid == tree.leader)
        call = find_call(call_served(tree))
        name = tree.sidecar or (call.sidecar if call is not None else None) or OWN_PROGRAM
    within = "" if call is None else f"call {call.call_id} of {call.caller}"
    return Caller(
        door=door,
        program=f"{SIDECAR_PREFIX}{name}",
        pid=leader.pid,
        started=leader.started,
        within=within,
        parent_call_id="" if call is None else call.call_id,
    )
