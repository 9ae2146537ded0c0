"""The call pipeline: every step of a call, in the order in which the steps run.

1. resolve    The tool's name leads to a sidecar that may be called.
2. validate   The input fits the tool's schema; its defaults are filled in.
3. record     The log has the call as it arrived, whatever becomes of it.
4. prepare    The programs are sealed, policy judges the call (a denial ends it), the target is read. A path
              that the entry may not write ends it, too.
5. admit      Not everything is stopped, and the caller is not paused.
6. quota      The caller may make one more call.
7. page       The page that a browser tool acts on is read.
8. authorize  Policy allows the call, a lease covers it, or a person approves it.
9. edit       An input that the person has changed is validated and prepared like any other.
10. slot      The call has its exclusive group, and its place at a process or server that serves several.
11. compare   What would run now is what was approved; else step 8 asks once more, with the difference.
12. redeem    The grant is used up.
13. execute   The log has the start on disk, the program is started, its output is checked.
14. result    Secrets are masked, and the catalog learns how the sidecar did.

`run_guarded` runs around all steps, those of a plan as well: the call can be cancelled from there on, and
however it ends, it gives one `ToolResult` and writes the last line of the log.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import Protocol

import anyio

from flycore.approval.loop_guard import Attempt
from flycore.model.approval import Preview
from flycore.model.call import CallRequest, ToolResult
from flycore.model.enums import Code, Decision, Risk, Status
from flycore.model.errors import AuditUnwritable
from flycore.model.json import JsonObject, canonical_json
from flycore.model.large_values import is_large, run_aside
from flycore.pipeline.authorize import (
    Authorization,
    admission_refusal,
    authorize,
    needs_person,
    no_approver,
    panic_rejection,
    quota_rejection,
)
from flycore.pipeline.call import (
    AUDIT_UNWRITABLE,
    Call,
    OnCancellable,
    OnProgress,
    RecordedInput,
    Rejection,
    attempt_of,
    denied,
    failed,
    no_descriptors,
    record_call,
)
from flycore.pipeline.context import PipelineContext, Slot
from flycore.pipeline.evidence import note_end
from flycore.pipeline.execute import execute
from flycore.pipeline.prepare import Prepared, Target, accept_programs, masks_for, prepare, resolve
from flycore.pipeline.result import completed, record_result, rejected, with_warning
from flycore.pipeline.slots import acquire_slot
from flycore.pipeline.subject_diff import SubjectDiff, diff_subjects
from flycore.pipeline.targets.page import with_page_target
from flycore.pipeline.validate import NO_JSON, canonical_form, is_json, validated
from flycore.pipeline.written_paths import path_refusal
from flycore.policy.default_decision import READ_ONLY
from flycore.sandbox.secret_masks import Masks

LINES_LOGGED = 100
"""Lines of a difference that go into the log; the card shows all of them."""
ROUNDS = 2
"""How often a person is asked about one call: once, and once more if something changed after the answer."""


async def run_call(
    context: PipelineContext,
    request: CallRequest,
    on_progress: OnProgress | None,
    on_cancellable: OnCancellable | None,
) -> ToolResult:
    """Run one call; see `run_guarded` for how it ends."""
    call = Call(request, context.clock, context.activity, on_progress)
    return await run_guarded(context, call, _ToolRun(context, call), on_cancellable)


class CallRun(Protocol):
    """One run of a call or of a plan, with what is known of it when it ends, which may be at any step."""

    masks: Masks

    prepared: Prepared | None
    """What the sidecar was to be started with; None for a plan, and before step 4."""

    async def result(self) -> ToolResult:
        """Take all steps. Raises AuditUnwritable."""
        ...

    def ended(self, stop: Rejection) -> ToolResult:
        """The result of a call that ends at the present step."""
        ...

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard counts of the call. It holds no secret."""
        ...


