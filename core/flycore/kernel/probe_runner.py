"""Runs probes for the catalog: the same spawn path as a call, with nothing to act on."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import anyio.to_thread

from flycore.catalog.probes import ProbeAnswer, ProbeSpawn, ProbeWork
from flycore.kernel.load_state import Files, RootEnvironment
from flycore.model.enums import Code, ProbeMode, Status
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry
from flycore.registry.resolve import anchor_folder
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, probe_sidecar
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.package_files import PACKAGES
from flycore.sandbox.seals import SealBrokenError, materialise, seal_program
from flycore.sandbox.secret_masks import Masks


def probe_work(ground: RootEnvironment, files: Files, entry: SidecarEntry) -> ProbeWork:
    """One sidecar to be asked."""
    program = files.programs[entry.id]
    return ProbeWork(
        entry=entry,
        program=program,
        bundled=ground.bundled(program),
        delegates=files.delegates.get(entry.id, {}),
        environ=ground.environ,
    )


def probe_spawn(ground: RootEnvironment, files: Callable[[], Files], session: str) -> ProbeSpawn:
    """The callable that the prober runs probes with. `session` is what their call ids begin with."""

    async def spawn(entry: SidecarEntry, tool: str, mode: ProbeMode, timeout_ms: int) -> ProbeAnswer:
        probe_id = f"{session}-probe-{secrets.token_hex(6)}"
        try:
            job = await anyio.to_thread.run_sync(_job, ground, files(), entry, tool, probe_id)
            outcome = await probe_sidecar(job, mode, timeout_ms)
        except SealBrokenError as error:
            return ProbeAnswer(ok=False, code=Code.SPAWN, error=str(error), crashed=True)
        return _answer(outcome, Masks(declared_secrets(entry.permissions, ground.environ)[0]))

    return spawn


def _job(
    ground: RootEnvironment, files: Files, entry: SidecarEntry, tool: str, probe_id: str
) -> ProcessJsonJob:
    """The probe as a job. Raises SealBrokenError where the entry has changed: its program is then not the one
    that was trusted."""
    current, program = files.registry.entry(entry.id), files.programs.get(entry.id)
    if current is None or current.digest != entry.digest or program is None:
        raise SealBrokenError(None, "the entry changed while it waited to be asked", entry.id)
    found = {name: item for name, item in files.delegates.get(entry.id, {}).items() if item.argv}
    runs = sealed_program(ground, entry, program)
    delegates: JsonObject = {
        name: {"argv": list(sealed_program(ground, entry, item).argv)} for name, item in found.items()
    }
    values, _ = declared_secrets(entry.permissions, ground.environ)
    return ProcessJsonJob(
        argv=runs.argv,
        env=child_environment(entry, runs, environ=ground.environ, secrets=values, call_id=probe_id),
        cwd=str(anchor_folder(entry.cwd, files.registry)),
        call_id=probe_id,
        tool=tool,
        input={"probe": True},
        config=entry.config,
        delegates=delegates,
        project_dir=str(ground.places.app_root),
        limits=entry.limits,
    )


def sealed_program(ground: RootEnvironment, entry: SidecarEntry, program: ResolvedProgram) -> ResolvedProgram:
    """The program as a call would run it. Raises SealBrokenError."""
    return seal_and_materialise(ground, entry, program)[0]


def seal_and_materialise(
    ground: RootEnvironment, entry: SidecarEntry, program: ResolvedProgram
) -> tuple[ResolvedProgram, Seal]:
    """The same, with the seal. Raises SealBrokenError."""
    places = ground.places
    try:
        seal = seal_program(
            program,
            in_place=entry.seal_in_place,
            distribution=ground.distribution,
            packages=places.app_root / PACKAGES,
        )
    except OSError as error:
        raise SealBrokenError(error.errno, error.strerror or "cannot be read", error.filename) from error
    return materialise(program, seal, places.store_dir), seal


def _answer(outcome: RunOutcome, masks: Masks) -> ProbeAnswer:
    fields = outcome.output if isinstance(outcome.output, dict) else outcome.details
    return ProbeAnswer(
        ok=outcome.status is Status.SUCCESS,
        code=Code.FAILED if outcome.status is Status.FAILED and not outcome.code else outcome.code,
        error=masks.text(outcome.message, cut=True),
        fields=masks.json(fields, cut=True),
        duration_ms=outcome.duration_ms,
        stderr_tail=masks.text(outcome.stderr_tail, cut=True),
        timed_out=outcome.code == Code.TIMEOUT,
        crashed=outcome.code in (Code.CRASHED, Code.SPAWN, Code.EXIT),
    )
