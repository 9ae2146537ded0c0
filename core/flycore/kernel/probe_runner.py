"""The runner of probes: a probe starts a sidecar as a call does, with an input that has no effect."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import anyio.to_thread

from flycore.approval.entry_summary import COMMAND
from flycore.catalog.prober import ProbeSpawn
from flycore.catalog.probes import ProbeAnswer
from flycore.kernel.load_state import sandbox_support
from flycore.model.enums import Code, Level, ProbeMode, Status
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.pipeline.confine import (
    Confining,
    StartedProgram,
    confined,
    protected_files,
    seen_at_own_path,
)
from flycore.pipeline.context import Files, RootEnvironment
from flycore.pipeline.prepare import Sealed, seal_programs
from flycore.pipeline.protected_writes import ProtectedWrites
from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, probe_sidecar
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.detection import SandboxSupport, detection
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.levels import CONFINING, minimum_level, sandbox_level
from flycore.sandbox.protected_files import NOTHING_PROTECTED
from flycore.sandbox.seals import SealBrokenError, StartConditions, materialise, seal_program
from flycore.sandbox.secret_masks import Masks
from flysafe.spare_descriptors import NONE_LEFT


def probe_spawn(
    environment: RootEnvironment,
    files: Callable[[], Files],
    session: str,
    masks_with: Callable[[Mapping[str, str]], Masks] = Masks,
) -> ProbeSpawn:
    """Make the function by which the prober runs a probe. Its call ids begin with `session`. `masks_with`
    makes the masks over the secrets of the root and of the probed entry."""

    async def spawn(entry: SidecarEntry, tool: str, mode: ProbeMode, timeout_ms: int) -> ProbeAnswer:
        probe_id = f"{session}-probe-{secrets.token_hex(6)}"
        try:
            job = await anyio.to_thread.run_sync(_job, environment, files(), entry, tool, probe_id)
            if job is None:
                return ProbeAnswer(ok=False, program_changed=True)
            outcome = await probe_sidecar(confined(*job), mode, timeout_ms)
            outcome = await settled(environment.places, job, outcome)
            if outcome.unconfined:
                detection.expire()  # the finding makes a new catalog, for which the levels are tried again
        except OSError as error:  # which SealBrokenError is, too
            if error.errno in NONE_LEFT:
                raise  # says nothing about this program, whose package must not be rolled back for it
            return ProbeAnswer(ok=False, code=Code.SPAWN, error=str(error), crashed=True)
        return _answer(outcome, masks_with(declared_secrets(entry.permissions, environment.secret_values)[0]))

    return spawn


def _job(
    environment: RootEnvironment, files: Files, entry: SidecarEntry, tool: str, probe_id: str
) -> tuple[Confining | None, ProcessJsonJob] | None:
    """Make the job of a probe, with how it is confined; None where its program changed since a person
    accepted it. Raises SealBrokenError."""
    sealed = seal_programs(environment, files.registry, entry, sandbox_support())
    if isinstance(sealed, Sealed) and sealed.changed:
        return None
    return program_job(environment, files, entry, tool, probe_id)


def program_job(
    environment: RootEnvironment,
    files: Files,
    entry: SidecarEntry,
    tool: str,
    probe_id: str,
    permissions: Permissions | None = None,
) -> tuple[Confining | None, ProcessJsonJob]:
    """Make the job that starts the entry's program as a call does, with how it is confined: with the entry's
    permissions, or those given. Raises SealBrokenError."""
    # The probe may have waited, and the program of a changed entry is not the one that was trusted.
    current, program = files.registry.entry(entry.id), files.programs.get(entry.id)
    if current is None or current.digest != entry.digest or program is None:
        raise SealBrokenError(None, "the entry changed while its probe was waiting", entry.id)
    found = {name: item for name, item in files.delegates.get(entry.id, {}).items() if item.argv}
    support = sandbox_support()
    level = _level(environment, files, support, entry, program)
    started = {
        name: StartedProgram(
            *seal_and_materialise(environment, environment.conditions(files.registry, entry, level), item)
        )
        for name, item in ((COMMAND, program), *found.items())
    }
    runs = started[COMMAND].program
    delegates: JsonObject = {name: {"argv": list(started[name].program.argv)} for name in found}
    granted = entry.effective_permissions if permissions is None else permissions
    values, _ = declared_secrets(granted, environment.secret_values)
    job = ProcessJsonJob(
        argv=runs.argv,
        env=child_environment(entry, runs, environ=environment.environ, secrets=values, call_id=probe_id),
        cwd=environment.working_folder(files.registry, entry),
        call_id=probe_id,
        tool=tool,
        input={"probe": True},
        config=entry.config,
        sidecar=entry.id,
        delegates=delegates,
        project_dir=str(environment.places.app_root),
        limits=entry.limits,
    )
    if level not in CONFINING:
        return None, job
    return _confining(environment, level, support, granted, tuple(started.values())), job


def _confining(
    environment: RootEnvironment,
    level: Level,
    support: SandboxSupport,
    permissions: Permissions,
    programs: tuple[StartedProgram, ...],
) -> Confining:
    places, home = environment.places, environment.environ.get("HOME", "")
    try:
        protected = protected_files(places, home, level, permissions, {"probe": True})
    except NotPermitted as error:
        raise SealBrokenError(None, str(error), error.path) from error
    return Confining(
        level=level,
        support=support,
        permissions=permissions,
        programs=programs,
        store=places.store_dir,
        app_root=str(places.app_root),
        home=home,
        protected=protected,
    )


async def settled(
    places: RootPaths, job: tuple[Confining | None, ProcessJsonJob], outcome: RunOutcome
) -> RunOutcome:
    """Return the outcome of a job that belongs to no call, or a failure if it wrote what is protected."""
    confining, run = job
    writes = ProtectedWrites(NOTHING_PROTECTED if confining is None else confining.protected)
    await writes.settle(places, run.call_id)
    return writes.judged(outcome)


def _level(
    environment: RootEnvironment,
    files: Files,
    support: SandboxSupport,
    entry: SidecarEntry,
    program: ResolvedProgram,
) -> Level:
    """The level of the probe, which is that of a call. Raises SealBrokenError where it is below what each of
    the tools needs."""
    bundled = environment.bundled(program)
    level, least = (
        sandbox_level(entry, support, bundled=bundled),
        minimum_level(entry, bundled=bundled),
    )
    minimum = files.settings.sandbox_minimum
    if not any(level.at_least(minimum.get(tool, least)) for tool in entry.tool_names or (entry.id,)):
        raise SealBrokenError(None, f"its level here is only {level}", entry.id)
    return level


def seal_and_materialise(
    environment: RootEnvironment, conditions: StartConditions, program: ResolvedProgram
) -> tuple[ResolvedProgram, Seal]:
    """Return the program as it is started under these conditions, and its seal. Raises SealBrokenError."""
    try:
        seal = seal_program(program, conditions)
    except OSError as error:
        raise SealBrokenError(error.errno, error.strerror or "cannot be read", error.filename) from error
    store = environment.places.store_dir
    own_path = seen_at_own_path(conditions.level)
    return materialise(program, seal, store, conditions, at_own_path=own_path), seal


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
