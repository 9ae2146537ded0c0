"""From the first frame to the last: the console is drawn at once, and its kernel opened beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable

import anyio

from flycore.client.audit_reader import AuditReader
from flycore.model.errors import single_exception
from flycore.rpc.proxies import DeferredClient, UnavailableApprover
from flytui.console.app import FlytuiApp
from flytui.console.attachment import OpenAttachment
from flytui.console.controllers.connection import FindOwnWindows, KernelConnectionController, OpenKernel
from flytui.console.controllers.terminal_title import restored_title
from flytui.console.doctor.terminal_checks import TerminalFacts
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.state import ConsoleState
from flytui.console.user_settings import ConsoleSettings


def _no_own_windows() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (), ()


async def run_console(
    open_kernel: OpenKernel,
    title: str,
    *,
    find_own_windows: FindOwnWindows = _no_own_windows,
    open_attachment: OpenAttachment | None = None,
    audit_reader: AuditReader | None = None,
    settings: ConsoleSettings | None = None,
    play_demo: Callable[[], Awaitable[None]] | None = None,
    terminal_programs: TerminalPrograms | None = None,
    find_terminal: Callable[[tuple[int, int]], TerminalFacts] | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> None:
    """Draw the console, sit down at its kernel when that is open, and stand up whatever happens.

    What the opening raises ends the console and is raised here, once the terminal is as it was; where the
    root is another's, `joining` attaches the console to it. `title`
    names the app root in the header. `ledger` is the log that the Audit screen shows, `demo` plays the demo
    on this terminal to its end, `bench` is what things are mended with, `terminal` looks at what this
    terminal can do, `own` is what the person set for the console.
    """
    coming = DeferredClient()
    state = ConsoleState(
        client=coming,
        approver=UnavailableApprover(),
        title=title,
        clock=clock,
        now=now,
        audit_reader=audit_reader,
        play_demo=play_demo,
        terminal_programs=terminal_programs,
        find_terminal=find_terminal,
        settings=settings or ConsoleSettings(),
    )
    app, over = FlytuiApp(state), anyio.Event()
    controller = KernelConnectionController(
        app.connection, coming, open_kernel, find_own_windows, open_attachment
    )
    with single_exception():
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run_until, over)
            with restored_title(sys.__stderr__):
                await app.run_async()
            over.set()
            if state.client is coming:
                group.cancel_scope.cancel()
