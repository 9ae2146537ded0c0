"""Step 13: write the start line, run exactly the sealed programs, check the output."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

import anyio.to_thread
import msgspec

from flycore.approval.attention import named_places
from flycore.approval.desktop_control import controls_desktop
from flycore.audit import events as audit_events
from flycore.catalog.dialect import canonical_output, program_input
from flycore.catalog.executable_tools import executable_call
from flycore.catalog.schemas import check_needs_process, check_output
from flycore.model.approval import NamedPlaces, Preview
from flycore.model.call import CallRequest
from flycore.model.catalog import Capability
from flycore.model.enums import Code, Kind, Phase, SealKind, Status
from flycore.model.json import JsonObject, canonical_json, digest
from flycore.model.large_values import is_large, run_aside
from flycore.model.program import ResolvedProgram
from flycore.pipeline.authorize import Authorization
from flycore.pipeline.builtin_run import run_builtin
from flycore.pipeline.call import Call, Rejection, failed, no_descriptors
from flycore.pipeline.confine import (
    Confining,
    StartedProgram,
    confined,
    confined_for_slot,
    seen_at_own_path,
)
from flycore.pipeline.context import RunContext, Slot
from flycore.pipeline.evidence import has_succeeded, why_not_observed, with_refusals
from flycore.pipeline.exec_call import filled_exec, own_argv
from flycore.pipeline.prepare import Prepared
from flycore.pipeline.proofs import contradiction
from flycore.pipeline.protected_writes import ProtectedWrites, protected_writes
from flycore.pipeline.validate import redacted_violations
from flycore.pipeline.written_paths import path_limits
from flycore.runners.exec_calls import call_exec
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.runners.output import Answer, OnEvent, SidecarEvent, not_done
from flycore.runners.persistent import call_alone
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.environment import child_environment
from flycore.sandbox.levels import CONFINING
from flycore.sandbox.protected_files import ProtectedFiles
from flycore.sandbox.seals import SealBrokenError, changed_part, materialise

TOOL_NAME = "FLYTUI_TOOL_NAME"
"""The variable that tells an executable which of its tools is called."""
LONGEST_WITH_PROGRESS_MS = 600_000
"""How long a call of an MCP server may take while it reports progress, where its caller names no limit."""


class Programs(msgspec.Struct, frozen=True):
    """The programs that are executed: the sealed ones themselves, or their copies in the content store."""

    program: ResolvedProgram
    delegates: dict[str, ResolvedProgram]


async def materialise_programs(run: RunContext, prepared: Prepared) -> Programs:
    """The programs exactly as they were sealed. Raises SealBrokenError where one is not that any more."""
    if prepared.target.entry.url:
        return Programs(prepared.sealed.program, {})
    seals = (prepared.seal, *(item.seal for item in prepared.delegates))
    # A package is copied file by file the first time, and a partial seal may have many files to look at: in a
    # worker thread, so that the event loop goes on.
    if any(seal.kind is SealKind.PACKAGE or seal.partial for seal in seals):
        return await anyio.to_thread.run_sync(_materialised, run, prepared)
    return _materialised(run, prepared)


def _materialised(run: RunContext, prepared: Prepared) -> Programs:
    sealed = prepared.sealed
    store, conditions = run.root.places.store_dir, sealed.conditions
    make = partial(
        materialise,
        store=store,
        conditions=conditions,
        at_own_path=seen_at_own_path(prepared.sandbox.level),
    )
    return Programs(
        make(sealed.program, prepared.seal),
        {item.name: make(sealed.delegate_programs[item.name], item.seal) for item in prepared.delegates},
    )


def build_job(
    run: RunContext, request: CallRequest, prepared: Prepared, programs: Programs, artifacts: str
) -> ProcessJsonJob:
    """The job for the runner, with `artifacts` as the folder for the files that the call makes."""
    entry, capability = prepared.target.entry, prepared.target.capability
    limit, envelope = entry.timeout_ms, None
    env = _job_environment(run, request.call_id, prepared, programs.program)
    if entry.kind is Kind.EXECUTABLE:
        envelope, limit = executable_call(entry, request.tool)
        # A program of several tools gets the input alone on stdin, and learns here which of them is called.
        env = {**env, TOOL_NAME: request.tool}
    # A caller can only shorten the time limit, because the entry's limit is part of what was trusted.
    if request.timeout_ms is not None:
        limit = max(1, min(limit, request.timeout_ms))
    return ProcessJsonJob(
        argv=own_argv(entry, programs.program),
        env=env,
        cwd=run.root.working_folder(run.state.latest.registry, entry),
        call_id=request.call_id,
        tool=request.tool,
        input=program_input(capability, prepared.input, entry.config),
        envelope=envelope,
        config_dir=run.state.latest.registry.config_dir,
        read=partial(_read_answer, capability, prepared.input, artifacts) if capability.dialect else None,
        config=entry.config,
        sidecar=entry.id,
        delegates={name: {"argv": list(program.argv)} for name, program in programs.delegates.items()},
        project_dir=str(run.root.places.app_root),
        artifact_dir=artifacts,
        timeout_ms=limit,
        progress_timeout_ms=LONGEST_WITH_PROGRESS_MS if request.timeout_ms is None else 0,
        max_output_bytes=entry.max_output_bytes,
        limits=entry.limits,
        extra=_sidecar_context(run, prepared),
        check=partial(_changed_file, prepared) if _runs_in_place(prepared) else None,
    )


def _read_answer(capability: Capability, input: JsonObject, artifacts: str, answer: Answer) -> Answer:
    """The answer in the form of the known tool. A file that it holds is written to the call's folder."""
    found = canonical_output(capability, input, answer.output)
    if found.failure:
        return not_done(found.failure, answer.output)
    warnings = answer.warnings
    if found.file and not _write_file(artifacts, found.file_name, found.file):
        warnings = (*warnings, f"{found.file_name} of the answer could not be written to the call's folder")
    return msgspec.structs.replace(answer, output=found.fields, warnings=warnings)


