"""`flytui audit`: the log of what was called, asked, decided, started and done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import query_kernel
from flytui.cli.output import EXIT_UNKNOWN, print_error, print_json, print_line, print_readable_json

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.json import JsonObject
    from flycore.registry.paths import RootPaths

DEFAULT_LINES = 20
MOST_LINES = 10_000


@click.group()
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
    """The last lines, oldest first."""
    from flycore.offline.audit_log import last_lines

    return _print(invocation, last_lines(invocation.places(), count))


@audit.command("show")
@click.argument("wanted", metavar="NUMBER|CALL")
@common
def show(invocation: Invocation, wanted: str) -> int:
    """One line by its number, or all lines of a call by its id; whole, as JSON."""
    from flycore.offline.audit_log import find_lines

    number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 19 else None
    lines = find_lines(invocation.places(), wanted if number is None else number)
    if invocation.as_json:
        _print(invocation, lines)
    else:
        for line in lines:
            print_readable_json(line)
    if lines:
        return 0
    print_error(f"the log has no line or call {wanted}: flytui audit tail shows the last ones")
    return EXIT_UNKNOWN


@audit.command("verify")
@common
def verify_command(invocation: Invocation) -> int:
    """Check the chain. Exit 0 whole, 1 broken, 3 only the last line torn, 4 cut off against the anchors."""
    from flycore.offline.audit_log import verify_log

    places = invocation.places()
    found = verify_log(places)
    problem = _anchor_problem(places)
    if invocation.as_json:
        from flytui.cli.documents import AuditDocument

        print_json(AuditDocument(verification=found, anchor_problem=problem))
        return found.exit_code
    print_line(f"{found.message} ({found.lines} lines)")
    if found.exit_code:
        print_line(f"first at {found.file}:{found.line}, number {found.seq}")
    if problem:
        print_line(f"anchors: {problem}")
    return found.exit_code


def _anchor_problem(places: RootPaths) -> str:
    """Why the running kernel could not leave the last anchor. The log is checked without a kernel, so one
    that does not answer is no error here."""
    from flycore.model.errors import FlyError

    async def question(client: Client) -> str:
        return (await client.status()).anchor_problem

    try:
        return query_kernel(places, question) or ""
    except (FlyError, OSError):
        return ""


@audit.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "csv", "text")),
    default="jsonl",
    show_default=True,
    help="As it stands, as a table, or one readable line each.",
)
@click.option("--since", metavar="TIME", default="", help="From then on: 2026-06-01, 2026-06-01T12:00, 7d.")
@click.option("--until", metavar="TIME", default="", help="Before then.")
@common
def export_command(invocation: Invocation, form: str, since: str, until: str) -> int:
    """Give out the log, oldest line first. It is read line by line, however long it is."""
    from flycore.offline.audit_log import Format, exported_lines, exported_values
    from flytui.cli.commands.metrics import span_of

    places, span = invocation.places(), span_of(since, until)
    if not invocation.as_json:
        for line in exported_lines(places, Format(form), span):
            click.echo(line)
        return 0
    if form != Format.JSONL:
        raise click.UsageError(f"--json prints one JSON document, --format {form} something else: choose one")
    click.echo('{"schema": "flytui.audit/1", "lines": [', nl=False)
    between = "\n"
    for found in exported_values(places, span):
        click.echo(f"{between}{json.dumps(found)}", nl=False)
        between = ",\n"
    click.echo('\n], "verification": null}')
    return 0


def _print(invocation: Invocation, lines: tuple[JsonObject, ...]) -> int:
    if invocation.as_json:
        from flytui.cli.documents import AuditDocument

        print_json(AuditDocument(lines=lines))
        return 0
    from flycore.offline.audit_log import as_text

    for line in lines:
        print_line(as_text(line))
    if not lines:
        print_error("the log has no line yet")
    return 0
