"""Steps 9 to 11: the start line, the spawn, the check of what came back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from flycore.approval.hands import controls_desktop
from flycore.audit import events as audit_events
from flycore.catalog.schemas import check_output
from flycore.executive.ask import Authorization
from flycore.executive.call import Call
from flycore.executive.decided import allowed_outcome
from flycore.executive.job import build_job, materialise_programs
from flycore.executive.prepare import Prepared
from flycore.executive.rooms import RunContext, Slot
from flycore.executive.stop import Rejection, failed
from flycore.executive.violations import redacted_violations
from flycore.model.enums import Code, Kind, Phase, Status
from flycore.runners.answer import OnEvent, SidecarEvent
from flycore.runners.persistent import call_alone
from flycore.runners.process_json import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.sandbox.seals import SealBrokenError


async def execute(
    run: RunContext, call: Call, prepared: Prepared, permit: Authorization, place: Slot | None
) -> RunOutcome | Rejection:
    """Write the start line, run the sidecar, check its output; at `place`, or in a process of its own. A
    start line that cannot be written raises AuditUnwritable and nothing runs. Where the decision is all that
    was asked for, it is the answer."""
    if prepared.target.decided:
        _record_start(run, call, prepared, permit)
        return allowed_outcome(prepared.input)
    try:
        artifacts = run.folders.take(call.request.call_id, place.key if place is not None else None)
    except OSError as error:
        hint = "make room there, or see to it that flytui may write there"
        return failed(
            Code.SPAWN, f"no folder for the call's files: {error.strerror}", hint, path=error.filename
        )
    settled = False
    try:
        runs = await materialise_programs(run, prepared)
        _record_start(run, call, prepared, permit)
        job = build_job(run, call.request, prepared, runs, artifacts)
        with run.hands.on() if _controls_desktop(prepared) else nullcontext():
            outcome = await _call(run, prepared, place, job, _on_event(call, prepared))
        settled = outcome.survivors == 0
    except SealBrokenError as error:
        hint = "make room for its copy, or find out what changes the program, then call again"
        return failed(Code.SPAWN, f"the program could not be copied as it was sealed: {error}", hint)
    finally:
        run.folders.give_back(artifacts, settled=settled, whose=place.key if place is not None else None)
    return _validate_output(prepared, outcome)


async def _call(
    run: RunContext, prepared: Prepared, place: Slot | None, job: ProcessJsonJob, tell: OnEvent
) -> RunOutcome:
    """Run it. Where a process that stays died over a tool that only reads, once more in a new one.

    Raises SealBrokenError where the program is another by then.
    """
    if place is None:
        stays = prepared.target.entry.kind is Kind.PERSISTENT
        return await (call_alone(job, tell) if stays else call_sidecar(job, tell))
    outcome = await place.call(job, tell)
    if outcome.code != Code.CRASHED or not prepared.target.capability.read_only:
        return outcome
    await materialise_programs(run, prepared)
    again = await place.call(job, tell)
    return again.with_warnings((f"{outcome.message}; it only reads, so it was asked again in a new process",))


def _controls_desktop(prepared: Prepared) -> bool:
    """Whether the tool could press the keys that approve: by its name, or because it has the desktop."""
    target = prepared.target
    return controls_desktop(target.capability.name) or target.entry.permissions.desktop


def _record_start(run: RunContext, call: Call, prepared: Prepared, permit: Authorization) -> None:
    fields = audit_events.tool_started(
        call.request,
        sidecar=prepared.target.entry.id,
        subject=prepared.subject_digest,
        input_digest=prepared.input_digest,
        level=prepared.sandbox.level,
        seal=prepared.seal.digest,
        authority=permit.authority,
    )
    run.audit.append(audit_events.TOOL_STARTED, fields, sync=True)
    call.report(Phase.RUNNING)


def _on_event(call: Call, prepared: Prepared) -> OnEvent:
    masks = prepared.masks

    def tell(event: SidecarEvent) -> None:
        call.report(Phase.RUNNING, masks.text(event.message, cut=True), event.progress, event.total)

    return tell


def _validate_output(prepared: Prepared, outcome: RunOutcome) -> RunOutcome:
    """An output that does not fit its schema is delivered, with a warning."""
    if outcome.status is not Status.SUCCESS:
        return outcome
    schema = prepared.target.capability.output_schema
    found = check_output(schema, outcome.output)
    if not found:
        return outcome
    violations = redacted_violations(found, outcome.output, prepared.masks, partial(check_output, schema))
    said = tuple(f"output {v.pointer or '/'}: {v.message}" for v in violations)
    return replace(outcome, warnings=(*outcome.warnings, *said))
