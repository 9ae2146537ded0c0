"""`flytui` on a terminal: draws the console, takes the root and opens its kernel beside it."""

from __future__ import annotations

import gc
import os
import select
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from flytui.cli.attach import attach_to_kernel
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation
from flytui.cli.output import clock_time
from flytui.cli.terminal import find_terminal, run_tool
from flytui.cli.terminal_programs import find_terminal_programs

if TYPE_CHECKING:
    from flycore.client.protocol import Approver, Client
    from flycore.registry.paths import RootPaths
    from flytui.console.doctor.terminal_checks import TerminalFacts
    from flytui.console.user_settings import ConsoleSettings


def open_console(invocation: Invocation) -> int:
    """Open the console and stay until the person leaves. Where another one has the root it attaches to that;
    raises RootBusy where that does not answer."""
    gc.disable()  # nothing of what is imported until the first frame is garbage; see open_beside
    places = invocation.places()

    async def sit() -> None:
        from flycore.client.audit_reader import AuditReader
        from flytui.console.run import run_console

        async with until_terminal_closes():
            await run_console(
                lambda tell: open_beside(places, tell),
                str(places.app_root),
                seat=find_console_windows,
                joining=lambda: attach_to_kernel(places, find_console_windows),
                ledger=AuditReader.of(places),
                demo=run_demo,
                bench=find_terminal_programs(places, os.environ),
                terminal=terminal_check(),
                own=read_console_settings(places),
            )

    run_async(sit)
    return 0


@asynccontextmanager
async def open_beside(
    places: RootPaths, tell: Callable[[str], None]
) -> AsyncIterator[tuple[Client, Approver]]:
    """The kernel of that root, opened beside a console that is drawn already: what it is made of is
    imported only now, off the loop. `tell` is told whom it waits for. Raises RootBusy."""
    from anyio import to_thread

    await to_thread.run_sync(import_module, "flycore.client.connect")
    from flycore.client.connect import open_console_kernel

    gc.freeze()  # modules stay: no later collection looks through them while somebody types
    gc.enable()

    def on_wait(pid: int, since: float, role: str) -> None:
        tell(f"{'flytui call' if role == 'provisional' else role}, pid {pid}, since {clock_time(since)}")

    async with open_console_kernel(places, on_wait=on_wait) as at_kernel:
        gc.freeze()
        yield at_kernel


@asynccontextmanager
async def until_terminal_closes() -> AsyncIterator[None]:
    """Leave the block when the terminal on standard input is gone. HUP tells that only to those whose
    controlling terminal it is; everybody else would read its end for ever, and keep the root."""
    import anyio

    with select.epoll() as gone:
        gone.register(sys.stdin.fileno(), 0)  # nothing but its end, which is always told
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                await anyio.wait_readable(gone)
                group.cancel_scope.cancel()

            group.start_soon(leave)
            yield
            group.cancel_scope.cancel()


def terminal_check() -> Callable[[tuple[int, int]], TerminalFacts]:
    """Looks at this terminal, as its variables and encoding were before the console took it over."""
    environ, encoding = dict(os.environ), sys.stdout.encoding
    return lambda size: find_terminal(size, encoding, environ)


async def run_demo() -> None:
    """The demo on this terminal, in a process of its own; over when the person leaves it."""
    import anyio

    command = [sys.executable, "-m", "flytui", "demo"]
    await anyio.run_process(command, stdin=None, stdout=None, stderr=None, check=False)


def read_console_settings(places: RootPaths) -> ConsoleSettings:
    """The person's keys and theme from their settings."""
    from flycore.offline.files import read_settings
    from flytui.console.style import theme_names
    from flytui.console.user_settings import check_settings

    read = read_settings(places.config_dir)
    return check_settings(read.settings.keys, read.settings.theme, theme_names(), read.places)


def find_console_windows() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Windows and processes of this console, which no desktop tool may touch."""
    from flytui.cli.own_windows import find_own_windows

    return find_own_windows(os.environ, os.getpid(), run_tool)
