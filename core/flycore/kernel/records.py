"""A call as the log remembers it, in the shape in which running ones are shown."""

from __future__ import annotations

import json
from datetime import datetime

from flycore.audit.history import MOST_KEPT, CallRecord
from flycore.model.call import Activity, CallError, ToolResult
from flycore.model.caller import parse_caller_key
from flycore.model.enums import Code, Level, Phase, Status
from flycore.model.json import Json, canonical_json

NOT_ENDED = "the kernel ended before this call did"


def activity_of(record: CallRecord) -> Activity:
    """The record of a call that no longer runs. What the log does not know is left out."""
    return Activity(
        call_id=record.call_id,
        tool=record.tool,
        sidecar=record.sidecar or None,
        caller=parse_caller_key(record.caller_key),
        phase=Phase.FINISHED,
        started_at=_unix(record.called_at),
        input_text=_input(record.input),
        parent_call_id=record.parent_call_id,
        result=_result(record),
    )


def _result(record: CallRecord) -> ToolResult:
    status, code, message, hint = record.status, record.code, record.message, ""
    if not record.ended_at:
        status = Status.UNKNOWN if record.authority else Status.FAILED
        code = Code.OUTCOME_UNKNOWN if record.authority else Code.CANCELLED
        message = NOT_ENDED
        hint = "" if record.authority else "it had not started"
    if code == Code.OUTCOME_UNKNOWN:
        hint = "whether it took effect is not known: look before you call again"
    return ToolResult(
        status=Status(status) if status in set(Status) else Status.UNKNOWN,
        tool=record.tool,
        sidecar=record.sidecar or None,
        call_id=record.call_id,
        output=_parsed(record.output),
        error=CallError(code=code, message=message, hint=hint) if code else None,
        duration_ms=record.duration_ms,
        waited_ms=record.waited_ms,
        sandbox=Level(record.level) if record.level in set(Level) else None,
    )


def _input(text: str) -> str:
    if len(text) >= MOST_KEPT:
        return f"{text}… (flytui audit show has all of it)"
    try:
        return canonical_json(_parsed(text)) if text else ""
    except (ValueError, TypeError):
        return text


def _parsed(text: str) -> Json:
    """The JSON, None where it is cut or not there."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _unix(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0