async def run_guarded(
    context: PipelineContext, call: Call, call_run: CallRun, on_cancellable: OnCancellable | None
) -> ToolResult:
    """Run a call within a scope that can cancel it, and give its result.

    Every end is a ToolResult, an internal error as well. Only a cancellation from outside raises, after the
    call's process tree has ended and its line in the log is written.
    """
    request = call.request
    result: ToolResult | None = None
    try:
        with anyio.CancelScope() as scope:
            context.activity.begin(request, scope, "")
            try:
                if on_cancellable is not None:
                    await on_cancellable()
                result = await call_run.result()
                context.admission.loops.record(call_run.attempt(result))
            except AuditUnwritable as error:
                result = call_run.ended(_unwritable(error))
            except Exception as error:  # noqa: BLE001 - one broken call must not end the others
                result = call_run.ended(_fault(error))
    finally:
        # A cancellation leaves `result` unset, whether it came from the activity's scope, which swallows
        # it, or from outside, which goes on after this block. The line is written here for both.
        if result is None:
            result = call_run.ended(_cancelled(context, call, call_run.prepared))
        # The log comes first: whoever waits for the call's end may read the log as soon as it has ended.
        # A call that was cancelled has its line as well, so nothing ends the wait for it.
        for notice in call.notices:
            result = with_warning(result, notice)
        with anyio.CancelScope(shield=True):
            result = await _recorded(context, call, result, call_run)
        context.activity.finish(result)
    return result


def _cancelled(context: PipelineContext, call: Call, prepared: Prepared | None) -> Rejection:
    """The end of a call that was cancelled, by the reason."""
    app_root = context.admission.app_root
    if context.activity.stopped_by_panic(call.request.call_id):
        return panic_rejection(app_root, began=call.began)
    allowed = prepared is not None and prepared.verdict.decision is Decision.ALLOW
    if context.activity.closed and not call.began and not allowed:
        # It ends like one that waited for a person: its caller cancelled nothing, and may call again.
        return no_approver(app_root, "flytui was closed before the call could be asked about; it did not run")
    return failed(Code.CANCELLED, "the call was cancelled")


async def _recorded(
    context: PipelineContext, call: Call, result: ToolResult, call_run: CallRun
) -> ToolResult:
    try:
        outputs = context.run.state.latest.files.settings.audit_outputs
        await record_result(context.audit, call, result, call_run.prepared, call_run.masks, outputs=outputs)
    except AuditUnwritable as error:
        # The call has already run: its result is worth more to the caller than an error about the log.
        return with_warning(result, f"this result could not be written to the audit log: {error}")
    return result


def _fault(error: Exception) -> Rejection:
    if isinstance(error, OSError) and (rejection := no_descriptors(error)) is not None:
        return rejection
    return Rejection(
        status=Status.FAILED,
        code=Code.FAILED,
        message=f"an internal error of flytui ({type(error).__name__}); the call may have run",
        hint="flytui audit tail shows how far it came; please report it",
        details={"code": "internal"},
    )


def _unwritable(error: AuditUnwritable) -> Rejection:
    if (rejection := no_descriptors(error)) is not None:
        return rejection
    return failed(
        Code.FAILED,
        "nothing runs while the audit log cannot be written",
        "make room on the disk, or find out what is wrong with the log: flytui audit verify",
        fault=AUDIT_UNWRITABLE,
        cause=error.cause,
    )


