"""`flytui status`: whether a kernel runs on this root, and what it is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import clock_time, emit, say
from flytui.cli.reading import ask_running

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.status import Status
    from flytui.cli.documents import StatusDocument


@click.command()
@common
def status(invocation: Invocation) -> int:
    """Show the kernel of this root: who holds it, what waits, what runs."""
    from flytui.cli.documents import StatusDocument
    from flytui.cli.pending import read_pending

    async def question(client: Client) -> Status:
        return await client.status()

    places = invocation.places()
    kernel = ask_running(places, question)
    document = StatusDocument(
        running=kernel is not None,
        app_root=str(places.app_root),
        socket=str(places.socket),
        kernel=kernel,
        waiting_trust=kernel.waiting_trust if kernel else len(read_pending(places).items),
    )
    if invocation.as_json:
        emit(document)
    else:
        say("\n".join(status_lines(document)))
    return 0


def status_lines(document: StatusDocument) -> list[str]:
    """The status in plain lines."""
    lines = [f"root     {document.app_root}"]
    kernel = document.kernel
    if kernel is None:
        lines.append("kernel   none runs: flytui opens a console here")
    else:
        lines += [
            f"kernel   {kernel.role}, pid {kernel.pid}, since {clock_time(kernel.since)}",
            f"version  flytui {kernel.version}",
            f"console  {'a person can decide' if kernel.approver else 'nobody can decide'}",
            f"calls    {kernel.running} running, {kernel.waiting} waiting for approval",
            f"leases   {kernel.leases}",
            f"clients  {kernel.clients}",
            f"policy   {'loaded' if kernel.policy_ok else 'failed to load: flytui doctor says where'}",
            f"sandbox  {kernel.sandbox}",
        ]
        if kernel.hands_on:
            lines.append("hands    a tool has its hands on the machine")
    lines.append(f"trust    {document.waiting_trust} waiting")
    lines.append(f"socket   {document.socket}")
    return lines
