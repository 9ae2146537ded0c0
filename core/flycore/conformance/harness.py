"""The harness that starts the program under check, once for each check, with temporary folders."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from flycore.conformance.program import environment_of, resolve_arguments
from flycore.model.diagnostics import Check, CheckState
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram
from flycore.model.session import CALL_ID_VARIABLE
from flycore.runners.artifacts import check_artifacts
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, outcome_of, request_line
from flycore.runners.output import EventFeed, read_answer

MOST_OUTPUT = 64 * 1024 * 1024
"""Bytes of output that are read: far above a sidecar's usual limit, so that the check can report the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTarget:
    """The program under check and the call it is checked with."""

    program: ResolvedProgram
    tool: str
    input: JsonObject
    persistent: bool
    cwd: str
    project_dir: str
    environ: Mapping[str, str] = field(repr=False)
    patience_ms: int = 30_000
    """Milliseconds that an answer may take."""


class ProgramRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one start of the program."""

    outcome: RunOutcome
    ended: ChildExit
    junk: tuple[str, ...]
    """Descriptions of stdout content that is neither event nor answer."""
    dropped: tuple[str, ...]
    """Descriptions of the listed artifacts that are not valid."""


class SidecarHarness:
    """A maker and runner of jobs for one target. The program's artifacts go to `folder`."""

    def __init__(self, target: CheckTarget, folder: Path) -> None:
        self.target = target
        self._folder = folder
        self._token = secrets.token_hex(6)
        self._count = 0

    def job(self, **changes: Any) -> ProcessJsonJob:
        """Make the target's call as a job, with `changes` to the job's fields."""
        target = self.target
        self._count += 1
        call_id = f"check-{self._token}-{self._count}"
        artifacts = self._folder / call_id
        artifacts.mkdir()
        job = ProcessJsonJob(
            argv=target.program.argv,
            env=environment_of(target.program, target.environ, call_id),
            cwd=target.cwd,
            call_id=call_id,
            tool=target.tool,
            input=target.input,
            project_dir=target.project_dir,
            artifact_dir=str(artifacts),
            timeout_ms=target.patience_ms,
            max_output_bytes=MOST_OUTPUT,
        )
        return replace(job, **changes)

    def in_other_folder(self) -> ProcessJsonJob:
        """Make the same call in an unrelated folder, with a minimal environment."""
        job = self.job()
        variables = ("PATH", "FLYTUI_TOOL_MODE", CALL_ID_VARIABLE)
        folder = self._folder / "elsewhere"
        folder.mkdir()
        return replace(
            job,
            argv=resolve_arguments(job.argv, self.target.cwd),
            cwd=str(folder),
            env={name: job.env[name] for name in variables},
        )

    async def run(self, job: ProcessJsonJob, stdin: bytes | None = None) -> ProgramRun:
        """Run one job to its end; `stdin`, if given, replaces the request."""
        feed = EventFeed(None)
        limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
        request = request_line(job) if stdin is None else stdin
        # The same runner as in a call, so that its limits and its clean-up of children are checked as well.
        ended = await run_child(job.spawn_spec, request, limits, feed.take)
        feed.finish()
        rest = ended.stdout[feed.length :]
        meaning = read_answer(rest, ended.exit_code or 0, "")
        listed = meaning.output.get("artifacts")
        return ProgramRun(
            outcome=outcome_of(job, ended, rest),
            ended=ended,
            junk=meaning.warnings,
            dropped=check_artifacts(listed, job.artifact_dir, job.project_dir)[1],
        )


def passed(name: str, message: str) -> Check:
    """Make a check result: the program keeps the contract."""
    return Check(name=name, state=CheckState.OK, message=message)


def warned(name: str, message: str, fix: str) -> Check:
    """Make a check result: the program works but could do better, or the check could not see enough."""
    return Check(name=name, state=CheckState.WARN, message=message, fix=fix)


def failed(name: str, message: str, fix: str) -> Check:
    """Make a check result: the program breaks the contract."""
    return Check(name=name, state=CheckState.FAIL, message=message, fix=fix)
