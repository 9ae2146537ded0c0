"""What is written and shown of a call that has arrived, and kept for the loop guard."""

from __future__ import annotations

from flycore.approval.loops import Attempt
from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.executive.call import Call
from flycore.model.base import Value
from flycore.model.call import ToolResult
from flycore.model.json import JsonObject, canonical_json, text_digest
from flycore.sandbox.masks import Masks


class RecordedInput(Value, frozen=True, kw_only=True):
    """The input as it was written down; empty where the call ended before."""

    input_digest: str = ""
    shown: str = ""
    """Canonical JSON, secrets masked."""


def record_call(audit: AuditLog, call: Call, input: JsonObject, masks: Masks, sidecar: str) -> RecordedInput:
    """Write the call down with this input and show it to whoever watches. Raises AuditUnwritable."""
    text = canonical_json(input)
    masked = masks.json(input)
    over = text_digest(text)
    fields = audit_events.tool_called(call.request, masked, input_digest=over)
    audit.append(audit_events.TOOL_CALLED, masks.json(fields))
    shown = text if masked == input else canonical_json(masked)
    call.show_input(sidecar, shown)
    return RecordedInput(input_digest=over, shown=shown)


def attempt_of(call: Call, arrival: RecordedInput, result: ToolResult) -> Attempt:
    """What the loop guard is told of the call; nothing in it holds a secret."""
    error = result.error
    return Attempt(
        caller=call.request.caller,
        tool=call.request.tool,
        input_digest=arrival.input_digest,
        input_text=arrival.shown,
        status=result.status,
        code=error.code if error is not None else "",
        message=error.message if error is not None else "",
    )
