"""From the first frame to the last: the console is drawn at once, and its kernel opened beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio

from flycore.client.coming import ComingClient, NoApprover
from flycore.client.ledger import Ledger
from flycore.client.protocol import Approver, Client
from flycore.client.unwrap import unwrapped
from flytui.console.app import FlytuiApp
from flytui.console.desk import Desk
from flytui.console.doctor.terminal import TerminalFacts
from flytui.console.fix.bench import Workbench
from flytui.console.own import Own
from flytui.console.title import kept_title

Opening = Callable[[Callable[[str], None]], AbstractAsyncContextManager[tuple[Client, Approver]]]
"""Opens the kernel; tells meanwhile whom it waits for."""
Seat = Callable[[], tuple[tuple[int, ...], tuple[int, ...]]]
"""Looks for the console's own windows and processes, which no desktop tool may touch."""


def _no_seat() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (), ()


async def run_console(
    opening: Opening,
    title: str,
    *,
    seat: Seat = _no_seat,
    ledger: Ledger | None = None,
    own: Own | None = None,
    demo: Callable[[], Awaitable[None]] | None = None,
    bench: Workbench | None = None,
    terminal: Callable[[tuple[int, int]], TerminalFacts] | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> None:
    """Draw the console, sit down at its kernel when that is open, and stand up whatever happens.

    What the opening raises ends the console and is raised here, once the terminal is as it was. `title`
    names the app root in the header. `ledger` is the log that the Audit screen shows, `demo` plays the demo
    on this terminal to its end, `bench` is what things are mended with, `terminal` looks at what this
    terminal can do, `own` is what the person set for the console.
    """
    coming = ComingClient()
    desk = Desk(
        client=coming,
        approver=NoApprover(),
        title=title,
        clock=clock,
        now=now,
        ledger=ledger,
        demo=demo,
        bench=bench,
        terminal=terminal,
        own=own or Own(),
    )
    app, over = FlytuiApp(desk), anyio.Event()
    with unwrapped():
        async with anyio.create_task_group() as group:
            group.start_soon(_sit, app, coming, opening, seat, over)
            with kept_title(sys.__stderr__):
                await app.run_async()
            over.set()
            if desk.client is coming:
                group.cancel_scope.cancel()


async def _sit(app: FlytuiApp, coming: ComingClient, opening: Opening, seat: Seat, over: anyio.Event) -> None:
    """Be at the kernel from when it is open until the console is over. The first frame waits for nothing
    of this; keys that were pressed before have met nothing that could be approved."""
    await app.drawn.wait()
    async with opening(app.awaits) as (client, approver):
        approver.attach(*await anyio.to_thread.run_sync(seat))
        try:
            app.desk.client, app.desk.approver = client, approver
            app.awaits("")
            coming.arrived(client)
            await over.wait()
        finally:
            approver.detach()
