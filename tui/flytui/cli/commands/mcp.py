"""`flytui mcp`: serves the catalog as MCP tools over standard input and output."""

from __future__ import annotations

import click

from flycore.client.client import connect
from flycore.offline.connect import CLIENT_NAMES
from flytui.cli.caller_watch import end_with_caller, is_caller_gone
from flytui.cli.client_configs import print_config
from flytui.cli.early_mcp import early_answers
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.root_notice import check_root


@click.command()
@click.option(
    "--wait-approver",
    type=click.FloatRange(min=0, max=86_400),
    default=0.0,
    metavar="SECONDS",
    help="If a person has to be asked and no console is open, wait this long for one.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0, max=86_400),
    metavar="SECONDS",
    help="Let calls wait this long for you, then give the client a ticket.  [default: what fits the client]",
)
@click.option(
    "--print-config",
    "client_name",
    type=click.Choice(CLIENT_NAMES),
    help="Print what belongs in the settings of this client, and in which file.",
)
@common
def mcp(
    invocation: Invocation, wait_approver: float, wait_seconds: float | None, client_name: str | None
) -> int:
    """Serve the tools of this root to an MCP client over stdio.

    An agent's program starts this command, and it ends when that program closes its standard input.
    Calls go to the kernel that runs on the root; if none runs, the command starts one. A call that needs
    a person waits in a console, which you open with flytui beside the agent.
    """
    places = invocation.places()
    if client_name is not None:
        return print_config(places, client_name)

    async def serve() -> bool:
        # The kernel's server, which only this command runs.
        from flycore.server.mcp.media import media_reader
        from flycore.server.mcp.person_wait import PersonWait
        from flycore.server.mcp.stdio import serve_stdio

        await check_root(invocation, places)
        async with connect(places, wait_approver=wait_approver) as client:
            wait = PersonWait(places.config_dir, wait_seconds)
            reader = media_reader(places)
            await serve_stdio(client, reader, wait, places.mcp_tools_file, early_answers())
        return True

    end_with_caller()
    try:
        run_async(serve)
    except SignalInterrupt as stop:
        return 0 if is_caller_gone() else stop.exit_code
    return 0
