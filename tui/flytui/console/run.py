"""Runs the console from its first frame to its last, and connects it to its kernel in parallel."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from flycore.client.audit_reader import AuditReader
from flycore.model.errors import single_exception
from flytui.console.app import FlytuiApp
from flytui.console.console_memory import ConsoleMemory
from flytui.console.controllers.connection import KernelConnectionController
from flytui.console.controllers.terminal_title import restored_title
from flytui.console.doctor.terminal_checks import TerminalFacts
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.kernel_connection import OpenAttachment, OpeningConnection, OpenKernel
from flytui.console.state import ConsoleState
from flytui.console.terminal import restore_terminal
from flytui.console.user_settings import ConsoleSettings


class ConsoleFailed(Exception):
    """The application ended by a defect."""

    def __init__(self, defect: Exception) -> None:
        # Not as its cause: task groups on the way out replace that.
        self.defect = defect
        super().__init__("the console failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleParts:
    """What a console uses beside its kernel."""

    open_attachment: OpenAttachment | None = None
    """Attaches the console to the kernel of another process that holds the root."""
    audit_reader: AuditReader | None = None
    """Reads the log for the Audit view."""
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    """The person's own settings for the console."""
    play_demo: Callable[[], Awaitable[None]] | None = None
    """Runs the demo on this terminal, to its end."""
    terminal_programs: TerminalPrograms | None = None
    """The programs for fixes."""
    find_terminal: Callable[[tuple[int, int]], TerminalFacts] | None = None
    """Finds out what this terminal can do."""
    leave_kernel: Callable[[], None] | None = None
    """Lets the kernel go on as `flytui serve` when the console has left."""
    on_first_values: Callable[[], None] = lambda: None
    """Called once, when the values of a kernel are there for the first time."""
    memory: ConsoleMemory = field(default_factory=ConsoleMemory)
    """What the console remembers between two starts."""
    stop_job: Callable[[], str] | None = None
    """Stops this console as a job of its shell."""
    notice: str = ""
    """A sentence that is shown until the first key."""
    clock: Callable[[], float] = time.monotonic
    """Gives seconds that never go back."""
    now: Callable[[], float] = time.time
    """Gives Unix seconds."""


async def run_console(open_kernel: OpenKernel, title: str, parts: ConsoleParts | None = None) -> None:
    """Draw the console at once, connect it to its kernel when that is open, and disconnect it at the end.

    Raises what `open_kernel` raises, and ConsoleFailed, after the terminal has been restored. `title` is the
    app root's name in the header.
    """
    parts = parts or ConsoleParts()
    state = ConsoleState(
        title=title,
        clock=parts.clock,
        now=parts.now,
        audit_reader=parts.audit_reader,
        play_demo=parts.play_demo,
        terminal_programs=parts.terminal_programs,
        find_terminal=parts.find_terminal,
        settings=parts.settings,
        leave_kernel=parts.leave_kernel,
        memory=parts.memory,
        stop_job=parts.stop_job,
        on_first_values=parts.on_first_values,
        notice=parts.notice,
    )
    app, over = FlytuiApp(state), anyio.Event()
    controller = KernelConnectionController(app.connection, open_kernel, parts.open_attachment)
    with single_exception():
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run_until, over)
            with restored_title(sys.__stderr__):
                try:
                    await app.run_async()
                finally:
                    # A signal also cancels what Textual awaits before the restored terminal is written out.
                    restore_terminal(app)
            if app.defect is not None:
                raise ConsoleFailed(app.defect)
            # The controller disconnects first and then returns. Where it still waits for the root to be free,
            # there is nothing to disconnect from, and waiting for it would keep the console open.
            over.set()
            if isinstance(state.connection, OpeningConnection):
                group.cancel_scope.cancel()
