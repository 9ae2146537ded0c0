"""The start of a sidecar at its sandbox level: from an entry's permissions to a command that confines it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec

from flycore.catalog.reasons import below_minimum, sandbox_unavailable
from flycore.model.enums import Level, Status
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.pipeline.call import Rejection
from flycore.pipeline.context import RootState
from flycore.registry.paths import RootPaths
from flycore.runners.child.confined_start import ConfinedStart
from flycore.runners.child.spawn import SpawnError, SpawnFailure, SpawnSpec, not_confined
from flycore.runners.one_shot import ProcessJsonJob
from flycore.sandbox.call_confinement import (
    CallFolders,
    NotPermitted,
    PathLimit,
    ProgramFiles,
    confinement_of,
)
from flycore.sandbox.confinement import DEFAULT_TMP_BYTES, SystemLayout, read_system_layout
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.launch import ArchitectureUnknown, Launch, NulInLaunch, degraded_launch, enforced_launch
from flycore.sandbox.levels import minimum_level
from flycore.sandbox.protected_files import (
    NOTHING_PROTECTED,
    ProtectedFiles,
    find_protected,
    with_protected,
)
from flycore.sandbox.runtime_roots import RuntimeUnknown, runtime_roots
from flycore.sandbox.seals import held_copies
from flysafe.beneath import OutsideAnchor


def below_minimum_level(
    root_state: RootState, tool: str, entry: SidecarEntry, level: Level, *, bundled: bool
) -> Rejection | None:
    """Why the tool must not run at that level; None where it may."""
    # The catalog says so as well, but it may be a moment older than the call.
    least = root_state.files.settings.sandbox_minimum.get(tool)
    if least is None:
        least = minimum_level(entry, bundled=bundled)
    if level.at_least(least):
        return None
    why = sandbox_unavailable(entry, below_minimum(tool, least, level), root_state.support.remedy(least))
    return Rejection(status=Status.UNAVAILABLE, code=why.code, message=why.message, hint=why.remedy)


class StartedProgram(msgspec.Struct, frozen=True):
    """A program that the call may start: as it is materialised, and its seal."""

    program: ResolvedProgram
    seal: Seal


class Confining(msgspec.Struct, frozen=True, kw_only=True):
    """How calls of one entry are confined."""

    level: Level
    """One of those that confine."""
    support: SandboxSupport
    permissions: Permissions
    limits: Sequence[PathLimit] = ()
    """For a tool that an agent made: what it may be permitted at most."""
    programs: Sequence[StartedProgram]
    store: Path
    """The content store, in which the copies of sealed programs lie."""
    app_root: str
    home: str = ""
    observed: bool = False
    """Whether an observer notes what the program asks for and was not granted."""
    protected: ProtectedFiles
    """What the program may not write, whatever it may write around it."""
    copied: bool = False
    """Whether the program sees copies of protected files: something replaced one as the program was started,
    and bubblewrap cannot mount a file that is gone."""


def protected_files(
    places: RootPaths,
    home: str,
    level: Level,
    permissions: Permissions,
    input: JsonObject,
    limits: Sequence[PathLimit] = (),
    *,
    compared: bool = False,
) -> ProtectedFiles:
    """What is protected in the folders that the permissions let a program write. `compared` is that of
    `ProtectedFiles`. Reads whole folders, so it is not for the event loop. Raises NotPermitted."""
    if not permissions.write:
        return NOTHING_PROTECTED
    root = str(places.app_root)
    folders = CallFolders(app_root=root, cwd=root, home=home)
    declared = confinement_of(permissions, input, folders, (), limits)
    own = tuple(map(str, places.own_folders))
    return find_protected(declared, root, own, held=level is Level.ENFORCED, compared=compared)


def seen_at_own_path(level: Level) -> bool:
    """Whether programs at that level see their sealed copies at their own paths."""
    return level is Level.ENFORCED


def confined(confining: Confining | None, job: ProcessJsonJob) -> ProcessJsonJob:
    """The job as it runs at that level in a process of its own. Without a confinement it stays as it is."""
    if confining is None:
        return job
    artifacts = os.path.realpath(job.artifact_dir) if job.artifact_dir else ""
    start, again = start_confined(confining, job.input, artifacts), None
    if confining.protected.files and confining.level is Level.ENFORCED:
        copied = msgspec.structs.replace(confining, copied=True)
        again = start_confined(copied, job.input, artifacts)
    return replace(job, confine=start, confine_again=again)


def confined_for_slot(confining: Confining | None, job: ProcessJsonJob) -> ProcessJsonJob:
    """The job as it runs at that level in a process that serves several calls.

    What the process may reach follows from the entry alone. It may write where the files of all its calls
    lie, so that the folder of each one is there for it.
    """
    if confining is None:
        return job
    artifacts = os.path.realpath(os.path.dirname(job.artifact_dir)) if job.artifact_dir else ""
    return replace(job, confine=start_confined(confining, {}, artifacts))


def start_confined(
    confining: Confining, input: JsonObject, artifacts: str
) -> Callable[[SpawnSpec], ConfinedStart]:
    """What makes the confined start of a program. `input` is that of the one call that it serves, empty for a
    program that serves several, and `artifacts` the folder for the files that it makes.

    The start raises SpawnError where the program cannot be confined as it is declared.
    """

    def start(spec: SpawnSpec) -> ConfinedStart:
        try:
            return _launch(confining, spec, input, artifacts)
        except NotPermitted as error:
            raise SpawnError(SpawnFailure(f"{error}", error.hint, path=error.path)) from error
        except RuntimeUnknown as error:
            raise SpawnError(not_confined(f"{error}")) from error
        except ArchitectureUnknown as error:
            raise SpawnError(not_confined(f"there is no filter of system calls for {error}")) from error
        except NulInLaunch as error:
            raise SpawnError(SpawnFailure(f"{error}", "check command, args and env of the entry")) from error
        except OSError as error:
            raise SpawnError(_unreachable(error)) from error

    return start


def _launch(confining: Confining, spec: SpawnSpec, input: JsonObject, artifacts: str) -> Launch:
    own_path = seen_at_own_path(confining.level)
    programs = [program_files(item, confining.store, at_own_path=own_path) for item in confining.programs]
    # Landlock gives no program a /tmp of its own.
    tmp = os.path.realpath(tempfile.mkdtemp(prefix="flytui-")) if confining.level is Level.DEGRADED else ""
    observed = confining.observed
    try:
        folders = CallFolders(
            app_root=confining.app_root,
            cwd=os.path.realpath(spec.cwd),
            artifacts=artifacts,
            tmp=tmp,
            home=confining.home,
        )
        confinement = confinement_of(confining.permissions, input, folders, programs, confining.limits)
        confinement = msgspec.structs.replace(
            with_protected(confinement, confining.protected, copied=confining.copied),
            # Two of them, which take no more together than the program may.
            tmp_bytes=min(DEFAULT_TMP_BYTES, spec.limits.most_memory // 2),
        )
        if not tmp:
            by_descriptor = confining.support.bind_by_descriptor
            return enforced_launch(
                confinement,
                _layout(),
                spec.env,
                spec.argv,
                bubblewrap_program=confining.support.bubblewrap_program,
                bind_by_descriptor=by_descriptor,
                observed=observed,
            )
        env = {**spec.env, "TMPDIR": tmp}
        launch = degraded_launch(confinement, _layout(), env, spec.argv, observed=observed)
        return replace(launch, private_folder=tmp)
    except BaseException:
        if tmp:
            os.rmdir(tmp)
        raise


def program_files(started: StartedProgram, store: Path, *, at_own_path: bool) -> ProgramFiles:
    """What the program reads as it runs. `store` is the content store, and `at_own_path` says whether its
    sealed copies are seen at their own paths. Raises RuntimeUnknown."""
    copies = held_copies(started.seal, store)
    roots = runtime_roots(started.program)
    parts = tuple(part.path for part in started.seal.parts)
    if at_own_path:
        return ProgramFiles(roots=roots, parts=parts, copies=copies)
    # Without namespaces a program runs where its copy lies.
    return ProgramFiles(roots=(*roots, *(copy for _, copy in copies)), parts=parts)


def _unreachable(error: OSError) -> SpawnFailure:
    """The failure for a path that cannot be granted."""
    path = str(error.filename or "a path that the entry declares")
    if isinstance(error, OutsideAnchor):
        why = f"{path} leads out of the project by a link, or out of the folder in which it has to stay"
        return SpawnFailure(why, "declare the folder that it leads to in permissions.fs", path=path)
    return SpawnFailure(
        f"{path} cannot be granted to the tool: {error.strerror or error}",
        "make it, or correct permissions.fs of the entry",
        path=path,
    )


@lru_cache(maxsize=1)
def _layout() -> SystemLayout:
    return read_system_layout()
