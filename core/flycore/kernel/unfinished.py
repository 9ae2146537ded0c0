"""What a killed kernel left: its processes are ended, and its calls get a line that nobody knows how they
ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.kernel.bus import Bus
from flycore.kernel.clock import SystemClock
from flycore.kernel.past import CallHistory
from flycore.kernel.records import NOT_ENDED
from flycore.kernel.strays import (
    earlier_sessions,
    end_leftover_processes,
    new_session,
    session_of,
    write_sessions,
)
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass


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
