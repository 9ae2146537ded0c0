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
import shutil
import signal
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.kernel.bus import Bus
from flycore.kernel.call_history import NOT_ENDED, CallHistory
from flycore.model.clock import SystemClock
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass
from flycore.registry.paths import ARTIFACTS_DIR, SESSIONS_FILE, STORE_DIR
from flycore.runners.child.process_tree import CALL_ID_VARIABLE, KILL_PATIENCE_S
from flycore.runners.child.run import LEFTOVER_GRACE_S
from flycore.sandbox.content_store import prune
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


# Clears what earlier kernels left: artifacts past their time, and copies of programs nobody runs now.


ARTIFACT_DAYS = 7


def remove_expired(state_dir: Path, data_dir: Path, now: float) -> int:
    """Remove artifact folders not changed for a week and copies of programs not run for a month; how many
    were removed.

    The caller holds the root's lock and has started no call yet. `now` is Unix time, seconds.
    """
    oldest = now - ARTIFACT_DAYS * 86_400
    expired = [folder for folder in _folders(state_dir / ARTIFACTS_DIR) if folder.lstat().st_mtime < oldest]
    for folder in expired:
        shutil.rmtree(folder, ignore_errors=True)
    return len(expired) + prune(data_dir / STORE_DIR, now)


def _folders(parent: Path) -> list[Path]:
    """Real folders below `parent`; a link is nobody's folder."""
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if stat.S_ISDIR(entry.lstat().st_mode)]


# What a killed kernel left: its processes are ended, and its calls get a line that nobody knows how they
# ended.


async def begin_session(state_dir: Path, audit: AuditLog) -> str:
    """End whom a killed kernel of this root has left, write how many they were, and begin a session, whose
    name is returned. Sessions that have left nobody are forgotten."""
    session, earlier = new_session(), earlier_sessions(state_dir)
    write_sessions(state_dir, (*earlier, session))
    ended = await end_leftover_processes(earlier)
    if ended.processes:
        with suppress(AuditUnwritable):
            audit.append(audit_events.STRAYS_ENDED, audit_events.strays_ended(ended.processes, ended.left))
    if not ended.left:
        write_sessions(state_dir, (session,))
    return session


async def record_unfinished(
    past: CallHistory, audit: AuditLog, session: str, bus: Bus, clock: SystemClock
) -> None:
    """Once the log has been read, write for every call that had started in an earlier session, and has no
    end, that its outcome is not known. A log that takes no line is tried again by the next kernel."""
    await past.ready()
    for record in past.unfinished():
        if session_of(record.call_id) == session:
            continue
        fields = audit_events.outcome_unknown(
            record.call_id,
            tool=record.tool,
            caller=record.caller,
            caller_key=record.caller_key,
            sidecar=record.sidecar,
            parent=record.parent_call_id,
            message=NOT_ENDED,
        )
        try:
            audit.append(audit_events.TOOL_OUTCOME_UNKNOWN, fields)
        except AuditUnwritable:
            return
        payload = {"callId": record.call_id, "tool": record.tool}
        bus.publish(
            Event(cls=EventClass.TOOL, type="call.outcome-unknown", at=clock.now(), payload={**payload})
        )
