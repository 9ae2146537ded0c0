"""Steps 9 to 11: the start line, the spawn, the check of what came back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from flycore.approval.hands import uses_hands
from flycore.audit import events as audit_events
from flycore.catalog.schemas import check_output
from flycore.executive.ask import Permit
from flycore.executive.call import Call
from flycore.executive.decided import allowed
from flycore.executive.job import job_of, runs_of
from flycore.executive.prepare import Prepared
from flycore.executive.rooms import CallPlace, RunContext
from flycore.executive.stop import Stop, failed
from flycore.executive.violations import worded
from flycore.model.enums import Code, Kind, Phase, Status
from flycore.runners.answer import OnEvent, SidecarEvent
from flycore.runners.persistent import call_alone
from flycore.runners.process_json import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.sandbox.seals import SealBroken


async def perform(
    run: RunContext, call: Call, prepared: Prepared, permit: Permit, place: CallPlace | None
) -> RunOutcome | Stop:
    """Write the start line, run the sidecar, check its output; at `place`, or in a process of its own. A
    start line that cannot be written raises AuditUnwritable and nothing runs. Where the decision is all that
    was asked for, it is the answer."""
    if prepared.target.decided:
        _started(run, call, prepared, permit)
        return allowed(prepared.input)
    try:
        artifacts = run.folders.take(call.request.call_id, place.key if place is not None else None)
    except OSError as error:
        hint = "make room there, or see to it that flytui may write there"
        return failed(
            Code.SPAWN, f"no folder for the call's files: {error.strerror}", hint, path=error.filename
        )
    settled = False
    try:
        runs = await runs_of(run, prepared)
        _started(run, call, prepared, permit)
        job = job_of(run, call.request, prepared, runs, artifacts)
        with run.hands.on() if _has_hands(prepared) else nullcontext():
            outcome = await _answered(run, prepared, place, job, _tell(call, prepared))
        settled = outcome.survivors == 0
    except SealBroken as error:
        hint = "make room for its copy, or find out what changes the program, then call again"
        return failed(Code.SPAWN, f"the program could not be copied as it was sealed: {error}", hint)
    finally:
        run.folders.give_back(artifacts, settled=settled, whose=place.key if place is not None else None)
    return _checked(prepared, outcome)


async def _answered(
    run: RunContext, prepared: Prepared, place: CallPlace | None, job: ProcessJsonJob, tell: OnEvent
) -> RunOutcome:
    """Run it. Where a process that stays died over a tool that only reads, once more in a new one.

    Raises SealBroken where the program is another by then.
    """
    if place is None:
        stays = prepared.target.entry.kind is Kind.PERSISTENT
        return await (call_alone(job, tell) if stays else call_sidecar(job, tell))
    outcome = await place.call(job, tell)
    if outcome.code != Code.CRASHED or not prepared.target.capability.read_only:
        return outcome
    await runs_of(run, prepared)
    again = await place.call(job, tell)
    return again.with_warnings((f"{outcome.message}; it only reads, so it was asked again in a new process",))


def _has_hands(prepared: Prepared) -> bool:
    """Whether the tool could press the keys that approve: by its name, or because it has the desktop."""
    target = prepared.target
    return uses_hands(target.capability.name) or target.entry.permissions.desktop


def _started(run: RunContext, call: Call, prepared: Prepared, permit: Permit) -> None:
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
    call.at(Phase.RUNNING)


def _tell(call: Call, prepared: Prepared) -> OnEvent:
    masks = prepared.masks

    def tell(event: SidecarEvent) -> None:
        call.at(Phase.RUNNING, masks.text(event.message, cut=True), event.progress, event.total)

    return tell


def _checked(prepared: Prepared, outcome: RunOutcome) -> RunOutcome:
    """An output that does not fit its schema is delivered, with a warning."""
    if outcome.status is not Status.SUCCESS:
        return outcome
    schema = prepared.target.capability.output_schema
    found = check_output(schema, outcome.output)
    if not found:
        return outcome
    violations = worded(found, outcome.output, prepared.masks, partial(check_output, schema))
    said = tuple(f"output {v.pointer or '/'}: {v.message}" for v in violations)
    return replace(outcome, warnings=(*outcome.warnings, *said))
