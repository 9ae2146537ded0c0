"""Step 12: the one shape of a result, with every injected secret masked, and its audit line."""

from __future__ import annotations

import msgspec

from flycore.audit import events as audit_events
from flycore.executive.call import Call
from flycore.executive.prepare import Prepared
from flycore.executive.rooms import Rooms
from flycore.executive.stop import Stop
from flycore.model.call import CallError, ToolResult
from flycore.model.canonical import digest
from flycore.model.enums import Code, ReasonCode, Status
from flycore.runners.process_json import RunOutcome
from flycore.sandbox.masks import Masks


def stopped(call: Call, stop: Stop, sidecar: str | None) -> ToolResult:
    """The result of a call that did not run."""
    error = CallError(code=stop.code, message=stop.message, hint=stop.hint, details=stop.details)
    return ToolResult(
        status=stop.status,
        tool=call.request.tool,
        sidecar=sidecar,
        call_id=call.request.call_id,
        error=error,
        waited_ms=call.waited_ms,
    )


def ran(call: Call, prepared: Prepared, outcome: RunOutcome) -> ToolResult:
    """The result of a call that ran, with injected secrets masked in everything the tool said."""
    masks = prepared.masks
    error = None
    if outcome.status is not Status.SUCCESS:
        code = ReasonCode.TOOL_UNAVAILABLE if outcome.status is Status.UNAVAILABLE else outcome.code
        error = CallError(
            code=code or Code.FAILED,
            message=masks.text(outcome.message),
            hint=masks.text(outcome.hint),
            details=masks.json(outcome.details),
        )
    return ToolResult(
        status=outcome.status,
        tool=call.request.tool,
        sidecar=prepared.target.entry.id,
        call_id=call.request.call_id,
        output=masks.json(outcome.output) if outcome.status is Status.SUCCESS else None,
        error=error,
        artifacts=outcome.artifacts,
        duration_ms=outcome.duration_ms,
        waited_ms=call.waited_ms,
        exit_code=outcome.exit_code,
        stderr_tail=masks.text(outcome.stderr_tail),
        sandbox=prepared.sandbox.level,
        warnings=tuple(masks.text(warning) for warning in outcome.warnings),
    )


def record(rooms: Rooms, call: Call, result: ToolResult, prepared: Prepared | None, masks: Masks) -> None:
    """Write how the call ended."""
    fields = audit_events.tool_executed(
        result,
        call.request.caller,
        subject=prepared.subject_digest if prepared else "",
        input_digest=digest(prepared.input) if prepared else "",
    )
    rooms.audit.append(audit_events.TOOL_EXECUTED, masks.json(fields))


def with_warning(result: ToolResult, warning: str) -> ToolResult:
    """The result with one more warning."""
    return msgspec.structs.replace(result, warnings=(*result.warnings, warning))
