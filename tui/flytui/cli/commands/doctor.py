"""`flytui doctor`: checks what flytui needs on this root, and prints one line for each check, with the
fix."""

from __future__ import annotations

import os
import sys

import click

from flycore.model.diagnostics import Check, CheckState
from flycore.model.errors import FlyError
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.doctor_fix import offer_fixes
from flytui.cli.documents import DoctorDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel
from flytui.cli.output import print_json, print_line, print_strict
from flytui.cli.terminal import find_terminal, terminal_size
from flytui.console.doctor.terminal_checks import terminal_checks
from flytui.supervisor.console_arguments import at_terminal

EXIT_ERRORS = 5


@click.command()
@click.option(
    "--fix", is_flag=True, help="Offer the fixes one by one; each is shown before you are asked to run it."
)
@common
def doctor(invocation: Invocation, fix: bool) -> int:
    """Check everything that flytui needs.

    Exit 0, or 5 if a check failed.
    """
    if fix and (invocation.as_json or not at_terminal()):
        raise click.UsageError("--fix asks you on a terminal: it needs one, and cannot print JSON")
    places = invocation.places()
    checks = run_checks(places)
    failed = sum(check.state is CheckState.FAIL for check in checks)
    if invocation.as_json:
        print_json(DoctorDocument(app_root=str(places.app_root), checks=checks))
    else:
        for check in checks:
            print_line("\n".join(check_lines(check)))
            for line in check.difference:
                print_strict(f"        {line}")
        warned = sum(check.state is CheckState.WARN for check in checks)
        print_line(f"{len(checks)} checks: {failed} failed, {warned} to look at")
    if fix:
        offer_fixes(places, checks)
    return EXIT_ERRORS if failed else 0


def check_lines(check: Check) -> list[str]:
    """Returns the lines of one check, with the fix below it."""
    first, *rest = check.message.split("\n")
    lines = [f"{check.state.value:<4}  {check.name}: {first}", *(f"        {line}" for line in rest)]
    return [*lines, f"      → {check.fix}"] if check.fix else lines


def run_checks(places: RootPaths) -> tuple[Check, ...]:
    """Returns the checks of the kernel and those of the terminal."""
    try:
        checks = ask_kernel(places, _checks, probes=True)
    except FlyError as error:  # the most important finding: without a kernel nothing else can be checked
        checks = (Check(name="kernel", state=CheckState.FAIL, message=str(error)),)
    facts = find_terminal(terminal_size(), sys.stdout.encoding, os.environ)
    return (*checks, *terminal_checks(facts))


async def _checks(client: Client) -> tuple[Check, ...]:
    return await client.checks()
