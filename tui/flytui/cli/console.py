"""Opens the console on this terminal. The console is drawn first, and its kernel is opened beside it."""

from __future__ import annotations

import gc
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from flysafe.procfs import PROC, ProcFolder, ancestors, environment_value, process_table
from flytui.cli.attach import attach_to_kernel
from flytui.cli.interrupts import run_async
from flytui.cli.invocation import Invocation
from flytui.cli.output import clock_time
from flytui.cli.terminal import find_terminal, run_tool
from flytui.cli.terminal_programs import find_terminal_programs

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths
    from flycore.rpc.methods import Approver, Client
    from flytui.console.doctor.terminal_checks import TerminalFacts
    from flytui.console.user_settings import ConsoleSettings


def open_console(invocation: Invocation) -> int:
    """Open the console and return when the person leaves it. Where another kernel has the root, the console
    attaches to that kernel. Raises RootBusy where that one does not answer."""
    # Nothing that is imported before the first frame is garbage, and collections would delay that frame.
    # `open_kernel_beside` switches the collector on again.
    gc.disable()
    places = invocation.places()

    async def run() -> None:
        from flycore.client.audit_reader import AuditReader
        from flytui.console.run import run_console

        async with until_terminal_closes():
            await run_console(
                lambda on_wait: open_kernel_beside(places, on_wait),
                str(places.app_root),
                find_own_windows=find_console_windows,
                open_attachment=lambda: attach_to_kernel(places, find_console_windows),
                audit_reader=AuditReader.of(places),
                play_demo=run_demo,
                terminal_programs=find_terminal_programs(places, os.environ),
                find_terminal=terminal_check(),
                settings=read_console_settings(places),
            )

    run_async(run)
    return 0


@asynccontextmanager
async def open_kernel_beside(
    places: RootPaths, on_wait: Callable[[str], None]
) -> AsyncIterator[tuple[Client, Approver]]:
    """Open the kernel of that root beside a console that is drawn already. `on_wait` is called with the
    process that has the root while this one waits for it. Raises RootBusy."""
    from anyio import to_thread

    # The modules of the kernel are imported in a thread, so that the console takes keys meanwhile.
    await to_thread.run_sync(import_module, "flycore.client.connect")
    from flycore.client.connect import open_console_kernel

    gc.freeze()  # modules stay: no later collection looks through them while somebody types
    gc.enable()

    def describe_wait(pid: int, since: float, role: str) -> None:
        on_wait(f"{'flytui call' if role == 'provisional' else role}, pid {pid}, since {clock_time(since)}")

    async with open_console_kernel(places, on_wait=describe_wait) as kernel:
        gc.freeze()
        yield kernel


@asynccontextmanager
async def until_terminal_closes() -> AsyncIterator[None]:
    """Leave the block when the terminal on standard input was closed."""
    import anyio

    # The kernel sends HUP only to processes whose controlling terminal it is. Any other process would read
    # the end of its input again and again, and keep the root.
    with select.epoll() as closed:
        closed.register(sys.stdin.fileno(), 0)  # no events are asked for: epoll always reports a hang-up
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                await anyio.wait_readable(closed)
                group.cancel_scope.cancel()

            group.start_soon(leave)
            yield
            group.cancel_scope.cancel()


def terminal_check() -> Callable[[tuple[int, int]], TerminalFacts]:
    """Return the function that reads the facts about this terminal, with the variables and the encoding from
    before the console changed them."""
    environ, encoding = dict(os.environ), sys.stdout.encoding
    return lambda size: find_terminal(size, encoding, environ)


async def run_demo() -> None:
    """Run the demo on this terminal in a process of its own, until the person leaves it."""
    import anyio

    command = [sys.executable, "-m", "flytui", "demo"]
    await anyio.run_process(command, stdin=None, stdout=None, stderr=None, check=False)


def read_console_settings(places: RootPaths) -> ConsoleSettings:
    """Read the person's keys and theme from their settings."""
    from flycore.offline.files import read_settings
    from flytui.console.style import theme_names
    from flytui.console.user_settings import check_settings

    read = read_settings(places.config_dir)
    return check_settings(read.settings.keys, read.settings.theme, theme_names(), read.places)


def find_console_windows() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Find the windows and processes of this console, which no desktop tool may touch."""

    return find_own_windows(os.environ, os.getpid(), run_tool)


# Finds the windows and processes of a console, which no tool may touch.


Run = Callable[[tuple[str, ...]], str | None]
"""Runs a program and returns its output; None where it fails."""
SCREEN = "screen"
"""The process name of an attached client of GNU screen; its server is named SCREEN."""


def find_own_windows(
    environ: Mapping[str, str], pid: int, run: Run, *, proc: ProcFolder = PROC
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The window ids and the pids of the console `pid` and its ancestors, and in tmux or screen of the
    attached clients as well. Both are sorted, and the pids never contain 0 or 1."""
    # In tmux or screen the console is a child of the server. Its window belongs to the ancestors of a client.
    roots = {pid, *_clients(environ, run, proc)}
    pids = {member for root in roots for member in (root, *ancestors(root, proc))}
    words = [environ.get("WINDOWID", ""), *(environment_value(root, "WINDOWID", proc) for root in roots)]
    windows = {int(word) for word in words if word.isascii() and word.isdecimal()}
    return tuple(sorted(windows - {0})), tuple(sorted(pids - {0, 1}))


def _clients(environ: Mapping[str, str], run: Run, proc: ProcFolder) -> set[int]:
    """The pids of the clients of tmux or screen that may show the console."""
    tmux = environ.get("TMUX", "")
    if tmux:
        socket = tmux.rsplit(",", 2)[0]
        output = run(("tmux", "-S", socket, "list-clients", "-F", "#{client_pid}"))
        return {int(word) for word in (output or "").split() if word.isascii() and word.isdecimal()}
    return _screen_clients(proc) if environ.get("STY") else set()


def _screen_clients(proc: ProcFolder) -> set[int]:
    """The pids of all attached clients of screen, which has no command that lists those of one session."""
    return {process.pid for process in process_table(proc).values() if process.name == SCREEN}
