"""The output of a plan: a report of each of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flycore.model.base import Value
from flycore.model.call import Artifact, ToolResult
from flycore.model.enums import Status
from flycore.model.json import Json, JsonObject
from flycore.plans.expand import Step

MOST_OUTPUT_BYTES = 4 * 1024 * 1024
"""Bytes of all steps' outputs together. An output beyond that is left out, and its report has the size
instead."""
NOT_RUN = "not-run"


class FinishedStep(Value, frozen=True, kw_only=True):
    """A step that has ended: a call with its result, or a wait without one."""

    step: Step
    result: ToolResult | None = None
    waited_ms: int = 0


def step_reports(steps: Sequence[Step], done: Sequence[FinishedStep]) -> list[Json]:
    """One report for each step, in order; a step that has not run is `not-run`."""
    room = MOST_OUTPUT_BYTES
    reports: list[Json] = []
    for item in done:
        entry, size = _finished_report(item, room)
        room -= size
        reports.append(entry)
    reports += [_step_report(step, NOT_RUN) for step in steps[len(done) :]]
    return reports


def artifacts_of(done: Sequence[FinishedStep]) -> tuple[Artifact, ...]:
    """The artifacts of all steps."""
    return tuple(artifact for item in done if item.result is not None for artifact in item.result.artifacts)


def warnings_of(done: Sequence[FinishedStep]) -> tuple[str, ...]:
    """The warnings of all steps, each with the number of its step."""
    return tuple(
        f"step {number}: {warning}"
        for number, item in enumerate(done, 1)
        if item.result is not None
        for warning in item.result.warnings
    )


def output_of(steps: Sequence[Step], done: Sequence[FinishedStep]) -> JsonObject:
    """The output of a plan whose steps have all succeeded."""
    output: JsonObject = {"steps": step_reports(steps, done)}
    files: list[Json] = [
        {"path": item.path, "mimeType": item.mime_type, "bytes": item.bytes} for item in artifacts_of(done)
    ]
    return {**output, "artifacts": files} if files else output


def _step_report(step: Step, status: str) -> JsonObject:
    return {"action": step.action, "status": status, **({"tool": step.tool} if step.tool else {})}


def _finished_report(item: FinishedStep, room: int) -> tuple[JsonObject, int]:
    """The report of the step, and how many bytes of `room` its output uses."""
    result = item.result
    if result is None:
        return {**_step_report(item.step, Status.SUCCESS.value), "durationMs": item.waited_ms}, 0
    entry: JsonObject = {
        **_step_report(item.step, result.status.value),
        "callId": result.call_id,
        "durationMs": result.duration_ms,
    }
    if result.error is not None:
        return {**entry, "code": result.error.code, "message": result.error.message}, 0
    size = len(msgspec.json.encode(result.output))
    if size > room:
        return {**entry, "outputLeftOut": size}, 0
    return {**entry, "output": result.output}, size
