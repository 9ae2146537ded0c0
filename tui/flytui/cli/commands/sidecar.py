"""`flytui sidecar`: helps to write a sidecar. `check` tests a program against the contract."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flycore.conformance.program import find_program
from flycore.model.diagnostics import Check, CheckState
from flycore.model.json import StrictJsonError, read_strict
from flytui.cli.command_group import SummaryGroup
from flytui.cli.commands.doctor import check_lines
from flytui.cli.documents import SidecarCheckDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line

if TYPE_CHECKING:
    from flycore.conformance.harness import CheckTarget

EXIT_BROKEN = 1
PASSED_ON = {"ignore_unknown_options": True}
"""An option that flytui does not know is passed to the program."""


@click.group(cls=SummaryGroup)
@common
def sidecar(invocation: Invocation) -> int:
    """Test a sidecar that you write against the contract."""
    return 0


@sidecar.command("check", context_settings=PASSED_ON)
@click.argument("command")
@click.argument("arguments", metavar="[ARGS…]", nargs=-1, type=click.UNPROCESSED)
@click.option("--tool", default="", help="The tool to call; without it the first that --schema names.")
@click.option(
    "--input", "input_text", default="{}", metavar="JSON", help="An input that works and may be acted on."
)
@click.option(
    "--persistent", is_flag=True, help="Also check that it can stay and answer one request after another."
)
@common
def check(
    invocation: Invocation,
    command: str,
    arguments: tuple[str, ...],
    tool: str,
    input_text: str,
    persistent: bool,
) -> int:
    """Run COMMAND as the kernel would, and check the contract.

    The program is called about twenty times, as your user and without a sandbox, and you are not asked:
    give an input that may be acted on. All words after -- go to the program, also those that look like
    options of flytui. Exit 1 if the program breaks the contract.
    """
    # Starts sidecars as the kernel does, with most of asyncio, for which `flytui --help` would wait.
    from flycore.conformance.check import check_contract

    target = _check_target(invocation, (command, *arguments), tool, input_text, persistent)
    print_error(
        f"runs {command} as your user, without a sandbox (level none) and without asking you; the tool acts"
    )

    def print_check(found: Check) -> None:
        if not invocation.as_json:
            print_line("\n".join(check_lines(found)))

    async def run_checks() -> tuple[Check, ...]:
        checks = []
        async for found in check_contract(target):
            checks.append(found)
            print_check(found)
        return tuple(checks)

    checks = run_async(run_checks)
    failed = sum(found.state is CheckState.FAIL for found in checks)
    if invocation.as_json:
        print_json(SidecarCheckDocument(command=(command, *arguments), level="none", checks=checks))
    else:
        warned = sum(found.state is CheckState.WARN for found in checks)
        print_line(f"{len(checks)} checks: {failed} failed, {warned} to look at")
    return EXIT_BROKEN if failed else 0


def _check_target(
    invocation: Invocation, command: tuple[str, ...], tool: str, input_text: str, persistent: bool
) -> CheckTarget:
    """Returns what is to be checked. Raises UsageError for a missing program or an invalid input."""
    # Starts sidecars as the kernel does, with most of asyncio, for which `flytui --help` would wait.
    from flycore.conformance.harness import CheckTarget

    try:
        value = read_strict(os.fsencode(input_text))
    except StrictJsonError as reason:
        raise click.UsageError(f"--input {reason}") from None
    if not isinstance(value, dict):
        raise click.UsageError("--input is not a JSON object")
    cwd = str(Path.cwd())
    program = find_program(
        command[0],
        command[1:],
        cwd=cwd,
        interpreter_dir=Path(sys.executable).parent,
        path_env=os.environ.get("PATH", ""),
    )
    if program is None:
        raise click.UsageError(f"there is no program {command[0]}: name a path, or a command on PATH")
    return CheckTarget(
        program=program,
        tool=tool,
        input=value,
        persistent=persistent,
        cwd=cwd,
        project_dir=str(invocation.places().app_root),
        environ=dict(os.environ),
    )
