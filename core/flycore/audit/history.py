"""The latest calls: who called what, who let it, how it ended."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

import msgspec

from flycore.audit import events
from flycore.audit.line import LONGEST_NAME, LogRecord
from flycore.model.base import Value

MOST_OPEN = 10_000
"""Calls without an end that are remembered; the oldest of more are given up."""
BY_ITS_STEPS = "its steps"
"""What let a plan run that has begun."""
MOST_KEPT = 4_096
"""Characters of one input or output that are remembered with its call; `flytui audit show` has all of it."""


class CallRecord(Value, frozen=True, kw_only=True):
    """One call, from the lines of the log that carry its id. Times are as the log writes them."""

    call_id: str
    tool: str
    caller: str
    caller_key: str
    called_at: str
    ended_at: str = ""
    """Empty while it runs, or where the kernel was killed meanwhile."""
    sidecar: str = ""
    status: str = ""
    code: str = ""
    message: str = ""
    risk: str = ""
    decision: str = ""
    """`approved`, `denied`, `timed-out` or `withdrawn`; empty where nobody was asked."""
    decided_by: str = ""
    reason: str = ""
    """What a person gave for denying it."""
    took_ms: int = 0
    """From asking to the decision."""
    authority: str = ""
    """What let it run: a request, a lease, a rule."""
    level: str = ""
    parent_call_id: str = ""
    """Of the plan whose step it was."""
    duration_ms: int = 0
    waited_ms: int = 0
    input: str = ""
    """JSON as the log has it, redacted; cut where it is longer than `MOST_KEPT`."""
    output: str = ""
    """JSON, where the log has outputs and this one is short enough."""


class History:
    """Calls without an end, and the latest that ended."""

    def __init__(self, limit: int, tool: str = "", caller: str = "") -> None:
        self._tool, self._caller = tool, caller
        self._open: OrderedDict[str, CallRecord] = OrderedDict()
        self._ended: deque[CallRecord] = deque(maxlen=limit)

    def add(self, line: LogRecord) -> None:
        """One more line of a call."""
        known = self._open.get(line.call_id)
        if known is None and line.event in (events.APPROVAL_ASKED, events.APPROVAL_DECIDED):
            return  # decided after its caller had been told that it is pending
        record = known or _begun(line)
        if line.event in (events.TOOL_EXECUTED, events.TOOL_OUTCOME_UNKNOWN):
            self._open.pop(line.call_id, None)
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key, line.program):
                self._ended.append(_ended(record, line))
            return
        self._open[line.call_id] = _changed(record, line)
        plan = self._open.get(line.parent_call_id)
        if plan is not None and line.event == events.TOOL_STARTED:
            self._open[line.parent_call_id] = msgspec.structs.replace(plan, authority=BY_ITS_STEPS)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def records(self, limit: int) -> tuple[CallRecord, ...]:
        """Those under way, then those that ended, each newest first."""
        under_way = [
            record
            for record in reversed(self._open.values())
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key)
        ]
        return tuple([*under_way, *reversed(self._ended)][:limit])

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Those that have started and not ended, oldest first."""
        return tuple(record for record in self._open.values() if record.authority)

    def open_calls(self, caller_key: str = "") -> Counter[str]:
        """Calls without an end, by tool; of one caller, or of all."""
        return Counter(
            record.tool[:LONGEST_NAME]
            for record in self._open.values()
            if caller_key in ("", record.caller_key)
        )


def _begun(line: LogRecord) -> CallRecord:
    return CallRecord(
        call_id=line.call_id,
        tool=line.tool,
        caller=line.caller,
        caller_key=line.caller_key,
        called_at=line.time,
        parent_call_id=line.parent_call_id,
        input=bytes(line.input)[:MOST_KEPT].decode("utf-8", "replace"),
    )


def _changed(record: CallRecord, line: LogRecord) -> CallRecord:
    """With what this line says of the call."""
    fields: dict[str, object] = {"sidecar": line.sidecar or record.sidecar}
    match line.event:
        case events.APPROVAL_ASKED:
            fields |= {"risk": line.risk}
        case events.APPROVAL_DECIDED:
            fields |= {
                "decision": line.decision,
                "decided_by": line.decided_by,
                "reason": line.reason,
                "took_ms": line.took_ms,
            }
        case events.TOOL_STARTED:
            fields |= {"authority": line.authority, "level": line.level}
    return msgspec.structs.replace(record, **fields)


def _ended(record: CallRecord, line: LogRecord) -> CallRecord:
    return msgspec.structs.replace(
        record,
        ended_at=line.time,
        sidecar=line.sidecar or record.sidecar,
        status=line.status,
        code=line.code,
        message=line.message,
        level=line.level or record.level,
        duration_ms=line.duration_ms,
        waited_ms=line.waited_ms,
        output=bytes(line.output).decode("utf-8", "replace") if len(bytes(line.output)) <= MOST_KEPT else "",
    )
