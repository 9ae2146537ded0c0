"""Step 14: the result of a call, with every injected secret masked, and its line in the audit log."""

from __future__ import annotations

import msgspec

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.model.call import Artifact, CallError, ToolResult
from flycore.model.enums import Code, Level, ReasonCode, Status
from flycore.model.json import JsonObject
from flycore.model.large_values import is_large, run_aside
from flycore.model.refusals import Refusals
from flycore.pipeline.call import Call, Rejection
from flycore.pipeline.prepare import Prepared
from flycore.runners.one_shot import RunOutcome
from flycore.sandbox.secret_masks import Masks


def rejected(call: Call, stop: Rejection, sidecar: str | None, masks: Masks) -> ToolResult:
    """The result of a call that did not run, or not to its end."""
    # The message may quote the input or a file's name, and either may hold a secret.
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
    """The result of a call that ran, with injected secrets masked in everything that the tool wrote."""
    # `cut`: the runner shortens messages, details and stderr, and may have cut through a secret.
    masks = prepared.masks
    error = None
    if outcome.status is not Status.SUCCESS:
        code = outcome.code
        if outcome.status is Status.UNAVAILABLE and not outcome.unconfined:
            code = ReasonCode.TOOL_UNAVAILABLE  # what the tool says of itself
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
        text=None if outcome.text is None else masks.text(outcome.text),
        structured=outcome.structured,
        content=tuple(_masked_object(block, masks) for block in outcome.content),
        meta=_masked_object(outcome.meta, masks),
        error=error,
        artifacts=tuple(_masked(artifact, masks) for artifact in outcome.artifacts),
        duration_ms=outcome.duration_ms,
        waited_ms=call.waited_ms,
        exit_code=outcome.exit_code,
        stderr_tail=masks.text(outcome.stderr_tail, cut=True),
        sandbox=Level.DENIED if outcome.unconfined else prepared.sandbox.level,
        warnings=tuple(masks.text(warning) for warning in outcome.warnings),
        refusals=None if outcome.refusals is None else _masked_refusals(outcome.refusals, masks),
    )


def _masked_object(value: JsonObject, masks: Masks) -> JsonObject:
    masked = masks.json(value)
    return masked if isinstance(masked, dict) else {}


def _masked_refusals(refusals: Refusals, masks: Masks) -> Refusals:
    """The refusals with secrets masked in the paths, which the tool chose."""
    paths = (
        msgspec.structs.replace(item, path=masks.text(item.path), grant=masks.text(item.grant))
        for item in refusals.paths
    )

    def masked(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(masks.text(text) for text in texts)

    return msgspec.structs.replace(
        refusals,
        paths=tuple(paths),
        read=masked(refusals.read),
        write=masked(refusals.write),
        listed=masked(refusals.listed),
    )


def _masked(artifact: Artifact, masks: Masks) -> Artifact:
    """The artifact with secrets masked in its name, which the tool chose. Its file keeps the name: a person
    finds it in the folder."""
    return msgspec.structs.replace(
        artifact, path=masks.text(artifact.path), mime_type=masks.text(artifact.mime_type)
    )


async def record_result(
    audit: AuditLog, call: Call, result: ToolResult, prepared: Prepared | None, masks: Masks, *, outputs: bool
) -> None:
    """Write the end of the call to the log; with `outputs` the tool's output as well. Raises
    AuditUnwritable."""
    fields = await run_aside(is_large(result.output), _result_fields, call, result, prepared, masks, outputs)
    audit.append(audit_events.TOOL_EXECUTED, fields)


def _result_fields(
    call: Call, result: ToolResult, prepared: Prepared | None, masks: Masks, outputs: bool
) -> JsonObject:
    fields = audit_events.tool_executed(
        result,
        call.request.caller,
        request=call.request,
        subject=prepared.subject_digest if prepared else "",
        input_digest=prepared.input_digest if prepared else "",
        outputs=outputs,
    )
    fields |= audit_events.executed_creation(prepared.target.entry if prepared else None)
    return masks.json(fields)


def with_warning(result: ToolResult, warning: str) -> ToolResult:
    """The result with one more warning."""
    return msgspec.structs.replace(result, warnings=(*result.warnings, warning))
