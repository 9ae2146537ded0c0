"""The trial of one executable on the command line: what it says of itself, and one call."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from flycore.model.enums import Status
from flycore.model.executable import ExecutableTrial
from flycore.model.json import JsonObject
from flytui.cli.documents import ToolTestDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation
from flytui.cli.output import print_error, print_json, print_line, print_readable_json

EXIT_FAILED = 1


def test_executable(invocation: Invocation, path: Path, tool: str, input_text: str) -> int:
    """Ask and, with an input, call the executable; print what came of it, and return the exit code."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.executables import try_executable

    given = _input(input_text)
    try:
        trial = run_async(lambda: try_executable(invocation.places(), dict(os.environ), path, tool, given))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from error
    if invocation.as_json:
        print_json(ToolTestDocument(trial=trial))
    else:
        _show(trial)
    failed = bool(trial.problem) or (trial.call is not None and trial.call.status is not Status.SUCCESS)
    return EXIT_FAILED if failed else 0


def _input(text: str) -> JsonObject | None:
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--input is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError("--input must be a JSON object")
    return value


def _show(trial: ExecutableTrial) -> None:
    if trial.problem:
        print_line(f"schema unknown: asked with --schema, it {trial.problem}")
    for tool in trial.tools:
        answers = f", answers in the form {tool.envelope}" if tool.envelope is not None else ""
        print_line(f"{tool.name}{answers}")
        print_line(f"  {tool.description}")
        print_readable_json(tool.input_schema)
    for refused in trial.refused:
        print_line(f"not offered: {refused.name} {refused.why}")
    if trial.stderr_tail.strip():
        print_error(trial.stderr_tail.rstrip())
    if trial.call is not None:
        print_line(f"call: {trial.call.status} {trial.call.code} {trial.call.message}".rstrip())
        if trial.call.output is not None:
            print_readable_json(trial.call.output)
