"""`flytui status`: prints whether a kernel runs on this root, and what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import query_kernel
from flytui.cli.output import clock_time, print_json, print_line

if TYPE_CHECKING:
    from flycore.model.status import Status
    from flycore.rpc.methods import Client
    from flytui.cli.documents import StatusDocument


MOST_NAME = 20
"""The most characters of the folder's name in a status bar."""


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "tmux")),
    default="text",
    show_default=True,
    help="tmux: one short line for its status bar, empty if no kernel runs.",
)
@common
def status(invocation: Invocation, form: str) -> int:
    """Show the kernel of this root: its process, and what waits."""
    if form == "tmux":
        if invocation.as_json:
            raise click.UsageError("--json and --format tmux are two formats: choose one")
        return _for_tmux(invocation)
    from flycore.offline.panic import read_panic
    from flycore.offline.root import living_holder
    from flycore.offline.trust import read_pending_trust
    from flytui.cli.documents import StatusDocument

    places = invocation.places()
    kernel = query_kernel(places, _question)
    socket = places.socket
    if kernel is not None:
        from flycore.client.remote import kernel_socket

        socket = kernel_socket(places)
    holder = None if kernel is not None else living_holder(places)
    document = StatusDocument(
        running=kernel is not None,
        app_root=str(places.app_root),
        socket=str(socket),
        kernel=kernel,
        waiting_trust=kernel.waiting_trust if kernel else len(read_pending_trust(places).items),
        panic=kernel.panic if kernel else read_panic(places) is not None,
        held_by=holder.pid if holder is not None else None,
    )
    if invocation.as_json:
        print_json(document)
    else:
        print_line("\n".join(status_lines(document)))
        # A code is shown to a person only, never to a file or a pipe.
        if kernel is not None and kernel.role == "serve" and sys.stdout.isatty():
            from flytui.cli.serve_log import latest_line

            if line := latest_line(places):
                print_line(f"log      {line}")
    return 0


def _for_tmux(invocation: Invocation) -> int:
    """Prints one line and returns 0 also after an error, because a status bar would show the error for
    good."""
    from flycore.model.errors import FlyError

    try:
        kernel = query_kernel(invocation.places(), _question)
    except (FlyError, OSError):
        kernel = None
    click.echo("" if kernel is None else tmux_line(kernel))
    return 0


async def _question(client: Client) -> Status:
    return await client.status()


def tmux_line(kernel: Status) -> str:
    """Returns a short ASCII line such as `shop: 2 waiting, high`, with tmux's own marks for colours."""
    from flycore.model.enums import Risk

    parts: list[str] = []
    if kernel.panic:
        parts.append(_red_text("stopped"))
    if not kernel.policy_ok:
        parts.append(_red_text("policy failed"))
    if kernel.waiting_rules:
        parts.append("#[fg=yellow]policy waits#[default]")
    if kernel.waiting:
        risk = kernel.waiting_risk
        words = f"{kernel.waiting} waiting{f', {risk.value}' if risk is not None else ''}"
        loud = risk is not None and risk.at_least(Risk.HIGH)
        parts.append(_red_text(words) if loud else f"#[fg=yellow]{words}#[default]")
    # tmux reads `#` as the start of a mark or a command, so the one in a folder's name has to be doubled.
    name = kernel.app_root.rstrip("/").rpartition("/")[2][:MOST_NAME]
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in name)
    return f"{plain.replace('#', '##')}: {' '.join(parts) or 'ok'}"


def _red_text(words: str) -> str:
    return f"#[fg=red]{words}#[default]"


def _risk_text(kernel: Status) -> str:
    return f", the highest risk {kernel.waiting_risk.value}" if kernel.waiting_risk is not None else ""


def _waiting_text(kernel: Status) -> str:
    away = f"; {kernel.turned_away} turned away, as the queue was full" if kernel.turned_away else ""
    return f"{kernel.waiting} waiting for approval{_risk_text(kernel)}{away}"


def _policy_text(kernel: Status) -> str:
    if not kernel.policy_ok:
        return "failed to load: flytui doctor says where"
    if kernel.waiting_rules:
        from flytui.text.labels import plural

        changes = plural(kernel.waiting_rules, "looser change")
        verb = "waits" if kernel.waiting_rules == 1 else "wait"
        return f"loaded; {changes} of its file {verb} for you: flytui approvals"
    return "loaded"


def consoles(kernel: Status) -> str:
    """Returns whether a person can decide, and in how many consoles."""
    if not kernel.approver:
        return "nobody can decide"
    return "a person can decide" + (f", in {kernel.consoles} consoles" if kernel.consoles > 1 else "")


def status_lines(document: StatusDocument) -> list[str]:
    """Returns the status as plain lines."""
    lines = [f"root     {document.app_root}"]
    kernel = document.kernel
    if document.held_by is not None:
        lines.append(f"kernel   held by pid {document.held_by}, does not answer: flytui panic ends it")
    elif kernel is None:
        lines.append("kernel   none runs: flytui opens a console here")
    else:
        lines += [
            f"kernel   {kernel.role}, pid {kernel.pid}, since {clock_time(kernel.since)}",
            f"version  flytui {kernel.version}",
            f"console  {consoles(kernel)}",
            f"calls    {kernel.running} running, {_waiting_text(kernel)}",
            f"leases   {kernel.leases}",
            f"agents   {kernel.agents}",
            *(f"listens  {address}" for address in kernel.listening),
            f"policy   {_policy_text(kernel)}",
            f"sandbox  {kernel.sandbox}",
        ]
        if kernel.notify_problem:
            lines.append(f"notify   {kernel.notify_problem}")
        if kernel.hands_on:
            lines.append("hands    a tool controls the mouse or the keyboard")
    if document.panic:
        lines.append("panic    everything is stopped until a person releases it: flytui, then ctrl+o")
    lines.append(f"trust    {document.waiting_trust} waiting")
    lines.append(f"socket   {document.socket}")
    return lines
