"""Runs the console from its first frame to its last, and connects it to its kernel in parallel."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from flycore.model.errors import single_exception
from flycore.model.kept_catalog import KeptCatalog
from flytui.console.app import FlytuiApp
from flytui.console.console_memory import ConsoleMemory
from flytui.console.controllers.connection import KernelConnectionController
from flytui.console.controllers.terminal_title import restored_title
from flytui.console.kernel_connection import OpenAttachment, OpeningConnection, OpenKernel
from flytui.console.state import ConsoleState, SharedState
from flytui.console.terminal import restore_terminal
from flytui.console.user_settings import ConsoleSettings
from flytui.text.root_names import short_names

if TYPE_CHECKING:
    from flycore.client.audit_reader import AuditReader
    from flytui.console.doctor.terminal_checks import TerminalFacts
    from flytui.console.fix.terminal_programs import TerminalPrograms


class ConsoleFailed(Exception):
    """The application ended by a defect."""

    def __init__(self, defect: Exception) -> None:
        # Not as its cause: task groups on the way out replace that.
        self.defect = defect
        super().__init__("the console failed")


class RootParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a console uses for one of its roots."""

    title: str
    """The app root's path, or another name of it for the header."""
    open_kernel: OpenKernel
    """Connects the console to the kernel of the root."""
    open_attachment: OpenAttachment | None = None
    """Attaches the console to the kernel of another process that holds the root."""
    read_kept: Callable[[], KeptCatalog | None] = lambda: None
    """Reads the catalog as it was last, which is shown until the kernel has answered. Its rows are as many as
    the tools, so only the state has them, and only until then."""
    audit_reader: AuditReader | None = None
    """Reads the log for the Audit view."""
    terminal_programs: TerminalPrograms | None = None
    """The programs for fixes."""
    leave_kernel: Callable[[], None] | None = None
    """Lets the kernel go on as `flytui serve` when the console has left."""
    end_calls: Callable[[], None] | None = None
    """Ends the calls of the kernel that the first connection waits for."""


class ConsoleParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a console uses whatever its roots are."""

    settings: ConsoleSettings = msgspec.field(default_factory=ConsoleSettings)
    """The person's own settings for the console."""
    play_demo: Callable[[], Awaitable[None]] | None = None
    """Runs the demo on this terminal, to its end."""
    find_terminal: Callable[[tuple[int, int]], TerminalFacts] | None = None
    """Finds out what this terminal can do."""
    on_first_values: Callable[[], None] = lambda: None
    """Called once, when the values of a kernel are there for the first time."""
    memory: ConsoleMemory = msgspec.field(default_factory=ConsoleMemory)
    """What the console remembers between two starts."""
    stop_job: Callable[[], str] | None = None
    """Stops this console as a job of its shell."""
    notice: str = ""
    """A sentence that is shown until the first key."""
    clock: Callable[[], float] = time.monotonic
    """Gives seconds that never go back."""
    now: Callable[[], float] = time.time
    """Gives Unix seconds."""


async def run_console(roots: Sequence[RootParts], parts: ConsoleParts | None = None) -> None:
    """Draw the console at once, connect it to the kernel of each root when that is open, and disconnect it at
    the end.

    Raises ConsoleFailed, after the terminal has been restored. With one root it raises what `open_kernel`
    raises; with several the console shows that beside the other roots.
    """
    parts = parts or ConsoleParts()
    states = _states(roots, parts)
    app, over = FlytuiApp(states[0]), anyio.Event()
    controllers = [
        KernelConnectionController(connection, root.open_kernel, root.open_attachment)
        for connection, root in zip(app.connections, roots, strict=True)
    ]
    with single_exception():
        async with anyio.create_task_group() as group:
            scopes = [anyio.CancelScope() for _ in controllers]
            for controller, scope in zip(controllers, scopes, strict=True):
                group.start_soon(_run_controller, controller, over, scope, len(roots) > 1)
            with restored_title(sys.__stderr__):
                try:
                    await app.run_async()
                finally:
                    # A signal also cancels what Textual awaits before the restored terminal is written out.
                    restore_terminal(app)
            if app.defect is not None:
                raise ConsoleFailed(app.defect)
            # Each controller disconnects first and then returns. Where one still waits for the root to be
            # free, there is nothing to disconnect from, and waiting for it would keep the console open.
            over.set()
            for state, scope in zip(states, scopes, strict=True):
                if isinstance(state.connection, OpeningConnection):
                    scope.cancel()


async def _run_controller(
    controller: KernelConnectionController, over: anyio.Event, scope: anyio.CancelScope, several: bool
) -> None:
    with scope:
        await (controller.run_beside_others(over) if several else controller.run_until(over))


def _states(roots: Sequence[RootParts], parts: ConsoleParts) -> list[ConsoleState]:
    """The state of each root, with what all of them share."""
    shared = SharedState(notice=parts.notice)
    names = short_names([root.title for root in roots]) if len(roots) > 1 else ("",)
    return [
        ConsoleState(
            title=root.title,
            name=name,
            shared=shared,
            clock=parts.clock,
            now=parts.now,
            kept=root.read_kept(),
            audit_reader=root.audit_reader,
            play_demo=parts.play_demo,
            terminal_programs=root.terminal_programs,
            find_terminal=parts.find_terminal,
            settings=parts.settings,
            leave_kernel=root.leave_kernel,
            end_calls=root.end_calls,
            memory=parts.memory,
            stop_job=parts.stop_job,
            on_first_values=parts.on_first_values,
        )
        for root, name in zip(roots, names, strict=True)
    ]
