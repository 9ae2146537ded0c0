"""Runs a plan: each step is a call of its own through the pipeline, one after the other.

The whole plan is checked before its first step runs. No person is asked about the plan itself, only about its
steps. A step that does not succeed ends the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

import msgspec

from flycore.approval.loop_guard import Attempt
from flycore.model.call import CallRequest, PlanStep, Progress, ToolResult
from flycore.model.catalog import Capability
from flycore.model.enums import Code, Phase, Risk, Status
from flycore.model.json import JsonObject
from flycore.model.large_values import is_large, run_aside
from flycore.pipeline.authorize import admission_refusal, panic_rejection, quota_rejection
from flycore.pipeline.call import (
    Call,
    OnCancellable,
    OnProgress,
    RecordedInput,
    Rejection,
    attempt_of,
    denied,
    failed,
    record_call,
)
from flycore.pipeline.context import PipelineContext, RootState
from flycore.pipeline.pipeline import run_call, run_guarded
from flycore.pipeline.prepare import Prepared, callable_view
from flycore.pipeline.result import rejected
from flycore.pipeline.slots import enter_group
from flycore.pipeline.validate import NO_JSON, input_rejection, is_json, validated
from flycore.plans.definitions import PLANS
from flycore.plans.expand import Step, expand, step_violations
from flycore.plans.report import FinishedStep, artifacts_of, output_of, step_reports, warnings_of
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import conditions_are_costly, denying_rules
from flycore.sandbox.environment import declared_secrets
from flycore.sandbox.secret_masks import Masks

NewId = Callable[[], str]


def is_plan(root_state: RootState, tool: str) -> bool:
    """Whether the tool is a high-level one, whose calls are plans."""
    return tool in PLANS and tool in root_state.index


async def run_plan(
    context: PipelineContext,
    request: CallRequest,
    new_id: NewId,
    on_progress: OnProgress | None,
    on_cancellable: OnCancellable | None,
) -> ToolResult:
    """Run a plan within `run_guarded`, and give its result. `new_id` makes the ids of its steps' calls."""
    call = Call(request, context.clock, context.activity, on_progress)
    return await run_guarded(context, call, _PlanRun(context, call, new_id), on_cancellable)