def _write_file(folder: str, name: str, content: bytes) -> bool:
    """Write a new file; return whether that was done."""
    # O_EXCL: the program may have put a link of that name into the folder, which leads elsewhere.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(os.path.join(folder, name), flags, 0o600), "wb") as file:
            file.write(content)
    except OSError:
        return False
    return True


def confining_of(
    run: RunContext,
    prepared: Prepared,
    programs: Programs,
    protected: ProtectedFiles,
    *,
    observed: bool = False,
) -> Confining | None:
    """How the call is confined; None where it is not. With `observed` it is noted what it is refused."""
    if prepared.sandbox.level not in CONFINING:
        return None
    started = [StartedProgram(programs.program, prepared.seal)]
    started += [StartedProgram(programs.delegates[item.name], item.seal) for item in prepared.delegates]
    entry, state = prepared.target.entry, run.state.latest
    return Confining(
        level=prepared.sandbox.level,
        support=state.support,
        permissions=entry.effective_permissions,
        limits=path_limits(state, entry),
        programs=started,
        store=run.root.places.store_dir,
        app_root=str(run.root.places.app_root),
        home=run.root.environ.get("HOME", ""),
        observed=observed,
        protected=protected,
    )


def _runs_in_place(prepared: Prepared) -> bool:
    """Whether something of the seals is not held by a copy, so that it is looked at after the start, too."""
    seals = prepared.sealed.seals
    return not prepared.target.entry.url and any(seal.partial for seal in seals)


def _changed_file(prepared: Prepared) -> str:
    """A file of the seals that is not what was approved any more; empty where there is none."""
    sealed = prepared.sealed
    pairs = [(sealed.program, sealed.seal)]
    pairs += [(sealed.delegate_programs[item.name], item.seal) for item in sealed.delegates]
    return next(filter(None, (changed_part(program, seal, sealed.conditions) for program, seal in pairs)), "")


def _sidecar_context(run: RunContext, prepared: Prepared) -> JsonObject:
    """Further keys of the request: what the entry declares, the window or page that was approved as the
    target, and the windows and processes of the consoles, which the sidecar must not touch."""
    declared = prepared.target.entry.permissions
    # For tools that hold themselves to what the entry declares, as the bundled ones do.
    words: JsonObject = {
        "permissions": {
            "network": declared.network,
            "read": list(declared.read),
            "write": list(declared.write),
        }
    }
    desktop, seen = prepared.target.entry.permissions.desktop, prepared.preview
    if desktop:
        protected = run.protected_windows().on_display(prepared.environment.get("DISPLAY", ""))
        words["refuse"] = {"windowIds": list(protected.window_ids), "pids": list(protected.pids)}
    if seen is not None and seen.tab:
        words["target"] = _page(seen)
    elif seen is not None and seen.window_id and desktop:
        words["target"] = {"windowId": int(seen.window_id), "title": seen.title, "pid": seen.pid}
    return words


def _page(seen: Preview) -> JsonObject:
    words: JsonObject = {"tab": seen.tab, "url": seen.url}
    return words | {"ref": seen.ref} if seen.ref else words


def _job_environment(
    run: RunContext, call_id: str, prepared: Prepared, program: ResolvedProgram
) -> dict[str, str]:
    """The prepared environment; for a copied program one whose search path leads to the copy."""
    if program is prepared.sealed.program:
        return prepared.environment
    entry = prepared.target.entry
    return child_environment(
        entry, program, environ=run.root.environ, secrets=prepared.secrets, call_id=call_id
    )


