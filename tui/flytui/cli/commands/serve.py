"""`flytui serve`: runs the kernel of a root without a console. Consoles and agents connect to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TextIO

import anyio
import click

from flycore.model.events import PAIRING, Event, EventClass
from flycore.registry.paths import RootPaths
from flysafe.text import safe_text
from flytui.cli.documents import ServeDocument
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation, common
from flytui.cli.listeners import open_listeners
from flytui.cli.output import print_error, print_json, print_line
from flytui.text.kernels import clock_time, holder_text

if TYPE_CHECKING:
    from flycore.kernel.kernel import Kernel

HALVES = 4
"""Characters in each half of a code, which is shown with a dash in the middle."""


@click.command()
@click.option(
    "--tcp", is_flag=True, help="Listen for WebSocket clients on 127.0.0.1:8787 or the next free port."
)
@click.option("--http", is_flag=True, help="Listen for MCP clients on 127.0.0.1:8788 or the next free port.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="Use this port, or the next free one; with both options HTTP begins one above. 0 takes any.",
)
@common
def serve(invocation: Invocation, tcp: bool, http: bool, port: int | None) -> int:
    """Run the kernel of this root until ctrl-c or TERM.

    `flytui` attaches a console to it. That console asks for a code, which is shown here if this is a
    terminal. Over TCP and HTTP, clients need a token: flytui token new.
    """
    if port is not None and not (tcp or http):
        raise click.UsageError("--port needs --tcp or --http")
    places, ports = invocation.places(), _ports(tcp, http, port)
    waits: list[int] = []

    def on_wait(pid: int, since: float, role: str, calls: str) -> None:
        if pid not in waits:
            waits.append(pid)
            print_error(f"waits until the root is free: {holder_text(pid, since, role, calls)}")

    async def run() -> None:
        # The kernel, which only this command runs.
        from flycore.client.serve import open_served_kernel

        async with (
            open_served_kernel(places, on_wait=on_wait) as kernel,
            open_listeners(kernel, places, tcp=ports[0], http=ports[1]) as addresses,
        ):
            _print_addresses(invocation, places, addresses)
            if waiting := len(kernel.pending_trust()):
                print_error(_pending_trust_text(waiting))
            terminal = own_terminal()
            if terminal is None:
                await anyio.sleep_forever()
            else:
                await show_codes(kernel, partial(click.echo, file=terminal))

    run_async(run)
    return 0


def _ports(tcp: bool, http: bool, port: int | None) -> tuple[int | None, int | None]:
    """Returns the first ports to try for TCP and HTTP; None for one that is not served."""
    # The kernel's server, which only this command runs.
    from flycore.server.http import HTTP_PORT
    from flycore.server.tcp import TCP_PORT

    first, second = TCP_PORT, HTTP_PORT
    if port is not None:
        first, second = port, min(port + 1, 65_535) if tcp and port else port
    return first if tcp else None, second if http else None


def _print_addresses(invocation: Invocation, places: RootPaths, addresses: tuple[str, ...]) -> None:
    if invocation.as_json:
        root, socket = str(places.app_root), str(places.socket)
        print_json(ServeDocument(app_root=root, pid=os.getpid(), socket=socket, listening=addresses))
    else:
        print_line(f"root    {places.app_root}")
        print_line(f"pid     {os.getpid()}")
        print_line(f"socket  {places.socket}")
        for address in addresses:
            print_line(f"listens {address}")
    # A program that started `serve` reads these lines from a pipe, which Python would only write at the end.
    sys.stdout.flush()


def _pending_trust_text(count: int) -> str:
    waits = "1 entry waits for trust and does" if count == 1 else f"{count} entries wait for trust and do"
    return f"{waits} not run: open flytui in another terminal, and press T there"


def own_terminal() -> TextIO | None:
    """Returns the stream of this process that is a terminal, or None. A code must never be written to a
    file."""
    if not sys.stdin.isatty():
        return None
    return next((stream for stream in (sys.stderr, sys.stdout) if stream.isatty()), None)


async def show_codes(kernel: Kernel, show: Callable[[str], None]) -> None:
    """Shows the codes of consoles that ask to decide, and which consoles attached and left. `show` must write
    to a place that only this user can read. Runs until it is cancelled."""
    with (
        kernel.pairing.on_terminal(),
        kernel.bus.subscribe(frozenset((EventClass.APPROVAL,)), person=lambda: True) as events,
    ):
        async for event in events:
            if line := console_line(event):
                show(line)


def console_line(event: Event) -> str:
    """Returns the line about a console that asks, attaches or leaves; an empty text for other events."""
    payload = event.payload
    who = safe_text(str(payload.get("who", "")))
    if event.type == PAIRING:
        code, until = str(payload["code"]), payload["expiresAt"]
        halves = f"{code[:HALVES]}-{code[HALVES:]}"
        clock = clock_time(until)[-8:] if isinstance(until, float) else ""
        return f"a console asks to decide here ({who}). If it is yours, type there: {halves} (until {clock})"
    if event.type == "console.attached":
        return f"a console has come in: {who}"
    if event.type == "console.refused":
        return f"a console was refused: {who}"
    if event.type == "console.left":
        return f"a console has left: {who}"
    return ""
