"""Starts the program under check, once for each thing that is tried, with folders that go afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flycore.conformance.program import environment_of, resolve_arguments
from flycore.model.diagnostics import Check, CheckState
from flycore.model.json import JsonObject
from flycore.model.program import ResolvedProgram
from flycore.runners.artifacts import check_artifacts
from flycore.runners.child.process_tree import CALL_ID_VARIABLE
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, outcome_of, request_line
from flycore.runners.output import EventFeed, read_answer

MOST_OUTPUT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTarget:
    """What is checked, and with which call."""

    program: ResolvedProgram
    tool: str
    input: JsonObject
    persistent: bool
    cwd: str
    project_dir: str
    environ: Mapping[str, str] = field(repr=False)
    patience_ms: int = 30_000
    """How long an answer may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """What came of one start."""

    outcome: RunOutcome
    ended: ChildExit
    junk: tuple[str, ...]
    """What on stdout was neither event nor answer."""
    dropped: tuple[str, ...]
    """What was wrong with the files that were listed."""


class SidecarHarness:
    """Makes jobs of the trial and runs them. `folder` is for the files the program makes."""

    def __init__(self, trial: CheckTarget, folder: Path) -> None:
        self.trial = trial
        self._folder = folder
        self._token = secrets.token_hex(6)
        self._count = 0

    def job(self, **changes: Any) -> ProcessJsonJob:
        """The call of the trial, with fields of the job changed."""
        trial = self.trial
        self._count += 1
        call_id = f"check-{self._token}-{self._count}"
        artifacts = self._folder / call_id
        artifacts.mkdir()
        job = ProcessJsonJob(
            argv=trial.program.argv,
            env=environment_of(trial.program, trial.environ, call_id),
            cwd=trial.cwd,
            call_id=call_id,
            tool=trial.tool,
            input=trial.input,
            project_dir=trial.project_dir,
            artifact_dir=str(artifacts),
            timeout_ms=trial.patience_ms,
            max_output_bytes=MOST_OUTPUT,
        )
        return replace(job, **changes)

    def in_other_folder(self) -> ProcessJsonJob:
        """The same call in a folder nobody knows, with the least of an environment."""
        job = self.job()
        kept = ("PATH", "FLYTUI_TOOL_MODE", CALL_ID_VARIABLE)
        folder = self._folder / "elsewhere"
        folder.mkdir()
        return replace(
            job,
            argv=resolve_arguments(job.argv, self.trial.cwd),
            cwd=str(folder),
            env={name: job.env[name] for name in kept},
        )

    async def run(self, job: ProcessJsonJob, stdin: bytes | None = None) -> ProgramRun:
        """Run one job to its end; `stdin` in place of its request."""
        feed = EventFeed(None)
        limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
        request = request_line(job) if stdin is None else stdin
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
    """It keeps the contract."""
    return Check(name=name, state=CheckState.OK, message=message)


def warned(name: str, message: str, fix: str) -> Check:
    """It works, and could be better; or it could not be seen."""
    return Check(name=name, state=CheckState.WARN, message=message, fix=fix)


def failed(name: str, message: str, fix: str) -> Check:
    """It breaks the contract."""
    return Check(name=name, state=CheckState.FAIL, message=message, fix=fix)