class _ToolRun:
    """One call of a tool, with what is known of it at the step where it ends."""

    def __init__(self, context: PipelineContext, call: Call) -> None:
        self._context = context
        self._call = call
        self.sidecar: str | None = None
        self.prepared: Prepared | None = None
        self.masks = Masks({})
        self._arrival = RecordedInput()

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard counts of the call. It holds no secret."""
        return attempt_of(self._call, self._arrival, result)

    def ended(self, stop: Rejection) -> ToolResult:
        """The result of a call that ends at the present step."""
        return rejected(self._call, stop, self.sidecar, self.masks)

    async def result(self) -> ToolResult:
        """Take all steps. Raises AuditUnwritable."""
        end = await self._admitted()
        return self.ended(end) if isinstance(end, Rejection) else end

    async def _admitted(self) -> ToolResult | Rejection:
        """Take steps 1 to 6, then the others while the quota counts the call as running."""
        context, call, tool = self._context, self._call, self._call.request.tool
        # 1. resolve, after a bounded wait: the tools of an MCP server are known only once it has listed them.
        await context.slots.mcp_servers.ready(tool)
        target = self._resolved()
        # 2. validate, before anything is judged: policy and people see the input with its defaults filled in,
        # because that is what the program gets and what the digest covers.
        if not await run_aside(is_large(call.request.input), is_json, call.request.input):
            await self._record({})
            # As for any other call that ends at the steps before: a stop or pause is the reason that counts.
            return admission_refusal(context.admission, call) or failed(Code.INVALID_INPUT, NO_JSON)
        checked = await self._validated(target, call.request.input)
        # 3. record, before the steps that take time: a call that hangs in one of them is seen in the log.
        # It comes after step 1 because the masks of the entry are needed before anything of the input is
        # written.
        await self._record(call.request.input if isinstance(checked, Rejection) else checked)
        # 4. prepare, before anybody is asked: policy judges by the seal, and a person is not asked about a
        # call that policy denies.
        prepared = await self._prepared(target, checked)
        # 5. admit, after policy: a caller that is paused still learns that policy denies the call. Any other
        # rejection of step 4 gives way to the stop or pause, which is why nothing runs at present.
        shut = admission_refusal(context.admission, call)
        if isinstance(prepared, Rejection):
            return prepared if prepared.code == Code.POLICY else shut or prepared
        if shut is not None:
            return shut
        context.judge.note_rules(prepared.verdict.rules)
        # 6. quota, last of the steps that refuse without a person: calls that ended earlier do not count.
        key, step = call.request.caller.key, call.request.step is not None
        # A tool of the agent itself, or of the kernel, counts as low risk: most of them are commands, rated
        # high, and the limit of high-risk calls in a session would end every longer session.
        target = prepared.target
        risk = Risk.LOW if target.decided or target.builtin else prepared.risk
        # What flytui allowed because it only reads does not count: an agent reads many files in a minute, and
        # would be refused everything else.
        reads = any(rule.where == READ_ONLY for rule in prepared.verdict.rules)
        asked = needs_person(context.ask, prepared)
        over = None if reads else context.admission.quota.admit(key, risk, step=step, asked=asked)
        if over is not None:
            return quota_rejection(over)
        # A step is not counted as running: its plan is, and a caller with a limit of one could never finish
        # a plan.
        with nullcontext() if step else context.admission.quota.running(key):
            return await self._approved(prepared)

    async def _approved(self, prepared: Prepared) -> ToolResult | Rejection:
        """Take steps 7 to 11, steps 8 to 11 once more where something changed meanwhile, then the others."""
        context, call = self._context, self._call
        # 7. page, only once the call is admitted: reading a page starts a program, and refused calls start
        # none.
        prepared = await self._with_page(prepared)
        changed = SubjectDiff()
        for _ in range(ROUNDS):
            # 8. authorize, before the slot: a request that waits for a person holds up no other call.
            again = partial(self._with_input, prepared.target, prepared.preview)
            granted = await authorize(context.ask, call, prepared, again, changed.lines)
            if isinstance(granted, Rejection):
                return granted
            # 9. edit, before the slot and the comparison: the approval is of the edited input, so that is
            # the input to compare and to run.
            if granted.edited is not None:
                call.edited = True
                edited = await again(granted.edited)
                if isinstance(edited, Rejection):
                    return edited
                prepared = self.prepared = edited
            if granted.by_person and not prepared.target.builtin:
                accept_programs(context.judge.root, prepared.target.entry, prepared.sealed)
            async with AsyncExitStack() as slots:
                # 10. slot, after the approval: no other call waits for the group while a person decides.
                # The grant's clock is paused meanwhile, else it could expire in the queue.
                slot, waited = await acquire_slot(context.slots, call, prepared, granted.grant_id, slots)
                # 11. compare, while the slot is held: a comparison before the wait would say nothing about
                # what changed during it. Without a person and without a wait no time has passed since step
                # 4.
                asked_or_waited = bool(granted.grant_id) or waited
                now = await self._prepared_again(prepared) if asked_or_waited else prepared
                if isinstance(now, Prepared) and _covers(prepared, now):
                    return await self._run(prepared, granted, slot)
                # The grant is for something that will not run; the slot is given up before anybody is asked
                # again.
                context.slots.grants.void(granted.grant_id)
                if isinstance(now, Rejection):
                    return now
            changed = diff_subjects(prepared, now)
            self._record_stale(prepared, now, changed)
            prepared = now
        hint = f"the last change was in: {', '.join(changed.names)}"
        return denied(Code.APPROVAL_STALE, "the call changed again after each approval", hint)

    async def _run(
        self, prepared: Prepared, granted: Authorization, slot: Slot | None
    ) -> ToolResult | Rejection:
        """Take steps 12 to 14."""
        context, call = self._context, self._call
        # 12. redeem, right before the start: until here a lease may be revoked and everything may be
        # stopped. A panic voids grants as well, so a grant that fails while everything is stopped is
        # reported as panic.
        if granted.grant_id:
            redeemed = context.slots.grants.redeem(granted.grant_id, prepared.subject_digest)
            if not redeemed.accepted and not context.admission.stopped():
                return denied(Code.APPROVAL_STALE, redeemed.why_not)
        if context.admission.stopped():
            return panic_rejection(context.admission.app_root, began=False)
        # 13. execute: the start line is on disk before the program starts, so that after a crash of the
        # kernel the log names every call that may have acted.
        outcome = await execute(context.run, call, prepared, granted, slot)
        if isinstance(outcome, Rejection):
            return outcome
        # 14. result, with the masks of the call that ran: everything the tool wrote may hold its secrets.
        result = await run_aside(is_large(outcome.output), completed, call, prepared, outcome)
        if prepared.target.sidecar is not None:
            await note_end(context.run, prepared, outcome, result, context.clock.now())
        if call.edited:
            shown = canonical_json(prepared.masks.json(prepared.input))
            return with_warning(result, f"a person changed the input before approving it: {shown}")
        return result

    def _resolved(self) -> Target | Rejection:
        """Find the tool's sidecar, and set the masks over its secrets."""
        judge = self._context.judge
        root_state, tool = judge.state.latest, self._call.request.tool
        view = root_state.index.get(tool)
        self.sidecar = view.sidecar if view is not None else None
        entry = root_state.entries.get(self.sidecar or "")
        # The masks are set even where the tool may not be called: the rejection and the log quote the input.
        self.masks = masks_for(root_state, entry, judge.root)
        return resolve(root_state, tool, judge.blocks)

    async def _validated(self, target: Target | Rejection, input: JsonObject) -> JsonObject | Rejection:
        if isinstance(target, Rejection):
            return target
        canonical = canonical_form(target.capability, input, target.entry.config, self.masks)
        if isinstance(canonical, Rejection):
            return canonical
        return await validated(target.capability, canonical, self.masks, target.entry.max_input_bytes)

    async def _prepared(
        self, target: Target | Rejection, input: JsonObject | Rejection, earlier: Preview | None = None
    ) -> Prepared | Rejection:
        if isinstance(target, Rejection):
            return target
        if isinstance(input, Rejection):
            return input
        prepared = await prepare(self._context.judge, self._call.request, target, input, earlier)
        if isinstance(prepared, Rejection):
            return prepared
        self.prepared, self.masks = prepared, prepared.masks
        return await path_refusal(self._context.judge, prepared) or prepared

    async def _prepared_again(self, prepared: Prepared) -> Prepared | Rejection:
        """The same call as it would run now, with the present state of the root and the present files."""
        judge = self._context.judge
        target = resolve(judge.state.latest, self._call.request.tool, judge.blocks)
        again = await self._prepared(target, prepared.input, prepared.preview)
        return again if isinstance(again, Rejection) else await self._with_page(again, prepared.preview)

    async def _with_input(
        self, target: Target, earlier: Preview | None, input: JsonObject
    ) -> Prepared | Rejection:
        """The same call with the input that a person wrote, checked like any other input."""
        checked = await self._validated(target, input)
        if isinstance(checked, Rejection):
            return checked
        context, request = self._context, self._call.request
        prepared = await prepare(context.judge, request, target, checked, earlier)
        if isinstance(prepared, Prepared):
            prepared = await path_refusal(context.judge, prepared) or prepared
        if isinstance(prepared, Rejection):
            return prepared
        return await with_page_target(context.judge, context.run, request, prepared, earlier)

    async def _with_page(self, prepared: Prepared, earlier: Preview | None = None) -> Prepared:
        context = self._context
        self.prepared = await with_page_target(
            context.judge, context.run, self._call.request, prepared, earlier
        )
        return self.prepared

    async def _record(self, input: JsonObject) -> None:
        audit, sidecar = self._context.audit, self.sidecar or ""
        self._arrival = await record_call(audit, self._call, input, self.masks, sidecar)

    def _record_stale(self, before: Prepared, after: Prepared, changed: SubjectDiff) -> None:
        fields: JsonObject = {
            "callId": self._call.request.call_id,
            "tool": self._call.request.tool,
            "subject": before.subject_digest,
            "now": after.subject_digest,
            "changes": list(changed.names),
            "difference": list(changed.lines[:LINES_LOGGED]),
        }
        self._context.audit.append("APPROVAL_STALE", fields)


def _covers(approved: Prepared, now: Prepared) -> bool:
    """Whether the decision on `approved` holds for `now`: the same subject, at no higher risk."""
    return approved.subject_digest == now.subject_digest and approved.risk.at_least(now.risk)
