"""Processes that an earlier kernel of this root left running when it was killed: found, and ended.

Every process that a kernel starts for a tool carries in `FLYTUI_CALL_ID` a call id that begins with the
session of that kernel, a name drawn at its start. The sessions of a root stand in a file, so the next kernel,
which holds the root's lock and therefore is the only one, knows that whoever carries an earlier session
belongs to nobody any more. The environment is inherited, so descendants carry it too; one that was started
with an environment without it is still found while an ancestor that carries it lives. Who has shed both the
variable and its ancestors is not found: only a sandbox holds those.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.registry.places import SESSIONS_FILE
from flycore.runners.run import LEFTOVER_GRACE_S
from flycore.runners.trees import CALL_ID_VARIABLE, KILL_PATIENCE_S
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath
from flysafe.procfs import Process, environment_value, process_table, read_process, send_signal

MOST_SESSIONS = 1_000
"""Earlier sessions that are remembered; of more, the oldest are forgotten."""
_MOST_BYTES = 1 << 20
_PAUSE_S = 0.02
_SESSION = re.compile(r"[0-9a-f]{12}")

_Found = dict[tuple[int, int], Process]
"""By pid and start."""


@dataclass(frozen=True, slots=True)
class EndedProcesses:
    """What became of those left over."""

    processes: int
    """How many there were."""
    left: int
    """Who is there even after KILL: 0 unless the system forbids us to end them."""


def new_session() -> str:
    """The name of one kernel's life: what its call ids begin with."""
    return secrets.token_hex(6)


def session_of(call_id: str) -> str:
    """The session a call id begins with; empty where it begins with none."""
    session = call_id.partition("-")[0]
    return session if _SESSION.fullmatch(session) else ""


def earlier_sessions(state_dir: Path) -> tuple[str, ...]:
    """Sessions of this root that may have left somebody, oldest first. The caller holds the root's lock."""
    with suppress(OSError):
        lines = read_beneath(state_dir, SESSIONS_FILE, _MOST_BYTES).decode("ascii", "replace").split()
        return tuple(line for line in lines if _SESSION.fullmatch(line))
    return ()


def write_sessions(state_dir: Path, sessions: Collection[str]) -> None:
    """Remember these, and no others, for the next kernel.

    Where the file cannot be written nothing is raised: the log in the same folder takes no start line then,
    and no call runs.
    """
    lines = "".join(f"{session}\n" for session in tuple(sessions)[-MOST_SESSIONS:])
    with suppress(OSError):
        write_atomic(state_dir / SESSIONS_FILE, lines.encode("ascii"))


async def end_leftover_processes(sessions: Collection[str]) -> EndedProcesses:
    """End everybody who carries one of these sessions, and who descends from them: TERM, then KILL. Neither
    this process nor any of its ancestors is touched: a kernel may be started by a tool that was left over."""
    seen: _Found = {}
    living: list[Process] = []
    for number, patience_s in ((signal.SIGTERM, LEFTOVER_GRACE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
        deadline = time.monotonic() + patience_s
        told: set[tuple[int, int]] = set()
        while living := await anyio.to_thread.run_sync(_still_running, frozenset(sessions), seen):
            for process in living:
                if (process.pid, process.started) not in told:
                    told.add((process.pid, process.started))
                    send_signal(process, number, signal.SIGCONT)
            if time.monotonic() >= deadline:
                break
            await anyio.sleep(_PAUSE_S)
        if not living:
            break
    return EndedProcesses(len(seen), len(living))


def _still_running(sessions: frozenset[str], seen: _Found) -> list[Process]:
    """Who runs now of those found at any time; whoever is found is added to `seen`.

    A descendant whose ancestors have gone would not be found again, so it is remembered.
    """
    for process in find_leftover_processes(sessions):
        seen[process.pid, process.started] = process
    now = (read_process(pid) for pid, _ in tuple(seen))
    return [found for found in now if found and not found.ended and (found.pid, found.started) in seen]


def find_leftover_processes(sessions: Collection[str]) -> list[Process]:
    """Who carries one of these sessions, and who descends from them, as /proc shows it now."""
    if not sessions:
        return []
    table = process_table()
    spared = _ancestors(os.getpid(), table)
    found = [
        process for process in table.values() if process.pid not in spared and _has_session(process, sessions)
    ]
    known = {process.pid for process in found}
    for process in found:
        children = (child for child in table.values() if child.parent == process.pid)
        for child in children:
            if child.pid not in known and child.pid not in spared and not child.ended:
                known.add(child.pid)
                found.append(child)
    return found


def _has_session(process: Process, sessions: Collection[str]) -> bool:
    if process.ended:
        return False
    return session_of(environment_value(process.pid, CALL_ID_VARIABLE)) in sessions


def _ancestors(pid: int, table: dict[int, Process]) -> set[int]:
    """The process and all its ancestors."""
    line: set[int] = set()
    while pid in table and pid not in line:
        line.add(pid)
        pid = table[pid].parent
    return line