async def execute(
    run: RunContext, call: Call, prepared: Prepared, authorization: Authorization, slot: Slot | None
) -> RunOutcome | Rejection:
    """Write the start line, run the sidecar, check its output.

    The call runs at `slot`, or in a process of its own where that is None. For an agent's own tool nothing
    runs, and the outcome is the decision. Raises AuditUnwritable where the start line cannot be written; then
    nothing has run.
    """
    if prepared.target.decided:
        _record_start(run, call, prepared, authorization)
        return RunOutcome(
            status=Status.SUCCESS, output={"decision": "allow", "input": digest(prepared.input)}
        )
    asked = call.request.observe
    artifacts = _take_folder(run, call, slot)
    if isinstance(artifacts, Rejection):
        return artifacts
    if prepared.target.builtin:
        try:
            return await _execute_builtin(run, call, prepared, authorization, artifacts)
        except NotPermitted as error:
            return failed(Code.SPAWN, f"{error}", error.hint, path=error.path)
    observed = slot is None and _is_observed(run, prepared, asked=asked)
    # False until the run has ended with nobody left: an exception leaves it unknown who may still write
    # there.
    settled = False
    try:
        runs = await materialise_programs(run, prepared)
        # The start line comes after the copy, which may fail, and before the spawn: whatever may have acted
        # has its line on disk, and a line without an end means that the outcome is not known.
        _record_start(run, call, prepared, authorization)
        job = build_job(run, call.request, prepared, runs, artifacts)
        async with _protected_run(run, call, prepared, slot) as writes:
            # A tool that can press keys could press the approving ones: meanwhile no console takes an
            # approval.
            confining = confining_of(run, prepared, runs, writes.files, observed=observed)
            job = confined(confining, job) if slot is None else confined_for_slot(confining, job)
            with run.desktop_control.call_running() if _controls_desktop(prepared) else nullcontext():
                outcome = await _call(run, prepared, slot, job, _on_event(call, prepared))
            settled = isinstance(outcome, Rejection) or outcome.survivors == 0
    except SealBrokenError as error:
        hint = "make room for its copy, or find out what changes the program; then call again"
        return failed(Code.SPAWN, f"the program could not be copied as it was sealed: {error}", hint)
    except NotPermitted as error:
        return failed(Code.SPAWN, f"{error}", error.hint, path=error.path)
    finally:
        run.folders.give_back(artifacts, settled=settled, whose=slot.key if slot is not None else None)
    if isinstance(outcome, Rejection):
        return outcome
    outcome = await with_refusals(run, prepared, outcome, observed=observed, asked=asked)
    outcome = writes.judged(outcome)
    # An output that could not be checked on the event loop in time is checked in a worker thread.
    schema, output = prepared.target.capability.output_schema, outcome.output
    aside = is_large(output) or check_needs_process(schema, output)
    project = str(run.root.places.app_root)
    return await run_aside(aside, _validate_output, prepared, _proved(prepared, outcome, project))


@asynccontextmanager
async def _protected_run(
    run: RunContext, call: Call, prepared: Prepared, slot: Slot | None
) -> AsyncIterator[ProtectedWrites]:
    """Hold what the call may not write while the block runs. What it wrote all the same is told with the
    result, however the call ends. Raises NotPermitted."""
    permissions = prepared.target.entry.effective_permissions
    limits = path_limits(run.state.latest, prepared.target.entry)
    level, call_id = prepared.sandbox.level, call.request.call_id
    # A process that serves several calls is granted nothing that one input names.
    named = prepared.input if slot is None else {}
    found = protected_writes(run.root, level, permissions, named, call_id, limits, compared=slot is not None)
    writes: ProtectedWrites | None = None
    try:
        async with found as writes:
            yield writes
    except BaseException:
        # A call that was cancelled gives no outcome that could say it.
        if writes is not None and writes.problem:
            call.notices.append(writes.problem)
        raise


def _proved(prepared: Prepared, outcome: RunOutcome, project_dir: str) -> RunOutcome:
    """The outcome, or a failure where the output contradicts what was asked."""
    if outcome.status is not Status.SUCCESS or not prepared.target.capability.proofs:
        return outcome
    why = contradiction(prepared.target.capability, prepared.input, outcome.output, project_dir)
    if not why:
        return outcome
    fields = outcome.output if isinstance(outcome.output, dict) else {}
    found = not_done(why, fields)
    return replace(
        outcome,
        status=found.status,
        code=found.code,
        message=found.message,
        hint=found.hint,
        details=found.details,
        output=None,
    )


