"""Around every call, a plan's as well: it can be cancelled from here on, and whatever happens, it ends as one
result with its line in the log."""

from __future__ import annotations

from typing import Protocol

import anyio

from flycore.approval.loops import Attempt
from flycore.executive import finish
from flycore.executive.call import Call, OnCancellable
from flycore.executive.closed import panic_rejection
from flycore.executive.prepare import Prepared
from flycore.executive.rooms import PipelineContext
from flycore.executive.stop import Rejection, failed
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Status
from flycore.model.errors import AuditUnwritable
from flycore.sandbox.masks import Masks


class CallRun(Protocol):
    """One call's way, and what is known when it ends, which may be anywhere."""

    masks: Masks

    prepared: Prepared | None
    """What a sidecar was to be started with; None for a plan, and before it is known."""

    async def result(self) -> ToolResult:
        """Walk to the end. Raises AuditUnwritable."""
        ...

    def ended(self, stop: Rejection) -> ToolResult:
        """The result of a call that ends here."""
        ...

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard is told of the call; nothing in it holds a secret."""
        ...


async def run_guarded(
    context: PipelineContext, call: Call, walk: CallRun, announce: OnCancellable | None
) -> ToolResult:
    """How the call ended. Every end is a ToolResult, a fault of our own as well; only cancelling from outside
    raises, after the call's tree has ended and its line is written."""
    request = call.request
    result: ToolResult | None = None
    try:
        with anyio.CancelScope() as scope:
            context.activity.begin(request, scope, "")
            try:
                if announce is not None:
                    await announce()
                result = await walk.result()
                context.admission.loops.record(walk.attempt(result))
            except AuditUnwritable as error:
                result = walk.ended(_unwritable(error))
            except Exception as error:  # noqa: BLE001 - between one broken call and everybody else's
                result = walk.ended(_fault(error))
    finally:
        if result is None:
            stop = failed(Code.CANCELLED, "the call was cancelled")
            if context.activity.stopped_by_panic(request.call_id):
                stop = panic_rejection(context.admission.app_root, began=call.began)
            result = walk.ended(stop)
        result = _recorded(context, call, result, walk)
        context.activity.finish(result)
    return result


def _recorded(context: PipelineContext, call: Call, result: ToolResult, walk: CallRun) -> ToolResult:
    try:
        outputs = context.run.state.world.settings.audit_outputs
        finish.record_result(context.audit, call, result, walk.prepared, walk.masks, outputs=outputs)
    except AuditUnwritable as error:
        return finish.with_warning(result, f"the audit log did not take this result: {error}")
    return result


def _fault(error: Exception) -> Rejection:
    return Rejection(
        status=Status.FAILED,
        code=Code.FAILED,
        message=f"a fault inside flytui ({type(error).__name__}); the call may have run",
        hint="flytui audit tail shows how far it came; please report it",
        details={"code": "internal"},
    )


def _unwritable(error: AuditUnwritable) -> Rejection:
    return failed(
        Code.FAILED,
        "nothing runs while the audit log cannot be written",
        "make room or mend the log: flytui audit verify",
        fault="audit-unwritable",
        cause=error.cause,
    )
