"""`flytui doctor --fix`: each fix shown, asked for, and then done on this terminal."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from flytui.cli.output import print_line, print_strict

if TYPE_CHECKING:
    from flycore.model.diagnostics import Check
    from flycore.registry.paths import RootPaths
    from flytui.console.fix.terminal_programs import TerminalPrograms


def offer_fixes(places: RootPaths, checks: Sequence[Check]) -> None:
    """Offer the fixes of what is not well one by one; whatever is not a plain yes leaves things be."""
    from flycore.model.diagnostics import CheckState
    from flytui.cli.interrupts import run_async
    from flytui.cli.terminal_programs import find_terminal_programs, run_here

    bench = find_terminal_programs(places, os.environ)
    wanting = [check for check in checks if check.state is not CheckState.OK]
    offered = [(check, argv) for check in wanting if (argv := _fix_command(check, bench))]
    for check, argv in offered:
        print_line(f"\n{check.name}: {check.remedy_fix.words if check.remedy_fix else check.fix}")
        print_strict(f"  $ {shlex.join(argv)}")
        if click.confirm("run it?", default=False):
            print_line(f"exit status {run_async(partial(run_here, argv, False))}")
    print_line("\nflytui doctor looks again" if offered else "\nno command mends what was found")


def _fix_command(check: Check, bench: TerminalPrograms) -> tuple[str, ...]:
    """The program that does it; empty where a person does it elsewhere."""
    from flycore.model.diagnostics import FixKind

    fix = check.remedy_fix
    if fix is None:
        return ()
    ours = {FixKind.TRUST: "trust", FixKind.INIT: "init"}
    if fix.kind in ours:
        return (sys.executable, "-m", "flytui", "--root", bench.root, ours[fix.kind])
    if fix.kind is FixKind.ENABLE and check.sidecar:
        return (sys.executable, "-m", "flytui", "--root", bench.root, "enable", "--", check.sidecar)
    return bench.argv(fix)