def _take_folder(run: RunContext, call: Call, slot: Slot | None) -> str | Rejection:
    """The folder for the files that the call makes."""
    try:
        return run.folders.take(call.request.call_id, slot.key if slot is not None else None)
    except OSError as error:
        if (rejection := no_descriptors(error)) is not None:
            return rejection
        hint = "make room there, or give flytui the right to write there"
        return failed(
            Code.SPAWN,
            f"the folder for the call's files cannot be made: {error.strerror}",
            hint,
            path=error.filename,
        )


async def _execute_builtin(
    run: RunContext, call: Call, prepared: Prepared, authorization: Authorization, artifacts: str
) -> RunOutcome:
    """Run a tool of the kernel itself. Raises AuditUnwritable where the start line cannot be written; then
    nothing has run."""
    settled = False
    try:
        start = partial(_record_start, run, call, prepared, authorization)
        async with _protected_run(run, call, prepared, None) as writes:
            outcome = await run_builtin(run, call.request, prepared, artifacts, writes.files, start)
            settled = outcome.survivors == 0
        outcome = writes.judged(outcome)
    finally:
        run.folders.give_back(artifacts, settled=settled)
    return await run_aside(is_large(outcome.output), _validate_output, prepared, outcome)


async def _call(
    run: RunContext, prepared: Prepared, slot: Slot | None, job: ProcessJsonJob, on_event: OnEvent
) -> RunOutcome | Rejection:
    """Run the job. Where a persistent process died during a call that only reads, run it once more in a new
    process.

    Raises SealBrokenError where the program has changed by then.
    """
    entry = prepared.target.entry
    if entry.exec is not None:
        filled = filled_exec(entry, prepared.input, prepared.secrets)
        return filled if isinstance(filled, Rejection) else await call_exec(job, entry.exec, filled)
    if slot is None:
        stays = prepared.target.entry.kind is Kind.PERSISTENT
        return await (call_alone(job, on_event) if stays else call_sidecar(job, on_event))
    outcome = await slot.call(job, on_event)
    # A tool that does more than read may have acted before its process died: only a person can know whether
    # to repeat that.
    if outcome.code != Code.CRASHED or not prepared.target.capability.read_only:
        return outcome
    await materialise_programs(run, prepared)
    again = await slot.call(job, on_event)
    return again.with_warnings((f"{outcome.message}; it only reads, so it ran again in a new process",))


def _is_observed(run: RunContext, prepared: Prepared, *, asked: bool) -> bool:
    """Whether it is noted what the call is refused."""
    # A process that serves several calls would say of each what it was refused in another one.
    alone = (Kind.PROCESS_JSON, Kind.EXECUTABLE)
    if prepared.target.entry.kind not in alone or why_not_observed(run):
        return False
    # A tool that works costs nothing more.
    return asked or not has_succeeded(run, prepared)


def _controls_desktop(prepared: Prepared) -> bool:
    """Whether the tool could press the keys that approve a call: by its name, or because its entry has the
    desktop permission."""
    target = prepared.target
    return controls_desktop(target.capability.name) or target.entry.permissions.desktop


def _record_start(run: RunContext, call: Call, prepared: Prepared, permit: Authorization) -> None:
    # This runs on the event loop, which a large input must not hold: its places stay unknown.
    small = not is_large(prepared.input)
    named = named_places(prepared.input, str(run.root.places.app_root)) if small else NamedPlaces()
    fields = audit_events.tool_started(
        call.request,
        sidecar=prepared.target.entry.id,
        subject=prepared.subject_digest,
        input_digest=prepared.input_digest,
        level=prepared.sandbox.level,
        seal=prepared.seal.digest,
        authority=permit.authority,
        named=named,
        input_bytes=len(canonical_json(prepared.input)) if small else 0,
    )
    run.audit.append(audit_events.TOOL_STARTED, fields, sync=True)
    call.report(Phase.RUNNING)


def _on_event(call: Call, prepared: Prepared) -> OnEvent:
    masks = prepared.masks

    def on_event(event: SidecarEvent) -> None:
        if event.log is not None:
            call.hand_on_log(masks.json(event.log))
            return
        call.report(Phase.RUNNING, masks.text(event.message, cut=True), event.progress, event.total)

    return on_event


def _validate_output(prepared: Prepared, outcome: RunOutcome) -> RunOutcome:
    """The outcome, with a warning for each way in which the output does not fit its schema."""
    if outcome.status is not Status.SUCCESS:
        return outcome
    schema = prepared.target.capability.output_schema
    found = check_output(schema, outcome.output)
    if not found:
        return outcome
    violations = redacted_violations(found, outcome.output, prepared.masks, partial(check_output, schema))
    warnings = tuple(f"output {v.pointer or '/'}: {v.message}" for v in violations)
    return replace(outcome, warnings=(*outcome.warnings, *warnings))
