"""What a plan gives back: what became of each of its steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flycore.model.base import Value
from flycore.model.call import Artifact, ToolResult
from flycore.model.enums import Status
from flycore.model.json import Json, JsonObject
from flycore.plans.expand import Step

MOST_OUTPUT_BYTES = 4 * 1024 * 1024
"""Of all steps' outputs together; those after it are left out, and that is said."""
NOT_RUN = "not-run"


class FinishedStep(Value, frozen=True, kw_only=True):
    """A step that has ended: with the result of its call, or after its wait."""

    step: Step
    result: ToolResult | None = None
    waited_ms: int = 0


def step_reports(steps: Sequence[Step], done: Sequence[FinishedStep]) -> list[Json]:
    """One entry for each action, in order; those that were not come to are `not-run`."""
    room = MOST_OUTPUT_BYTES
    told: list[Json] = []
    for item in done:
        entry, size = _finished_report(item, room)
        room -= size
        told.append(entry)
    told += [_step_report(step, NOT_RUN) for step in steps[len(done) :]]
    return told


def artifacts_of(done: Sequence[FinishedStep]) -> tuple[Artifact, ...]:
    """The files of all steps."""
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
    """The output of a plan that was carried out."""
    output: JsonObject = {"steps": step_reports(steps, done)}
    files: list[Json] = [
        {"path": item.path, "mimeType": item.mime_type, "bytes": item.bytes} for item in artifacts_of(done)
    ]
    return {**output, "artifacts": files} if files else output


def _step_report(step: Step, status: str) -> JsonObject:
    return {"action": step.action, "status": status, **({"tool": step.tool} if step.tool else {})}


def _finished_report(item: FinishedStep, room: int) -> tuple[JsonObject, int]:
    """The step's entry, and how many bytes of `room` its output took."""
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
