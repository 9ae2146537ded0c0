"""Runs the fixes of `flytui doctor --fix` on this terminal, after the person agreed to each."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial

import click

from flycore.model.diagnostics import Check, CheckState, FixKind
from flycore.registry.paths import RootPaths
from flytui.cli.interrupts import run_async
from flytui.cli.output import print_line, print_strict
from flytui.cli.terminal_programs import find_terminal_programs, run_on_terminal
from flytui.console.fix.terminal_programs import TerminalPrograms


def offer_fixes(places: RootPaths, checks: Sequence[Check]) -> None:
    """Offer the fix of each failed check and run it where the person answers yes."""

    def lend(pid: int) -> None:
        """Do nothing: no console has this terminal."""

    programs = find_terminal_programs(places, os.environ, lend)
    failed = [check for check in checks if check.state is not CheckState.OK]
    offered = [(check, argv) for check in failed if (argv := _fix_command(check, programs))]
    for check, argv in offered:
        print_line(f"\n{check.name}: {check.remedy_fix.words if check.remedy_fix else check.fix}")
        print_strict(f"  $ {shlex.join(argv)}")
        if click.confirm("run it?", default=False):
            print_line(f"exit status {run_async(partial(run_on_terminal, lend, argv, False))}")
    print_line("\nflytui doctor checks again" if offered else "\nno command fixes what was found")


def _fix_command(check: Check, programs: TerminalPrograms) -> tuple[str, ...]:
    """The command that fixes the check; empty where no command does."""
    fix = check.remedy_fix
    if fix is None:
        return ()
    own_commands = {FixKind.TRUST: "trust", FixKind.INIT: "init"}
    if fix.kind in own_commands:
        return (sys.executable, "-m", "flytui", "--root", programs.root, own_commands[fix.kind])
    if fix.kind is FixKind.ENABLE and check.sidecar:
        return (sys.executable, "-m", "flytui", "--root", programs.root, "enable", "--", check.sidecar)
    return programs.argv(fix)
