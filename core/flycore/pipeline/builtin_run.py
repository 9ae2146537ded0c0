"""Step 13 for the kernel's own tools: in the kernel itself, or as a child process that is confined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio.to_thread

from flycore.catalog.builtin_tools import RUNNING
from flycore.model.call import CallRequest
from flycore.model.enums import SealKind
from flycore.model.json import JsonObject
from flycore.pipeline.builtin_tools import approved_files
from flycore.pipeline.confine import Confining, StartedProgram, confined
from flycore.pipeline.context import RunContext
from flycore.pipeline.prepare import Prepared
from flycore.runners.child.run import RunLimits, run_child
from flycore.runners.command import (
    command_outcome,
    filter_names,
    git_outcome,
    ripgrep_outcome,
    run_command,
)
from flycore.runners.git_commands import GIT_TOOLS, filter_query, git_argv, git_environment
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.workspace.project_files import PathRefused, failure_text
from flycore.runners.workspace.run import refused
from flycore.runners.workspace.search_files import query_of, ripgrep_argv, searched_place
from flycore.sandbox.command_seals import changed_command
from flycore.sandbox.levels import CONFINING
from flycore.sandbox.protected_files import ProtectedFiles

_FILTER_BYTES = 256 * 1024


async def run_builtin(
    run: RunContext,
    request: CallRequest,
    prepared: Prepared,
    artifacts: str,
    protected: ProtectedFiles,
    start: Callable[[], None],
) -> RunOutcome:
    """Run one call; every end is an outcome. `start` writes the start line and may raise, so that nothing
    has run. `artifacts` is the folder for the files that the call makes, and `protected` is what a program
    may not write."""
    tool, given = request.tool, prepared.input
    if runs_inside(prepared):
        start()
        approved = approved_files(run.workspace.project, prepared.preview)
        return await run.workspace.call(
            tool, given, request.call_id, approved=approved, why=prepared.seal.note
        )
    job = _job(run, request, prepared, artifacts, protected)
    if tool in GIT_TOOLS:
        start()
        return await _run_git(job, given)
    if tool in RUNNING:
        start()
        return await run_command(job, command_outcome(job))
    folder = str(given.get("path", "."))
    try:
        place, name = await anyio.to_thread.run_sync(searched_place, run.workspace.project, folder)
    except PathRefused as error:
        return refused(str(error), error.hint)
    except OSError as error:
        return refused(failure_text(error, folder), "workspace.list shows what is there")
    start()
    argv = ripgrep_argv(job.argv[0], query_of(given), name)
    job = replace(job, argv=argv, cwd=f"{run.workspace.project.root}/{place}")
    return await run_command(job, ripgrep_outcome(place, *_page(given)), whole=False)


def runs_inside(prepared: Prepared) -> bool:
    """Whether the kernel carries the call out itself and starts no program."""
    return prepared.target.builtin and prepared.seal.kind is SealKind.BUNDLED


def _page(input: JsonObject) -> tuple[int, int]:
    offset, limit = input.get("offset", 0), input.get("limit", 1_000)
    return (offset if isinstance(offset, int) else 0), (limit if isinstance(limit, int) else 1_000)


def _job(
    run: RunContext, request: CallRequest, prepared: Prepared, artifacts: str, protected: ProtectedFiles
) -> ProcessJsonJob:
    """Return the program to start, confined as it was shown."""
    entry, seconds = prepared.target.entry, prepared.input.get("timeoutSeconds")
    limits = [entry.timeout_ms]
    limits += [seconds * 1000] if isinstance(seconds, int) else []
    # A caller can only shorten the time limit.
    limits += [request.timeout_ms] if request.timeout_ms is not None else []
    root = str(run.workspace.project.root)
    cwd = str(prepared.input.get("cwd", ".")) if request.tool in RUNNING else "."
    job = ProcessJsonJob(
        argv=prepared.sealed.program.argv,
        env=prepared.environment,
        cwd=cwd if cwd.startswith("/") else f"{root}/{cwd}",
        call_id=request.call_id,
        tool=request.tool,
        input=prepared.input,
        sidecar=entry.id,
        project_dir=root,
        artifact_dir=artifacts,
        timeout_ms=max(1, min(limits)),
        max_output_bytes=entry.max_output_bytes,
        limits=entry.limits,
        check=partial(
            changed_command, prepared.sealed.program, prepared.seal, fixed=request.tool not in RUNNING
        ),
    )
    return confined(_confining(run, prepared, protected), job)


def _confining(run: RunContext, prepared: Prepared, protected: ProtectedFiles) -> Confining | None:
    if prepared.sandbox.level not in CONFINING:
        return None
    return Confining(
        level=prepared.sandbox.level,
        support=run.state.latest.support,
        permissions=prepared.target.entry.permissions,
        programs=[StartedProgram(prepared.sealed.program, prepared.seal)],
        store=run.root.places.store_dir,
        app_root=str(run.root.places.app_root),
        home=run.root.environ.get("HOME", ""),
        protected=protected,
    )


async def _run_git(job: ProcessJsonJob, input: JsonObject) -> RunOutcome:
    """Ask git for the repository's filters, which are programs, and run the call without them."""
    program = job.argv[0]
    asking = replace(job, argv=filter_query(program), env=git_environment(job.env))
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=_FILTER_BYTES)
    named = filter_names(await run_child(asking.spawn_spec, b"", limits))
    if named is None:
        # Its failure says why git does not work here; the call itself is not run with filters that may be on.
        return await run_command(asking, git_outcome(0, 1))
    job = replace(job, argv=git_argv(program, job.tool, input), env=git_environment(job.env, named))
    return await run_command(job, git_outcome(*_page(input)))
