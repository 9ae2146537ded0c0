"""`flytui audit`: reads, checks and exports the log of calls, questions, decisions and starts."""

from __future__ import annotations

import json

import click

from flycore.client.audit_log import (
    Format,
    as_text,
    exported_lines,
    exported_values,
    find_lines,
    last_lines,
    verify_log,
)
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.commands.metrics import span_of
from flytui.cli.documents import AuditDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, print_readable_json

DEFAULT_LINES = 20
MOST_LINES = 10_000


@click.group(cls=SummaryGroup)
@common
def audit(invocation: Invocation) -> int:
    """Read and check the log of this root."""
    return 0


@audit.command("tail")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(1, MOST_LINES), default=DEFAULT_LINES, show_default=True
)
@common
def tail_command(invocation: Invocation, count: int) -> int:
    """Print the last lines of the log, oldest first."""
    return _print(invocation, last_lines(invocation.places(), count))


@audit.command("show")
@click.argument("requested_id", metavar="NUMBER|CALL")
@common
def show(invocation: Invocation, requested_id: str) -> int:
    """Print one line by its number, or all lines of a call by its id, as JSON."""
    number = (
        int(requested_id)
        if requested_id.isascii() and requested_id.isdecimal() and len(requested_id) < 19
        else None
    )
    lines = find_lines(invocation.places(), requested_id if number is None else number)
    if invocation.as_json:
        _print(invocation, lines)
    else:
        for line in lines:
            print_readable_json(line)
    if lines:
        return 0
    print_error(f"the log has no line or call {requested_id}: flytui audit tail shows the last ones")
    return EXIT_UNKNOWN


@audit.command("verify")
@common
def verify_command(invocation: Invocation) -> int:
    """Check that no line was changed or removed.

    Exit 0 if the log is whole, 1 if a line is broken, 3 if only the last line is incomplete, 4 if the
    anchors (copies of line numbers and hashes, kept apart from the log) know of lines that are missing.
    """
    places = invocation.places()
    found = verify_log(places)
    problem = _anchor_problem(places)
    if invocation.as_json:
        print_json(AuditDocument(verification=found, anchor_problem=problem))
        return found.exit_code
    print_line(f"{found.message} ({found.lines} lines)")
    if found.exit_code:
        print_line(f"first at {found.file}:{found.line}, number {found.seq}")
    if problem:
        print_line(f"anchors: {problem}")
    return found.exit_code


def _anchor_problem(places: RootPaths) -> str:
    """Returns why the running kernel could not write its last anchor, or an empty text."""

    async def question(client: Client) -> str:
        return (await client.status()).anchor_problem

    try:
        return ask_running_kernel(places, question) or ""
    # The check itself reads the files and needs no kernel, so a kernel that does not answer must not fail it.
    except (FlyError, OSError):
        return ""


@audit.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "csv", "text")),
    default="jsonl",
    show_default=True,
    help="The lines unchanged, a table for spreadsheets, or one readable line each.",
)
@click.option(
    "--since",
    metavar="TIME",
    default="",
    help="The earliest time: 2026-06-01, 2026-06-01T12:00, or 7d for seven days ago.",
)
@click.option("--until", metavar="TIME", default="", help="The time at which to stop.")
@common
def export_command(invocation: Invocation, form: str, since: str, until: str) -> int:
    """Print the log, oldest line first, however long it is."""
    places, span = invocation.places(), span_of(since, until)
    if not invocation.as_json:
        for line in exported_lines(places, Format(form), span):
            click.echo(line)
        return 0
    if form != Format.JSONL:
        raise click.UsageError(f"--json prints one JSON document, --format {form} does not: choose one")
    click.echo('{"schema": "flytui.audit/1", "lines": [', nl=False)
    between = "\n"
    for found in exported_values(places, span):
        click.echo(f"{between}{json.dumps(found)}", nl=False)
        between = ",\n"
    click.echo('\n], "verification": null}')
    return 0


def _print(invocation: Invocation, lines: tuple[JsonObject, ...]) -> int:
    if invocation.as_json:
        print_json(AuditDocument(lines=lines))
        return 0
    for line in lines:
        print_line(as_text(line))
    if not lines:
        print_error("the log has no line yet")
    return 0
