"""What a sidecar is handed: the program that was sealed, or its copy, and the request's line."""

from __future__ import annotations

from dataclasses import dataclass

import anyio.to_thread

from flycore.executive.prepare import Prepared
from flycore.executive.rooms import RunContext
from flycore.model.approval import Preview
from flycore.model.call import CallRequest
from flycore.model.enums import SealKind
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram
from flycore.registry.resolve import anchor_folder
from flycore.runners.process_json import ProcessJsonJob
from flycore.sandbox.environment import child_environment
from flycore.sandbox.seals import materialise


@dataclass(frozen=True, slots=True)
class Programs:
    """What is executed: the programs themselves, or their copies."""

    program: ResolvedProgram
    delegates: dict[str, ResolvedProgram]


async def materialise_programs(run: RunContext, prepared: Prepared) -> Programs:
    """Exactly the programs that were sealed. A package is read in a worker thread. Raises SealBrokenError."""
    if prepared.target.entry.url:
        return Programs(prepared.sealed.program, {})
    seals = (prepared.seal, *(item.seal for item in prepared.delegates))
    if any(seal.kind is SealKind.PACKAGE for seal in seals):
        return await anyio.to_thread.run_sync(_materialised, run, prepared)
    return _materialised(run, prepared)


def _materialised(run: RunContext, prepared: Prepared) -> Programs:
    store = run.ground.places.store_dir
    return Programs(
        materialise(prepared.sealed.program, prepared.seal, store),
        {
            item.name: materialise(prepared.sealed.delegate_programs[item.name], item.seal, store)
            for item in prepared.delegates
        },
    )


def build_job(
    run: RunContext, request: CallRequest, prepared: Prepared, runs: Programs, artifacts: str
) -> ProcessJsonJob:
    """The run, with `artifacts` as the folder for its files."""
    entry = prepared.target.entry
    limit = entry.timeout_ms
    if request.timeout_ms is not None:
        limit = max(1, min(limit, request.timeout_ms))
    return ProcessJsonJob(
        argv=runs.program.argv,
        env=_job_environment(run, request.call_id, prepared, runs.program),
        cwd=str(anchor_folder(entry.cwd, run.state.world.registry)),
        call_id=request.call_id,
        tool=request.tool,
        input=prepared.input,
        config=entry.config,
        delegates={name: {"argv": list(program.argv)} for name, program in runs.delegates.items()},
        project_dir=str(run.ground.places.app_root),
        artifact_dir=artifacts,
        timeout_ms=limit,
        max_output_bytes=entry.max_output_bytes,
        limits=entry.limits,
        extra=_sidecar_context(run, prepared),
    )


def _sidecar_context(run: RunContext, prepared: Prepared) -> JsonObject:
    """What the sidecar is told besides the input: what was approved to be hit, and what never to touch."""
    words: JsonObject = {}
    desktop, seen = prepared.target.entry.permissions.desktop, prepared.preview
    if desktop:
        seat = run.seat()
        words["refuse"] = {"windowIds": list(seat.window_ids), "pids": list(seat.pids)}
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
    """The environment that was prepared; its search path leads into the copy, not beside it."""
    if program is prepared.sealed.program:
        return prepared.environment
    entry = prepared.target.entry
    return child_environment(
        entry, program, environ=run.ground.environ, secrets=prepared.secrets, call_id=call_id
    )
