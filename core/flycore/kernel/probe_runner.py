"""The runner of probes: a probe starts a sidecar as a call does, with an input that has no effect."""

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
from flycore.sandbox.digests import PACKAGES
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.seals import SealBrokenError, materialise, seal_program
from flycore.sandbox.secret_masks import Masks


def probe_work(environment: RootEnvironment, files: Files, entry: SidecarEntry) -> ProbeWork:
    """Return what the prober needs to probe one sidecar."""
    program = files.programs[entry.id]
    return ProbeWork(
        entry=entry,
        program=program,
        bundled=environment.bundled(program),
        delegates=files.delegates.get(entry.id, {}),
        environ=environment.environ,
    )


def probe_spawn(environment: RootEnvironment, files: Callable[[], Files], session: str) -> ProbeSpawn:
    """Make the function by which the prober runs a probe. Its call ids begin with `session`."""

    async def spawn(entry: SidecarEntry, tool: str, mode: ProbeMode, timeout_ms: int) -> ProbeAnswer:
        probe_id = f"{session}-probe-{secrets.token_hex(6)}"
        try:
            job = await anyio.to_thread.run_sync(_job, environment, files(), entry, tool, probe_id)
            outcome = await probe_sidecar(job, mode, timeout_ms)
        except SealBrokenError as error:
            return ProbeAnswer(ok=False, code=Code.SPAWN, error=str(error), crashed=True)
        return _answer(outcome, Masks(declared_secrets(entry.permissions, environment.environ)[0]))

    return spawn


def _job(
    environment: RootEnvironment, files: Files, entry: SidecarEntry, tool: str, probe_id: str
) -> ProcessJsonJob:
    """Make the job of a probe. Raises SealBrokenError."""
    # The probe may have waited, and the program of a changed entry is not the one that was trusted.
    current, program = files.registry.entry(entry.id), files.programs.get(entry.id)
    if current is None or current.digest != entry.digest or program is None:
        raise SealBrokenError(None, "the entry changed while its probe was waiting", entry.id)
    found = {name: item for name, item in files.delegates.get(entry.id, {}).items() if item.argv}
    runs = sealed_program(environment, entry, program)
    delegates: JsonObject = {
        name: {"argv": list(sealed_program(environment, entry, item).argv)} for name, item in found.items()
    }
    values, _ = declared_secrets(entry.permissions, environment.environ)
    return ProcessJsonJob(
        argv=runs.argv,
        env=child_environment(entry, runs, environ=environment.environ, secrets=values, call_id=probe_id),
        cwd=str(anchor_folder(entry.cwd, files.registry)),
        call_id=probe_id,
        tool=tool,
        input={"probe": True},
        config=entry.config,
        delegates=delegates,
        project_dir=str(environment.places.app_root),
        limits=entry.limits,
    )


def sealed_program(
    environment: RootEnvironment, entry: SidecarEntry, program: ResolvedProgram
) -> ResolvedProgram:
    """Return the sealed program as a call would run it. Raises SealBrokenError."""
    return seal_and_materialise(environment, entry, program)[0]


def seal_and_materialise(
    environment: RootEnvironment, entry: SidecarEntry, program: ResolvedProgram
) -> tuple[ResolvedProgram, Seal]:
    """Return the sealed program and its seal. Raises SealBrokenError."""
    places = environment.places
    try:
        seal = seal_program(
            program,
            in_place=entry.seal_in_place,
            distribution=environment.distribution,
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