class _PlanRun:
    """One run of a plan, with the steps that have ended."""

    def __init__(self, context: PipelineContext, call: Call, new_id: NewId) -> None:
        self._context = context
        self._call = call
        self._new_id = new_id
        self.masks = Masks({})
        self.prepared: Prepared | None = None
        self._arrival = RecordedInput()
        self._input: JsonObject = {}
        self._steps: tuple[Step, ...] = ()
        self._done: list[FinishedStep] = []
        self._running = ""
        """The id of the step's call that runs now; empty between steps."""

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard counts of the plan. It holds no secret."""
        return attempt_of(self._call, self._arrival, result)

    def ended(self, stop: Rejection) -> ToolResult:
        """The result of a plan that ends at the present step, with a report of the steps so far."""
        # A cancellation ends the plan within a step, whose own call has written its result to the activity
        # log.
        if self._running and (step := self._context.activity.find(self._running)) is not None:
            self._done.append(FinishedStep(step=self._steps[len(self._done)], result=step.result))
            self._running = ""
        if self._done:
            stop = msgspec.structs.replace(
                stop, details={**stop.details, "steps": step_reports(self._steps, self._done)}
            )
        return self._timed(rejected(self._call, stop, None, self.masks))

    async def result(self) -> ToolResult:
        """Check the whole plan, then run its steps. Raises AuditUnwritable."""
        context, call = self._context, self._call
        root_state = context.judge.state.latest
        self.masks = _masks(root_state, call.request.tool, context.judge.root.secret_values)
        # In the order of the steps of a call: validate, record, policy, admit, quota, slot.
        stop = await self._checked(root_state)
        self._arrival = await record_call(context.audit, call, self._input, self.masks, "")
        stop = stop or await self._refusal()
        if stop is not None:
            return self.ended(
                stop if stop.code == Code.POLICY else admission_refusal(context.admission, call) or stop
            )
        if (shut := admission_refusal(context.admission, call)) is not None:
            return self.ended(shut)
        key = call.request.caller.key
        # The plan itself acts on nothing, so it counts as low risk; each of its steps counts with its own.
        over = context.admission.quota.admit(key, Risk.LOW)
        if over is not None:
            return self.ended(quota_rejection(over))
        with context.admission.quota.running(key):
            async with AsyncExitStack() as stack:
                # The plan holds its group for all its steps: no other call can act on the same screen or page
                # between two of them.
                group = root_state.index[call.request.tool].capability.exclusive
                if group is not None:
                    await enter_group(context.slots, call, group, stack)
                return await self._run_steps()

    async def _checked(self, root_state: RootState) -> Rejection | None:
        """Fill in defaults, expand the steps, and check each against the tool that it calls; the rejection
        where one does not fit."""
        given = self._call.request.input
        if not await run_aside(is_large(given), is_json, given):
            return failed(Code.INVALID_INPUT, NO_JSON)
        self._input = given
        view = callable_view(root_state, self._call.request.tool, self._context.judge.blocks)
        if isinstance(view, Rejection):
            return view
        checked = await validated(view.capability, given, self.masks)
        if isinstance(checked, Rejection):
            return checked
        self._input = checked
        steps = await run_aside(is_large(checked), expand, view.capability.name, checked)
        capabilities: dict[str, Capability] = {}
        for tool in dict.fromkeys(step.tool for step in steps if step.tool):
            atomic = callable_view(root_state, tool, self._context.judge.blocks)
            if isinstance(atomic, Rejection):
                return atomic
            capabilities[tool] = atomic.capability
        # Whoever made a tool has written its schema, so a small step may take long, too.
        if found := await run_aside(True, step_violations, steps, capabilities):
            return input_rejection(view.capability, found, self.masks)
        self._steps = steps
        return None

    async def _refusal(self) -> Rejection | None:
        """Why the plan may not go on: everything is stopped, a person has blocked the tool, or a rule denies
        it."""
        judge, request = self._context.judge, self._call.request
        admission, root_state = self._context.admission, judge.state.latest
        if admission.stopped():
            return panic_rejection(admission.app_root, began=self._call.began)
        view = callable_view(root_state, request.tool, judge.blocks)
        if isinstance(view, Rejection):
            return view
        about = PolicyCall(tool=request.tool, input=self._input, caller=request.caller, now=judge.clock.now())
        aside = is_large(self._input) or conditions_are_costly(
            root_state.files.policy, view.capability, self._input
        )
        denies = await run_aside(aside, denying_rules, root_state.files.policy, about)
        if not denies:
            return None
        judge.note_rules(denies)
        return denied(Code.POLICY, "policy denies this plan", "; ".join(rule.because for rule in denies))

    async def _run_steps(self) -> ToolResult:
        """Run the steps in order, until one does not succeed."""
        for number, step in enumerate(self._steps, 1):
            # A person may stop everything, block the tool or change the rules between two steps.
            if (barred := await self._refusal()) is not None:
                return self.ended(barred)
            at = PlanStep(plan=self._call.request.tool, number=number, of=len(self._steps))
            if not step.tool:
                await self._wait(step, at)
                continue
            result = await self._call_step(step, at)
            if result.status is not Status.SUCCESS:
                return self.ended(self._stop(result, at))
        call, request = self._call, self._call.request
        return self._timed(
            ToolResult(
                status=Status.SUCCESS,
                tool=request.tool,
                sidecar=None,
                call_id=request.call_id,
                output=output_of(self._steps, self._done),
                waited_ms=call.waited_ms,
            )
        )

    async def _wait(self, step: Step, at: PlanStep) -> None:
        clock = self._context.clock
        began = clock.monotonic()
        self._call.report(Phase.RUNNING, f"{at}: {step.action}", at.number - 1, at.of)
        await clock.sleep_until(began + step.ms / 1000)
        self._done.append(FinishedStep(step=step, waited_ms=int((clock.monotonic() - began) * 1000)))

    async def _call_step(self, step: Step, at: PlanStep) -> ToolResult:
        """Run the call of a step, and keep its result."""
        request = self._call.request
        self._running = self._new_id()
        own = msgspec.structs.replace(
            request,
            call_id=self._running,
            tool=step.tool,
            input=step.input,
            parent_call_id=request.call_id,
            step=at,
        )
        result = await run_call(self._context, own, partial(self._on_step_progress, step, at), None)
        self._running = ""
        self._done.append(FinishedStep(step=step, result=result))
        return result

    def _on_step_progress(self, step: Step, at: PlanStep, progress: Progress) -> None:
        """Report the progress of a step as that of the plan."""
        words = f"{at}, {step.action}" + (f": {progress.message}" if progress.message else "")
        self._call.report(progress.phase, words, at.number - 1, at.of)

    def _stop(self, result: ToolResult, at: PlanStep) -> Rejection:
        """The end of the plan by a step that did not succeed."""
        error = result.error
        code, message, hint, details = (
            (error.code, error.message, error.hint, error.details)
            if error is not None
            else (Code.FAILED, "", "", {})
        )
        if result.status is Status.PENDING and at.number > 1:
            hint = (
                f"the steps before step {at.number} ran: do not repeat them; make a plan of the rest, which "
                "waits in place of this one"
            )
        action = self._steps[at.number - 1].action
        return Rejection(
            status=result.status,
            code=code,
            message=f"{at}, {action}, ended {result.status.value}: {message}",
            hint=hint,
            details={**details, "step": at.number, "of": at.of, "tool": result.tool},
        )

    def _timed(self, result: ToolResult) -> ToolResult:
        """The result with the durations, waits, artifacts and warnings of all steps."""
        results = [item.result for item in self._done if item.result is not None]
        return msgspec.structs.replace(
            result,
            duration_ms=sum(item.waited_ms for item in self._done) + sum(one.duration_ms for one in results),
            waited_ms=self._call.waited_ms + sum(one.waited_ms for one in results),
            artifacts=artifacts_of(self._done),
            warnings=(*result.warnings, *warnings_of(self._done)),
        )


def _masks(root_state: RootState, tool: str, environ: Mapping[str, str]) -> Masks:
    """Masks over the secrets of the root, and of every sidecar that the plan may call."""
    secrets: dict[str, str] = {}
    for name in root_state.index[tool].capability.over:
        view = root_state.index.get(name)
        entry = root_state.entries.get(view.sidecar or "") if view is not None else None
        if entry is not None:
            secrets |= declared_secrets(entry.permissions, environ)[0]
    return root_state.masks_with(secrets)
