"""`flytui sidecar`: for whoever writes one. `check` holds a program against the contract."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line

if TYPE_CHECKING:
    from flycore.conformance.harness import CheckTarget
    from flycore.model.diagnostics import Check

EXIT_BROKEN = 1
PASSED_ON = {"ignore_unknown_options": True}
"""What no option here knows is the program's own."""


@click.group()
@common
def sidecar(invocation: Invocation) -> int:
    """For writing sidecars: hold a program against the contract."""
    return 0


@sidecar.command("check", context_settings=PASSED_ON)
@click.argument("command")
@click.argument("arguments", metavar="[ARGS…]", nargs=-1, type=click.UNPROCESSED)
@click.option("--tool", default="", help="The tool to ask for; else the first that --schema names.")
@click.option("--input", "given", default="{}", metavar="JSON", help="An input that works.")
@click.option("--persistent", is_flag=True, help="Check also that it can stay and answer line after line.")
@common
def check(
    invocation: Invocation, command: str, arguments: tuple[str, ...], tool: str, given: str, persistent: bool
) -> int:
    """Run COMMAND as the kernel would, and report how it keeps the contract. Exit 1 where it breaks it.

    It is called about twenty times, as you and without a sandbox, and nobody is asked: give an input that
    may be acted on. What follows -- goes to the program even where it looks like an option from here.
    """
    from flycore.model.diagnostics import CheckState
    from flytui.cli.commands.doctor import check_lines
    from flytui.cli.documents import SidecarCheckDocument

    trial = _trial(invocation, (command, *arguments), tool, given, persistent)
    print_error(f"runs {command} as you, outside any sandbox (level none), and asks nobody; the tool acts")

    def tell(found: Check) -> None:
        if not invocation.as_json:
            print_line("\n".join(check_lines(found)))

    async def look() -> tuple[Check, ...]:
        from flycore.conformance.check import check_contract

        checks = []
        async for found in check_contract(trial):
            checks.append(found)
            tell(found)
        return tuple(checks)

    checks = run_async(look)
    failed = sum(found.state is CheckState.FAIL for found in checks)
    if invocation.as_json:
        print_json(SidecarCheckDocument(command=(command, *arguments), level="none", checks=checks))
    else:
        warned = sum(found.state is CheckState.WARN for found in checks)
        print_line(f"{len(checks)} checks: {failed} failed, {warned} to look at")
    return EXIT_BROKEN if failed else 0


def _trial(
    invocation: Invocation, command: tuple[str, ...], tool: str, given: str, persistent: bool
) -> CheckTarget:
    """What is to be checked. Raises UsageError for a program there is not, and an input that is none."""
    from flycore.conformance.harness import CheckTarget
    from flycore.conformance.program import find_program
    from flycore.model.json import StrictJsonError, read_strict

    try:
        value = read_strict(os.fsencode(given))
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
