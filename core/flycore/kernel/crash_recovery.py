"""Recovery after a killed kernel: its processes are ended, its calls get an end in the log, and old files are
removed.

A kernel's session is a random name, drawn when it starts. Every process that the kernel starts for a tool has
`FLYTUI_CALL_ID` in its environment, a call id that begins with the session. The sessions of a root are kept
in a file. The next kernel holds the root's lock, so it is the only one, and every process with an earlier
session is a leftover.

Descendants inherit the environment. A descendant that was started without the variable is still found while
an ancestor with it lives. A process that changed both its environment and its parents is not found; only a
sandbox can keep hold of such a process.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.kernel.bus import Bus
from flycore.kernel.call_history import NOT_ENDED, CallHistory
from flycore.model.clock import SystemClock
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass
from flycore.model.session import CALL_ID_VARIABLE, is_session, new_session, session_of
from flycore.registry.paths import ARTIFACTS_DIR, SESSIONS_FILE, STORE_DIR, UNDO_DIR
from flycore.runners.child.process_tree import KILL_PATIENCE_S
from flycore.runners.child.run import LEFTOVER_GRACE_S
from flycore.runners.workspace.undo_store import UndoStore
from flycore.sandbox.content_store import prune
from flycore.store.json_store import Store
from flysafe.procfs import Process, environment_value, process_table, read_process, send_signal

MOST_SESSIONS = 1_000
"""Sessions that are kept in the file; beyond this the oldest are dropped."""
_MOST_BYTES = 1 << 20
_PAUSE_S = 0.02

_Found = dict[tuple[int, int], Process]
"""Processes by pid and start time; a pid alone may be used again by another process."""


class EndedProcesses(msgspec.Struct, frozen=True):
    """The result of ending leftover processes."""

    processes: int
    """The number of leftover processes."""
    still_running: int
    """The number that still run after KILL: 0 unless the system forbids to end them."""


def earlier_sessions(state_dir: Path) -> tuple[str, ...]:
    """Read the sessions that may have leftover processes, oldest first. The caller holds the root's lock."""
    return tuple(session for session in _sessions_store(state_dir).value if is_session(session))


def write_sessions(state_dir: Path, sessions: Collection[str]) -> None:
    """Write these sessions, and no others, for the next kernel. Raises nothing."""
    # A file that cannot be written is no danger: the log in the same folder then takes no line either, and
    # without its start line no call runs.
    _sessions_store(state_dir).replace(tuple(sessions)[-MOST_SESSIONS:])


def _sessions_store(state_dir: Path) -> Store[tuple[str, ...]]:
    return Store[tuple[str, ...]](state_dir / SESSIONS_FILE, tuple[str, ...], (), _MOST_BYTES)


async def end_leftover_processes(sessions: Collection[str]) -> EndedProcesses:
    """End every process with one of these sessions and its descendants, by TERM and then KILL.

    This process and its ancestors are spared, as a leftover tool may have started this kernel.
    """
    seen: _Found = {}
    living: list[Process] = []
    for number, patience_s in ((signal.SIGTERM, LEFTOVER_GRACE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
        deadline = time.monotonic() + patience_s
        signalled: set[tuple[int, int]] = set()
        # The table is read again each round: a process may fork between the reading and the signal.
        while living := await anyio.to_thread.run_sync(_still_running, frozenset(sessions), seen):
            for process in living:
                if (process.pid, process.started) not in signalled:
                    signalled.add((process.pid, process.started))
                    # CONT as well: a stopped process handles TERM only once it goes on.
                    send_signal(process, number, signal.SIGCONT)
            if time.monotonic() >= deadline:
                break
            await anyio.sleep(_PAUSE_S)
        if not living:
            break
    return EndedProcesses(len(seen), len(living))


def _still_running(sessions: frozenset[str], seen: _Found) -> list[Process]:
    """Return the leftover processes that run now, and add newly found ones to `seen`."""
    # A descendant is found by its ancestors, which may end first, so it is kept once it was seen.
    for process in find_leftover_processes(sessions):
        seen[process.pid, process.started] = process
    now = (read_process(pid) for pid, _ in tuple(seen))
    return [found for found in now if found and not found.ended and (found.pid, found.started) in seen]


def find_leftover_processes(sessions: Collection[str]) -> list[Process]:
    """Find the processes with one of these sessions, and their descendants, in /proc."""
    if not sessions:
        return []
    table = process_table()
    spared = _ancestors(os.getpid(), table)
    found = [
        process for process in table.values() if process.pid not in spared and _has_session(process, sessions)
    ]
    known = {process.pid for process in found}
    for process in found:  # grows while it is walked: the children of children follow
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
    """Return the process and all its ancestors."""
    ancestors: set[int] = set()
    # The second condition ends a loop: the table is no snapshot, and a pid may be used again in between.
    while pid in table and pid not in ancestors:
        ancestors.add(pid)
        pid = table[pid].parent
    return ancestors


# Old files: artifacts, and copies of programs.


ARTIFACT_DAYS = 7
"""Days after the last change at which an artifact folder is removed."""


def remove_expired(state_dir: Path, data_dir: Path, now: float) -> int:
    """Remove old artifact folders and undo records, and program copies not used for a month; return how many.

    The caller holds the root's lock and has not started a call yet. `now` is Unix time in seconds.
    """
    oldest = now - ARTIFACT_DAYS * 86_400
    expired = [folder for folder in _folders(state_dir / ARTIFACTS_DIR) if folder.lstat().st_mtime < oldest]
    for folder in expired:
        shutil.rmtree(folder, ignore_errors=True)
    changes = UndoStore(state_dir / UNDO_DIR).remove_expired(now)
    return len(expired) + changes + prune(data_dir / STORE_DIR, now)


def _folders(parent: Path) -> list[Path]:
    """Return the folders in `parent`, without symbolic links, whose targets may lie anywhere."""
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if stat.S_ISDIR(entry.lstat().st_mode)]


# The start of a session, and the calls of earlier ones.


async def begin_session(state_dir: Path, audit: AuditLog) -> str:
    """End the processes that a killed kernel left, log their number, and return the new session's name."""
    session, earlier = new_session(), earlier_sessions(state_dir)
    # Before anything is started: if this kernel is killed, too, the next one must know its session.
    write_sessions(state_dir, (*earlier, session))
    ended = await end_leftover_processes(earlier)
    if ended.processes:
        with suppress(AuditUnwritable):
            audit.append(
                audit_events.STRAYS_ENDED, audit_events.strays_ended(ended.processes, ended.still_running)
            )
    # Earlier sessions are dropped only once none of their processes is left.
    if not ended.still_running:
        write_sessions(state_dir, (session,))
    return session


async def record_unfinished(
    call_history: CallHistory, audit: AuditLog, session: str, bus: Bus, clock: SystemClock
) -> None:
    """Wait until the log has been read; then log an unknown outcome for each call of an earlier session that
    started and has no end. If the log takes no line, the next kernel tries again."""
    await call_history.ready()
    for record in call_history.unfinished():
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
