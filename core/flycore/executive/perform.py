"""Steps 9 to 11: the start line, the spawn, the check of what came back."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from flycore.approval.hands import uses_hands
from flycore.audit import events as audit_events
from flycore.catalog.schemas import check_output
from flycore.executive.ask import Permit
from flycore.executive.call import Call
from flycore.executive.prepare import Prepared
from flycore.executive.rooms import Rooms
from flycore.executive.stop import Stop, failed
from flycore.model.canonical import JsonObject, digest
from flycore.model.enums import Code, Phase, Status
from flycore.registry.resolve import anchor_folder
from flycore.runners.answer import OnEvent, SidecarEvent
from flycore.runners.process_json import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.sandbox.seals import SealBroken, materialise


async def perform(rooms: Rooms, call: Call, prepared: Prepared, permit: Permit) -> RunOutcome | Stop:
    """Write the start line, run the sidecar, check its output. A start line that cannot be written
    raises AuditUnwritable and nothing runs."""
    request = call.request
    hands = rooms.hands.on() if uses_hands(request.tool) else nullcontext()
    with _folders(rooms.places.state_dir, request.call_id) as (artifacts, programs):
        try:
            argv = materialise(prepared.program, prepared.seal, programs)
        except SealBroken as error:
            return failed(Code.SPAWN, f"the program changed while it was being copied: {error}")
        fields = audit_events.tool_started(
            request,
            sidecar=prepared.target.entry.id,
            subject=prepared.subject_digest,
            input_digest=digest(prepared.input),
            level=prepared.sandbox.level,
            seal=prepared.seal.digest,
            authority=permit.authority,
        )
        rooms.audit.append(audit_events.TOOL_STARTED, fields, sync=True)
        call.at(Phase.RUNNING)
        with hands:
            outcome = await call_sidecar(_job(rooms, call, prepared, argv, artifacts), _tell(call, prepared))
    return _checked(prepared, outcome)


def _job(
    rooms: Rooms, call: Call, prepared: Prepared, argv: tuple[str, ...], artifacts: Path
) -> ProcessJsonJob:
    entry = prepared.target.entry
    limit = entry.timeout_ms
    if call.request.timeout_ms is not None:
        limit = max(1, min(limit, call.request.timeout_ms))
    return ProcessJsonJob(
        argv=argv,
        env=prepared.environment,
        cwd=str(anchor_folder(entry.cwd, rooms.world().registry)),
        call_id=call.request.call_id,
        tool=call.request.tool,
        input=prepared.input,
        config=entry.config,
        delegates={item.name: {"argv": list(item.argv)} for item in prepared.delegates},
        project_dir=str(rooms.places.app_root),
        artifact_dir=str(artifacts),
        timeout_ms=limit,
        max_output_bytes=entry.max_output_bytes,
        limits=entry.limits,
        extra=_desktop_words(rooms, prepared),
    )


def _desktop_words(rooms: Rooms, prepared: Prepared) -> JsonObject:
    """What a desktop tool is told besides its input: what to hit, and what never to touch."""
    if not prepared.target.entry.permissions.desktop:
        return {}
    seat = rooms.seat()
    words: JsonObject = {"refuse": {"windowIds": list(seat.window_ids), "pids": list(seat.pids)}}
    if prepared.preview is not None:
        words["target"] = {
            "windowId": int(prepared.preview.window_id),
            "title": prepared.preview.title,
            "pid": prepared.preview.pid,
        }
    return words


def _tell(call: Call, prepared: Prepared) -> OnEvent:
    masks = prepared.masks

    def tell(event: SidecarEvent) -> None:
        call.at(Phase.RUNNING, masks.text(event.message, cut=True), event.progress, event.total)

    return tell


def _checked(prepared: Prepared, outcome: RunOutcome) -> RunOutcome:
    """An output that does not fit its schema is delivered, with a warning."""
    if outcome.status is not Status.SUCCESS:
        return outcome
    violations = check_output(prepared.target.capability.output_schema, outcome.output)
    said = tuple(f"output {v.pointer or '/'}: {v.message}" for v in violations)
    return replace(outcome, warnings=(*outcome.warnings, *said))


@contextmanager
def _folders(state_dir: Path, call_id: str) -> Iterator[tuple[Path, Path]]:
    """The call's own folders: artifacts, kept when something is in them, and programs, removed."""
    artifacts = state_dir / "artifacts" / call_id
    programs = state_dir / "programs" / call_id
    artifacts.mkdir(mode=stat.S_IRWXU, parents=True)
    try:
        yield artifacts, programs
    finally:
        shutil.rmtree(programs, ignore_errors=True)
        try:
            os.rmdir(artifacts)
        except OSError:
            return
