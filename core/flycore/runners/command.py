"""Programs that the kernel's own tools start: git, ripgrep, and what a call of process.run or shell.run
names. Each is one child process, started, bounded and ended like that of a sidecar."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flycore.model.call import Artifact
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.one_shot import (
    ProcessJsonJob,
    RunOutcome,
    cut_short,
    outcome_from_answer,
    unconfined_end,
)
from flycore.runners.workspace.search_files import result_page, ripgrep_lines

PAGE_BYTES = 48 * 1024
"""Most bytes of text in one result; agents get results of at most 64 KiB."""
_BEGINNING = 16 * 1024
_END = PAGE_BYTES - _BEGINNING
WHOLE_OUTPUT = "stdout.txt"
"""The artifact with the whole output, where the result has only a part."""

Read = Callable[[ChildExit], RunOutcome]
"""Makes the outcome of a program that ended by itself."""


async def run_command(job: ProcessJsonJob, read: Read, *, whole: bool = True) -> RunOutcome:
    """Run the program to its end, without input. Every end is an outcome.

    `read` makes that of a program that ended by itself. Without `whole` a program that writes more than its
    limit is read as well.
    """
    limits = RunLimits(timeout_ms=job.timeout_ms, max_output_bytes=job.max_output_bytes)
    ended = await run_child(job.spawn_spec, b"", limits)
    stderr = ended.stderr_tail.decode("utf-8", "replace")
    early = cut_short(job, ended, stderr)
    if early is not None and early.code == Code.OUTPUT_LIMIT and not whole:
        early = None
    if early is not None:
        outcome = outcome_from_answer(
            job,
            early,
            exit_code=ended.exit_code,
            stderr_tail=stderr,
            duration_ms=ended.duration_ms,
            survivors=ended.survivors,
        )
        details = {**outcome.details, **_printed(ended)}
        return replace(outcome, details=details, unconfined=unconfined_end(ended, stderr), notes=ended.notes)
    outcome = read(ended)
    outcome = replace(
        outcome,
        exit_code=ended.exit_code,
        stderr_tail=stderr,
        duration_ms=ended.duration_ms,
        notes=ended.notes,
    )
    return outcome.with_survivors(ended.survivors)


def _printed(ended: ChildExit) -> JsonObject:
    """What a program that was ended had written, as a detail of its failure."""
    text, _ = _shortened(ended.stdout)
    return {"stdout": text} if text else {}


def command_outcome(job: ProcessJsonJob) -> Read:
    """Return the function that reads the end of a program of the caller's choice: any exit is a result."""

    def read(ended: ChildExit) -> RunOutcome:
        text, cut = _shortened(ended.stdout)
        stderr, _ = _shortened(ended.stderr_tail)
        output: JsonObject = {
            "exitCode": ended.exit_code if ended.exit_code is not None else -1,
            "stdout": text,
            "stderr": stderr,
            "cut": cut,
        }
        artifacts = _kept_output(job.artifact_dir, ended.stdout) if cut else ()
        if artifacts:
            listed: list[Json] = [
                {"path": one.path, "mimeType": one.mime_type, "bytes": one.bytes} for one in artifacts
            ]
            output["artifacts"] = listed
        return RunOutcome(status=Status.SUCCESS, output=output, artifacts=artifacts)

    return read


def _shortened(data: bytes) -> tuple[str, bool]:
    """Return the text, or its beginning and end, and whether something is left out."""
    if len(data) <= PAGE_BYTES:
        return data.decode("utf-8", "replace"), False
    left = len(data) - _BEGINNING - _END
    head = data[:_BEGINNING].decode("utf-8", "replace")
    tail = data[-_END:].decode("utf-8", "replace")
    return f"{head}\n… {left:,} bytes are left out here …\n{tail}", True


def _kept_output(folder: str, data: bytes) -> tuple[Artifact, ...]:
    """Write the whole output to the folder of the call's files. Nothing where that cannot be done."""
    path = Path(folder) / WHOLE_OUTPUT
    try:
        # The program may have made a file or a link of that name in its own folder.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        return ()
    return (Artifact(path=str(path), mime_type="text/plain", bytes=len(data)),)


def git_outcome(offset: int, limit: int) -> Read:
    """Return the function that reads the end of git: a page of the lines that it printed."""

    def read(ended: ChildExit) -> RunOutcome:
        if ended.exit_code != 0:
            said = ended.stderr_tail.decode("utf-8", "replace").strip().splitlines()
            message = said[-1] if said else f"git ended with exit code {ended.exit_code}"
            return RunOutcome(
                status=Status.FAILED,
                code=Code.EXIT,
                message=message[:1_000],
                hint="git.log and git.status show what there is",
                details={"exitCode": ended.exit_code},
            )
        return RunOutcome(status=Status.SUCCESS, output=_line_page(ended.stdout, offset, limit))

    return read


def _line_page(data: bytes, offset: int, limit: int) -> JsonObject:
    lines = data.splitlines(keepends=True)
    page: list[bytes] = []
    size = 0
    for line in lines[offset : offset + limit]:
        if page and size + len(line) > PAGE_BYTES:
            break
        page.append(line[:PAGE_BYTES])
        size += len(line)
    found: JsonObject = {"text": b"".join(page).decode("utf-8", "replace"), "lines": len(lines)}
    if page and offset + len(page) < len(lines):
        found["nextOffset"] = offset + len(page)
    return found


NOTHING_FOUND = 1
"""The exit code of ripgrep where no line fits."""


def ripgrep_outcome(folder: str, offset: int, limit: int) -> Read:
    """Return the function that reads the end of ripgrep, which searched in that folder of the project."""

    def read(ended: ChildExit) -> RunOutcome:
        # With 2 it ends where a file could not be read, also after lines that fit.
        failed = ended.exit_code not in (0, NOTHING_FOUND) and not ended.output_limited
        if failed and b'"type":"match"' not in ended.stdout:
            said = ended.stderr_tail.decode("utf-8", "replace").strip()
            return RunOutcome(
                status=Status.FAILED,
                code=Code.FAILED,
                message=(said or f"ripgrep ended with exit code {ended.exit_code}")[:1_000],
                hint="correct the pattern, or search without regex",
            )
        incomplete = "too many lines fit: search for less, or in a folder further down"
        lines = ripgrep_lines(ended.stdout, folder)
        output = result_page(
            "ripgrep", "", lines, offset, limit, lambda: incomplete if ended.output_limited else ""
        )
        return RunOutcome(status=Status.SUCCESS, output=output)

    return read


def filter_names(ended: ChildExit) -> tuple[str, ...] | None:
    """Return the settings of filters that git named; None where that is not known. Exit code 1 means that
    there are none."""
    if ended.exit_code == NOTHING_FOUND and not ended.stdout:
        return ()
    if ended.exit_code != 0 or ended.output_limited or ended.timed_out:
        return None
    return tuple(name.decode("utf-8", "surrogateescape") for name in ended.stdout.split(b"\0") if name)
