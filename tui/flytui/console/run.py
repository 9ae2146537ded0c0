"""Runs the console from its first frame to its last, and opens the kernel in parallel."""

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
    """Draw the console at once, connect it to its kernel when that is open, and disconnect it at the end.

    Raises what `open_kernel` raises, after the terminal has been restored. Where another process holds the
    root, `open_attachment` attaches the console to its kernel. `title` is the app root's name in the header.
    `audit_reader` reads the log for the Audit view. `play_demo` runs the demo on this terminal, to its end.
    `terminal_programs` are the programs for fixes, `find_terminal` finds out what this terminal can do, and
    `settings` are the person's own settings for the console. `clock` gives seconds that never go back, `now`
    Unix seconds.
    """
    deferred = DeferredClient()
    state = ConsoleState(
        client=deferred,
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
        app.connection, deferred, open_kernel, find_own_windows, open_attachment
    )
    with single_exception():
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run_until, over)
            with restored_title(sys.__stderr__):
                await app.run_async()
            # The controller disconnects first and then returns. Where it still waits for the root to be free,
            # there is nothing to disconnect from, and waiting for it would keep the console open.
            over.set()
            if state.client is deferred:
                group.cancel_scope.cancel()
