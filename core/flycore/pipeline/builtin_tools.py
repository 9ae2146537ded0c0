"""The kernel's own tools in the pipeline: what they start, how it is held, and how it is run.

The tools for files run inside the kernel, which opens every path below the project's descriptor. Those that
need another program start it as a child, confined like a sidecar. Policy, approval, quota and audit make no
difference between these tools and others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

import anyio.to_thread

from flycore.catalog.builtin_tools import BUILTIN, FILES_FAMILY, GIT, RUNNING, builtin_entry
from flycore.model.approval import Preview
from flycore.model.catalog import CapabilityView
from flycore.model.enums import Code, Level, PathState
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry
from flycore.pipeline.call import Rejection, failed, no_descriptors
from flycore.pipeline.context import RootEnvironment, RootState
from flycore.runners.workspace.planned_changes import (
    CHANGING,
    SEARCH_TOOL,
    diff_of,
    plan_changes,
    protected_change,
)
from flycore.runners.workspace.project_files import (
    FOLDER,
    PathRefused,
    Project,
    anchor_of,
    failure_text,
    opened,
    project_of,
)
from flycore.runners.workspace.run import LOOK_AGAIN
from flycore.runners.workspace.text_changes import ChangeDoesNotFit
from flycore.sandbox.command_seals import OWN_PROGRAM, command_path, find_command, own_seal, seal_command
from flycore.sandbox.levels import sandbox_level
from flysafe.beneath import open_beneath
from flysafe.protected_paths import GIT_FOLDER

RIPGREP = "rg"
SHELLS = (("bash", "--noprofile", "--norc"), ("sh",))
"""The shells of shell.run, the first one that is there, each without its start-up files."""
STATE_INSIDE = (
    "flytui keeps its own state in this project folder, and a program would have all of the folder",
    "work in a folder below it: flytui --root FOLDER",
)


def entry_of(root_state: RootState, view: CapabilityView) -> SidecarEntry | None:
    """Return what stands for the registry entry of a tool of the kernel; None for any other tool."""
    if view.source != BUILTIN:
        return None
    tool = view.capability.name
    return builtin_entry(tool, network=root_state.files.settings.sandbox_network.get(tool, False))


# Step 4: what is started, and its seal.


def find_builtin_program(
    root: RootEnvironment, root_state: RootState, entry: SidecarEntry, tool: str, input: JsonObject
) -> tuple[ResolvedProgram, Seal] | Rejection:
    """Return the program that the call starts, with its seal; what stands for them where the kernel carries
    the call out itself. Reads files, so it is not for the event loop."""
    own = partial(own_seal, tool, entry.digest)
    project = project_of(root.places)
    if tool == SEARCH_TOOL:
        found = _ripgrep(root, root_state, entry, project)
        return (OWN_PROGRAM, own(found)) if isinstance(found, str) else found
    if tool.startswith(f"{FILES_FAMILY}."):
        return OWN_PROGRAM, own()
    path, fixed = command_path(root.environ), tool not in RUNNING
    if tool in RUNNING:
        if project.closed:
            return failed(Code.FAILED, *STATE_INSIDE)
        cwd = _folder(project, str(input.get("cwd", ".")))
        if isinstance(cwd, Rejection):
            return cwd
        program = _program_of(tool, input, cwd, path)
    else:
        if why := _git_fault(project):
            return failed(Code.FAILED, why, "the project folder has to be that of the repository")
        program = find_command((GIT,), str(project.root), path)
    return _sealed(program, sandbox_level(entry, root_state.support, bundled=False), fixed=fixed)


def _sealed(
    program: ResolvedProgram, level: Level, *, fixed: bool
) -> tuple[ResolvedProgram, Seal] | Rejection:
    if program.state is not PathState.RESOLVED:
        return failed(Code.SPAWN, program.message, program.remedy)
    try:
        return program, seal_command(program, level, fixed=fixed)
    except OSError as error:
        if (rejection := no_descriptors(error)) is not None:
            return rejection
        message = f"the program cannot be read: {error.strerror or error}"
        return failed(Code.SPAWN, message, "give flytui the right to read it, or name another program")


def _program_of(tool: str, input: JsonObject, cwd: str, path: str) -> ResolvedProgram:
    if tool == "process.run":
        words = input["argv"]
        return find_command(tuple(map(str, words)) if isinstance(words, list) else ("",), cwd, path)
    for shell in SHELLS:
        found = find_command((*shell, "-c", str(input["command"])), cwd, path)
        if found.state is PathState.RESOLVED:
            break
    return found


def _folder(project: Project, given: str) -> str | Rejection:
    """Return the absolute path of the folder to start in."""
    try:
        with opened(project, given, FOLDER) as (_, real):
            return os.path.normpath(f"{project.root}/{real}")
    except PathRefused as error:
        return failed(Code.INVALID_INPUT, str(error), error.hint)
    except OSError as error:
        return failed(Code.INVALID_INPUT, failure_text(error, given), "name a folder of the project")


def _git_fault(project: Project) -> str:
    """Return why git cannot work here; empty where it can."""
    with anchor_of(project) as anchor:
        try:
            os.close(open_beneath(anchor, GIT_FOLDER, FOLDER))
        except FileNotFoundError:
            return "the project folder is not the folder of a git repository"
        except NotADirectoryError:
            return "the project folder is a worktree or a submodule, whose git folder lies elsewhere"
        except OSError as error:
            return failure_text(error, GIT_FOLDER)
    return ""


def _ripgrep(
    root: RootEnvironment, root_state: RootState, entry: SidecarEntry, project: Project
) -> tuple[ResolvedProgram, Seal] | str:
    """Return ripgrep, or why flytui searches itself."""
    # Nobody is asked about a search that reads: so only a ripgrep counts that nothing of this user could have
    # replaced, in a sandbox that holds it.
    program = find_command((RIPGREP,), str(project.root), command_path(root.environ))
    if program.state is not PathState.RESOLVED:
        return "ripgrep is not installed"
    if sandbox_level(entry, root_state.support, bundled=False) is not Level.ENFORCED:
        return "ripgrep cannot be confined here"
    if project.closed:
        return "flytui keeps its own state in this project folder"
    try:
        seal = seal_command(program, Level.ENFORCED, fixed=True)
    except OSError:
        return "ripgrep cannot be read"
    return "your own programs can change ripgrep" if seal.partial else (program, seal)


def builtin_environment(tool: str, environ: Mapping[str, str], made: dict[str, str]) -> dict[str, str]:
    """Return the environment of the child: `made`, for programs of the caller's choice with the kernel's own
    search path behind it."""
    if tool not in RUNNING:
        return made
    folders = (*made["PATH"].split(os.pathsep), *command_path(environ).split(os.pathsep))
    return {**made, "PATH": os.pathsep.join(dict.fromkeys(folders))}


# Step 4: the files that a call changes, as they are now.


async def why_each_time(root: RootEnvironment, tool: str, input: JsonObject) -> str:
    """Why a person is asked about each such call, whatever was allowed before; empty if that is not so."""
    if tool not in CHANGING:
        return ""
    return await anyio.to_thread.run_sync(protected_change, project_of(root.places), tool, input)


async def read_changes(
    root: RootEnvironment, tool: str, input: JsonObject
) -> tuple[Preview, tuple[str, ...]] | Rejection:
    """Return the files that a call would change, and the difference, for the card and for the digest of what
    is approved. A change that does not fit ends the call: nobody is asked about it."""
    return await anyio.to_thread.run_sync(_read_changes, root, tool, input)


def _read_changes(
    root: RootEnvironment, tool: str, input: JsonObject
) -> tuple[Preview, tuple[str, ...]] | Rejection:
    project = project_of(root.places)
    try:
        changes = plan_changes(project, tool, input)
    except PathRefused as error:
        return failed(Code.INVALID_INPUT, str(error), error.hint)
    except ChangeDoesNotFit as error:
        return failed(Code.FAILED, str(error), LOOK_AGAIN)
    digests = {f"{project.root}/{change.path}": change.digest for change in changes}
    first = next(iter(digests))
    more = {path: found for path, found in digests.items() if path != first}
    return Preview(file=first, file_digest=digests[first], more_files=more), diff_of(changes)


def approved_files(project: Project, preview: Preview | None) -> dict[str, str] | None:
    """Return the digests of the files that were approved, by path in the project; None where nobody looked
    at them."""
    if preview is None or not preview.file:
        return None
    root = f"{project.root}/"
    digests = {preview.file: preview.file_digest, **preview.more_files}
    return {path.removeprefix(root): found for path, found in digests.items()}
