"""Step 12: the one shape of a result, with every injected secret masked, and its audit line."""

from __future__ import annotations

import msgspec

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.model.call import Artifact, CallError, ToolResult
from flycore.model.enums import Code, ReasonCode, Status
from flycore.pipeline.call import Call, Rejection
from flycore.pipeline.prepare import Prepared
from flycore.runners.one_shot import RunOutcome
from flycore.sandbox.secret_masks import Masks


def rejected(call: Call, stop: Rejection, sidecar: str | None, masks: Masks) -> ToolResult:
    """The result of a call that did not run, or not to its end. What it says may quote an input or a
    file's name."""
    error = CallError(
        code=stop.code,
        message=masks.text(stop.message),
        hint=masks.text(stop.hint),
        details=masks.json(stop.details),
    )
    return ToolResult(
        status=stop.status,
        tool=call.request.tool,
        sidecar=sidecar,
        call_id=call.request.call_id,
        error=error,
        duration_ms=call.ran_ms,
        waited_ms=call.waited_ms,
    )


def completed(call: Call, prepared: Prepared, outcome: RunOutcome) -> ToolResult:
    """The result of a call that ran, with injected secrets masked in everything the tool said."""
    masks = prepared.masks
    error = None
    if outcome.status is not Status.SUCCESS:
        code = ReasonCode.TOOL_UNAVAILABLE if outcome.status is Status.UNAVAILABLE else outcome.code
        error = CallError(
            code=code or Code.FAILED,
            message=masks.text(outcome.message, cut=True),
            hint=masks.text(outcome.hint),
            details=masks.json(outcome.details, cut=True),
        )
    return ToolResult(
        status=outcome.status,
        tool=call.request.tool,
        sidecar=prepared.target.sidecar,
        call_id=call.request.call_id,
        output=masks.json(outcome.output) if outcome.status is Status.SUCCESS else None,
        error=error,
        artifacts=tuple(_masked(artifact, masks) for artifact in outcome.artifacts),
        duration_ms=outcome.duration_ms,
        waited_ms=call.waited_ms,
        exit_code=outcome.exit_code,
        stderr_tail=masks.text(outcome.stderr_tail, cut=True),
        sandbox=prepared.sandbox.level,
        warnings=tuple(masks.text(warning) for warning in outcome.warnings),
    )


def _masked(artifact: Artifact, masks: Masks) -> Artifact:
    """Names are chosen by the tool, too; a file whose name was masked is found by looking."""
    return msgspec.structs.replace(
        artifact, path=masks.text(artifact.path), mime_type=masks.text(artifact.mime_type)
    )


def record_result(
    audit: AuditLog, call: Call, result: ToolResult, prepared: Prepared | None, masks: Masks, *, outputs: bool
) -> None:
    """Write how the call ended; with `outputs` what the tool answered as well."""
    fields = audit_events.tool_executed(
        result,
        call.request.caller,
        request=call.request,
        subject=prepared.subject_digest if prepared else "",
        input_digest=prepared.input_digest if prepared else "",
        outputs=outputs,
    )
    audit.append(audit_events.TOOL_EXECUTED, masks.json(fields))


def with_warning(result: ToolResult, warning: str) -> ToolResult:
    """The result with one more warning."""
    return msgspec.structs.replace(result, warnings=(*result.warnings, warning))
