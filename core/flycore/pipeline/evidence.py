"""The evidence of what a call was refused: which calls are observed, and what their notes mean."""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread

from flycore.catalog.observations import CallEnd, UnavailableAnswer
from flycore.catalog.reasons import permission_missing
from flycore.model.call import ToolResult
from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.refusals import Refusals
from flycore.pipeline.context import RunContext
from flycore.pipeline.prepare import Prepared
from flycore.pipeline.written_paths import ground_of
from flycore.runners.one_shot import RunOutcome
from flycore.sandbox import observation
from flycore.sandbox.detection import detection
from flycore.sandbox.evidence import refusals_in
from flycore.sandbox.levels import CONFINING

_OF_ITS_INPUT = frozenset((Code.INVALID_INPUT, Code.CANCELLED, Code.OUTPUT_LIMIT, Code.SPAWN))
"""Codes of failures that no permission mends."""


def why_not_observed(run: RunContext) -> str:
    """Why no call is observed on this machine; empty where calls are."""
    program = run.state.latest.support.bubblewrap_program
    return run.observations.observer_fault or observation.why_not_observed(program)


def has_succeeded(run: RunContext, prepared: Prepared) -> bool:
    """Whether the last call succeeded that met the same sandbox."""
    target = prepared.target
    return run.observations.has_succeeded(target.entry, target.capability.name, prepared.seal.digest)


async def with_refusals(
    run: RunContext, prepared: Prepared, outcome: RunOutcome, *, observed: bool, asked: bool
) -> RunOutcome:
    """The outcome with what the call was refused, where it failed, or where that was `asked` for.

    A failure that refused permissions explain has the code `permission-missing`, with the entry's line that
    grants them. What the program said stays in the message.
    """
    if observed and outcome.unconfined:
        run.observations.observer_fault = "a program could not be started with an observer"
    if outcome.status is Status.SUCCESS and not asked:
        return outcome
    if outcome.notes is None:
        why = _why_no_evidence(run, prepared, observed=observed, asked=asked)
        return outcome.with_warnings((why,)) if why else outcome
    # Files are looked at, and whole folders before they are proposed.
    refusals = await anyio.to_thread.run_sync(refusals_in, outcome.notes, ground_of(run.root, prepared))
    outcome = replace(outcome, refusals=refusals)
    if outcome.status is not Status.FAILED or outcome.code in _OF_ITS_INPUT or not refusals.explains_failure:
        return outcome
    return _explained(outcome, prepared, refusals)


def _why_no_evidence(run: RunContext, prepared: Prepared, *, observed: bool, asked: bool) -> str:
    """Why it is not known what the call was refused; empty where there is nothing to say."""
    if prepared.sandbox.level not in CONFINING:
        return "the sandbox refused nothing, because the call was not confined" if asked else ""
    if why := why_not_observed(run):
        return f"what the sandbox refused cannot be found out on this machine: {why}"
    if observed:
        return ""  # the failure says that it was not started, or has lost its observer
    return "what the sandbox refused is not known of a program that serves several calls" if asked else ""


async def note_end(
    run: RunContext, prepared: Prepared, outcome: RunOutcome, result: ToolResult, now: float
) -> None:
    """Note how the call ended, for the catalog and for later calls. `now` is Unix time in seconds."""
    error = result.error
    unavailable = None
    if result.status is Status.UNAVAILABLE and error is not None and not outcome.unconfined:
        unavailable = UnavailableAnswer(message=error.message, hint=error.hint)
    end = CallEnd(
        tool=prepared.target.capability.name,
        at=now,
        succeeded=result.status is Status.SUCCESS,
        code=outcome.code,
        message=error.message if error is not None else "",
        stderr_tail=result.stderr_tail,
        refusals=outcome.refusals if outcome.code == ReasonCode.PERMISSION_MISSING else None,
        unavailable=unavailable,
        seal=prepared.seal.digest if prepared.sandbox.level in CONFINING else "",
    )
    if outcome.code == ReasonCode.SANDBOX_UNAVAILABLE:
        detection.expire()  # what worked at the start may be gone: it is tried again
    run.observations.note(prepared.target.entry, end)
    if not run.observations.is_saved:
        await anyio.to_thread.run_sync(run.observations.save)


def _explained(outcome: RunOutcome, prepared: Prepared, refusals: Refusals) -> RunOutcome:
    reason = permission_missing(prepared.target.entry, prepared.target.capability.name, refusals)
    said = f"; the call ended with {outcome.code or Code.FAILED}: {outcome.message}"
    cause = {"code": str(outcome.code), "message": outcome.message, "hint": outcome.hint}
    return replace(
        outcome,
        code=ReasonCode.PERMISSION_MISSING,
        message=f"{reason.message}{said}",
        hint=reason.remedy,
        details={**outcome.details, "cause": {key: text for key, text in cause.items() if text}},
    )
