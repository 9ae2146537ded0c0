"""The evidence of what a call was refused: which calls are observed, and what their notes mean."""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread

from flycore.catalog.reasons import permission_missing
from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.refusals import Refusals
from flycore.pipeline.context import RunContext
from flycore.pipeline.observed_calls import CallKey
from flycore.pipeline.prepare import Prepared
from flycore.pipeline.written_paths import ground_of
from flycore.runners.one_shot import RunOutcome
from flycore.sandbox.evidence import refusals_in
from flycore.sandbox.levels import CONFINING

_OF_ITS_INPUT = frozenset((Code.INVALID_INPUT, Code.CANCELLED, Code.OUTPUT_LIMIT, Code.SPAWN))
"""Codes of failures that no permission mends."""


def call_key(prepared: Prepared) -> CallKey:
    """Return what has to be the same for two calls to meet the same sandbox."""
    return prepared.target.capability.name, prepared.target.entry.digest, prepared.seal.digest


async def with_refusals(
    run: RunContext, prepared: Prepared, outcome: RunOutcome, *, observed: bool, asked: bool
) -> RunOutcome:
    """The outcome with what the call was refused, where it failed, or where that was `asked` for.

    A failure that refused permissions explain has the code `permission-missing`, with the entry's line that
    grants them. What the program said stays in the message.
    """
    if observed and outcome.unconfined:
        run.observed.give_up("a program could not be started with an observer")
    succeeded = outcome.status is Status.SUCCESS
    confined = prepared.sandbox.level in CONFINING
    if confined and run.observed.note(call_key(prepared), succeeded=succeeded):
        await anyio.to_thread.run_sync(run.observed.save)
    if succeeded and not asked:
        return outcome
    if outcome.notes is None:
        why = _why_no_evidence(run, prepared, asked=asked)
        return outcome.with_warnings((why,)) if why else outcome
    # Files are looked at, and whole folders before they are proposed.
    refusals = await anyio.to_thread.run_sync(refusals_in, outcome.notes, ground_of(run.root, prepared))
    outcome = replace(outcome, refusals=refusals)
    if outcome.status is not Status.FAILED or outcome.code in _OF_ITS_INPUT or not refusals.explains_failure:
        return outcome
    return _explained(outcome, prepared, refusals)


def _why_no_evidence(run: RunContext, prepared: Prepared, *, asked: bool) -> str:
    """Why it is not known what the call was refused; empty where there is nothing to say."""
    if prepared.sandbox.level not in CONFINING:
        return "the sandbox refused nothing, because the call was not confined" if asked else ""
    if run.observed.why_not:
        return f"what the sandbox refused cannot be found out on this machine: {run.observed.why_not}"
    return "what the sandbox refused is not known of a program that serves several calls" if asked else ""


def note_refusals(run: RunContext, prepared: Prepared, outcome: RunOutcome) -> None:
    """Let the catalog show what the call lacked, or that it lacked nothing."""
    lacked = outcome.refusals if outcome.code == ReasonCode.PERMISSION_MISSING else None
    if lacked is None and outcome.status is not Status.SUCCESS:
        return  # it says nothing about permissions
    entry = prepared.target.entry
    run.note_refusals(entry.id, prepared.target.capability.name, entry.digest, lacked)


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
