"""`flytui mcp`: the catalog as MCP tools, over standard input and output."""

from __future__ import annotations

import click

from flytui.cli.interrupts import Interrupted, run_async
from flytui.cli.invocation import Invocation, common


@click.command()
@click.option(
    "--wait-approver",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="Where a person has to be asked and no console is open, wait so long for one to open.",
)
@click.option(
    "--print-config",
    "client_name",
    type=click.Choice(["claude-code", "codex", "cursor"]),
    help="Print what belongs in that client's settings, and where.",
)
@common
def mcp(invocation: Invocation, wait_approver: float, client_name: str | None) -> int:
    """Serve the tools of this root to an MCP client on standard input and output.

    An agent's program starts it; it ends when that program closes its standard input. Calls go to the
    kernel that runs, and where none does to one of its own. What needs a person waits for a console
    (flytui), opened beside the agent.
    """
    places = invocation.places()
    if client_name is not None:
        from flytui.cli.client_configs import print_config

        return print_config(places, client_name)

    async def serve() -> bool:
        from flycore.client.connect import connect
        from flycore.server.mcp.images import image_reader
        from flycore.server.mcp.stdio import serve_stdio

        async with connect(places, wait_approver=wait_approver) as client:
            await serve_stdio(client, image_reader(places))
        return True

    try:
        run_async(serve)
    except Interrupted as stop:
        return stop.exit_code
    return 0
