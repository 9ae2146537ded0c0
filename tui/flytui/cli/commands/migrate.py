"""`flytui migrate`: carries over what another system left, after a person has seen the difference."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flycore.offline.migrate import SYSTEM_NAMES, MigrationPlan, apply_migration, plan_migration
from flycore.registry.paths import RootPaths, find_paths
from flytui.cli.documents import MigrateDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import (
    ask_yes_no,
    can_ask,
    count_of,
    print_difference,
    print_error,
    print_json,
    print_line,
    print_strict,
)

EXIT_NOT_ASKED = 4
EXIT_REFUSED = 5
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("path", type=FOLDER, required=False)
@click.option("--from", "systems", type=click.Choice(SYSTEM_NAMES), multiple=True, help="Only this system.")
@click.option("--apply", is_flag=True, help="Write the difference without asking.")
@common
def migrate(invocation: Invocation, path: Path | None, systems: tuple[str, ...], apply: bool) -> int:
    """Carry over what Flyflor, YBS, Gibson, Glee or MCP clients left in the root, or in the folder PATH.

    Prints a line for each thing and the difference of each file, and asks before it writes. It starts
    nothing, trusts nothing, copies no secrets, and leaves the files of the other system as they are.
    """
    places = _places(invocation, path)
    plan = plan_migration(places, os.environ, systems or SYSTEM_NAMES)
    if not invocation.as_json:
        _print_plan(plan)
    if not plan.files:
        message = "nothing to write" if plan.lines else "no file of another system was found"
        return _print_outcome(invocation, places, plan, "nothing", message, 0)
    if not apply:
        if invocation.as_json or not can_ask():
            message = "nothing was written: run flytui migrate on a terminal, or add --apply"
            return _print_outcome(invocation, places, plan, "shown", message, EXIT_NOT_ASKED)
        if not ask_yes_no(f"Write {count_of(len(plan.files), 'file')}?"):
            return _print_outcome(invocation, places, plan, "shown", "nothing was written", EXIT_NOT_ASKED)
    result = apply_migration(places, plan)
    if result.why_not:
        return _print_outcome(
            invocation, places, plan, "refused", result.why_not, EXIT_REFUSED, result.written
        )
    message = "flytui trust shows what this would run, and lets you trust it"
    return _print_outcome(invocation, places, plan, "written", message, 0, result.written)


def _places(invocation: Invocation, path: Path | None) -> RootPaths:
    if path is None:
        return invocation.places()
    if invocation.root is not None:
        raise click.UsageError("PATH and --root both name the folder: leave one out")
    return find_paths(str(path), invocation.workspace, os.environ, Path.cwd())


def _print_plan(plan: MigrationPlan) -> None:
    """Print the lines of the plan, then the differences, with invisible characters as tokens."""
    for line in plan.lines:
        parts = [line.verdict.value, f"{line.system}:", line.subject]
        if line.target:
            parts.append(f"→ {line.target}")
        print_strict(f"{' '.join(parts)}  ({line.source})")
        if line.text:
            print_strict(f"    {line.text}")
    for file in plan.files:
        print_difference(file.difference)
    if plan.files:
        print_line()


def _print_outcome(
    invocation: Invocation,
    places: RootPaths,
    plan: MigrationPlan,
    outcome: str,
    message: str,
    code: int,
    written: tuple[str, ...] = (),
) -> int:
    if invocation.as_json:
        print_json(
            MigrateDocument(
                app_root=str(places.app_root),
                lines=plan.lines,
                files=plan.files,
                written=written,
                outcome=outcome,
                message=message,
            )
        )
        return code
    for file in written:
        print_line(f"{file} is written")
    (print_error if code else print_line)(message)
    return code
