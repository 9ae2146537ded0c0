"""`flytui status`: prints whether a kernel runs on this root, and what it does."""

from __future__ import annotations

import sys

import click

from flycore.client.client import kernel_socket
from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flycore.model.status import Status
from flycore.rpc.methods import Client
from flytui.cli.documents import StatusDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_running_kernel
from flytui.cli.output import print_json, print_line
from flytui.cli.serve_log import latest_line
from flytui.cli.status_text import status_lines

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
    places = invocation.places()
    kernel = ask_running_kernel(places, _question)
    if kernel is not None:
        document = StatusDocument(
            running=True,
            app_root=str(places.app_root),
            socket=str(kernel_socket(places)),
            kernel=kernel,
            waiting_trust=kernel.waiting_trust,
            panic=kernel.panic,
        )
    else:
        # Most of the kernel, for which `flytui --help` would wait.
        from flycore.client.unanswering_kernel import living_holder, read_panic

        holder = living_holder(places)
        document = StatusDocument(
            running=False,
            app_root=str(places.app_root),
            socket=str(places.socket),
            kernel=None,
            waiting_trust=None,
            panic=read_panic(places.state_dir) is not None,
            held_by=holder.pid if holder is not None else None,
        )
    if invocation.as_json:
        print_json(document)
    else:
        print_line("\n".join(status_lines(document)))
        # A code is shown to a person only, never to a file or a pipe.
        served = kernel is not None and kernel.role == "headless" and not kernel.on_demand
        if served and sys.stdout.isatty() and (line := latest_line(places)):
            print_line(f"log      {line}")
    return 0


def _for_tmux(invocation: Invocation) -> int:
    """Prints one line and returns 0 also after an error, because a status bar would show the error for
    good."""
    try:
        kernel = ask_running_kernel(invocation.places(), _question)
    except (FlyError, OSError):
        kernel = None
    click.echo("" if kernel is None else tmux_line(kernel))
    return 0


async def _question(client: Client) -> Status:
    return await client.status()


def tmux_line(kernel: Status) -> str:
    """Returns a short ASCII line such as `shop: 2 waiting, high`, with tmux's own marks for colours."""
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
