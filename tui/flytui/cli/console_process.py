"""The process of the console on this terminal, connected with the kernels that its supervisor names."""

from __future__ import annotations

import gc
import os
import select
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio import to_thread

from flycore.client.attach import open_own_console
from flycore.client.audit_reader import AuditReader
from flycore.model.enums import KernelRole
from flycore.model.errors import FlyError, KernelFailed, RootBusy
from flycore.offline.console_files import read_kept_catalog, read_settings
from flycore.registry.paths import RootPaths, find_paths
from flysafe.process_memory import return_large_blocks
from flysafe.unix_sockets import receive_descriptor
from flytui.cli.attach import attach_to_kernel
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.own_windows import find_console_windows
from flytui.cli.terminal import find_terminal
from flytui.cli.terminal_programs import find_terminal_programs, run_program
from flytui.console.console_memory import ConsoleMemory
from flytui.console.doctor.terminal_checks import TerminalFacts
from flytui.console.job_control import stop_job
from flytui.console.kernel_connection import OpenConnection
from flytui.console.user_settings import ConsoleSettings, check_settings
from flytui.supervisor.children import CRASHED, ConsoleEnds
from flytui.supervisor.crash_report import CONSOLE_REPORT, report_text, traceback_text, write_report
from flytui.supervisor.memory_limit import limit_memory
from flytui.supervisor.programs import ConsolePlace
from flytui.text.kernels import holder_text

if TYPE_CHECKING:
    from flytui.console.run import RootParts

MAX_WORKERS = 8
"""Threads for reads of files and programs: each takes address space, which is limited."""


def run_console_process(places: Sequence[ConsolePlace], ends: ConsoleEnds, notice: str) -> int:
    """Show the console of these places until the person leaves, and return the exit status of the command.
    `notice` says why the console before this one ended."""
    # Nothing that is imported before the first frame is garbage, and collections would delay that frame.
    # `_collect_garbage` switches the collector on again.
    gc.disable()
    limit_memory()
    roots = [find_paths(place.root, place.workspace, os.environ, Path.cwd()) for place in places]
    link = SupervisorLink(ends, len(roots))
    try:
        return _explained(lambda: _show(places[0], roots, link, notice))
    except BaseException as error:
        # The edge of the process: whatever ended the console, its report is written and the next one opens.
        # Textual, which only this process imports.
        from flytui.console.run import ConsoleFailed

        defect = error.defect if isinstance(error, ConsoleFailed) else error
        text = report_text("The console of flytui died of a defect", traceback_text(defect))
        link.report(f"report {write_report(str(roots[0].state_dir), CONSOLE_REPORT, text)}")
        if not isinstance(error, Exception | BaseExceptionGroup):
            raise
        return CRASHED


def _explained(show: Callable[[], int]) -> int:
    """Show the console, and print what a person can understand of its end. Raises what is a defect."""
    try:
        return show()
    except (KeyboardInterrupt, SignalInterrupt, FlyError, OSError) as error:
        # The command line, which the first frame need not wait for.
        from flytui.cli.root_command import explain

        ended = error

        def raise_again() -> object:
            raise ended

        return explain(raise_again)


def _show(place: ConsolePlace, roots: Sequence[RootPaths], link: SupervisorLink, notice: str) -> int:
    async def run() -> None:
        # Textual, which only this process imports.
        from flytui.console.run import ConsoleParts, run_console

        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_WORKERS
        at_home, supervisor = place.environ is None, os.getppid()
        parts = ConsoleParts(
            play_demo=link.run_demo if at_home else None,
            find_terminal=terminal_check(),
            settings=read_console_settings(roots[0]),
            memory=ConsoleMemory(roots[0].console_file if at_home else None),
            stop_job=(lambda: stop_job(supervisor)) if at_home else None,
            on_first_values=_collect_garbage,
            notice=notice,
        )
        own = [_root_parts(RootLink(link, at, paths), place) for at, paths in enumerate(roots)]
        async with until_closed(sys.stdin.fileno(), link.descriptor), link.reading():
            await run_console(own, parts)

    run_async(run)
    return 0


def _root_parts(root: RootLink, place: ConsolePlace) -> RootParts:
    """What the console uses for one root. A place with an environment of its own has only its kernel."""
    # Textual, which only this process imports.
    from flytui.console.run import RootParts

    paths, at_home = root.paths, place.environ is None
    return RootParts(
        title=place.title or str(paths.app_root),
        open_kernel=root.open_kernel,
        open_attachment=(lambda: attach_to_kernel(paths, find_console_windows)) if at_home else None,
        read_kept=lambda: read_kept_catalog(paths),
        audit_reader=AuditReader.of(paths),
        terminal_programs=find_terminal_programs(paths, os.environ, root.link.lend) if at_home else None,
        leave_kernel=root.leave_kernel if at_home else None,
        end_calls=root.end_calls if at_home else None,
    )


def _collect_garbage() -> None:
    gc.freeze()  # modules and first values stay: no later collection looks through them while somebody types
    gc.enable()


class SupervisorLink:
    """The console's connection with its supervisor, which carries messages about every root."""

    def __init__(self, ends: ConsoleEnds, roots: int) -> None:
        self._messages = ends.messages
        self._messages.setblocking(False)
        self._reports = ends.reports
        self._unread: list[deque[Message]] = [deque() for _ in range(roots)]
        """The messages about each root that nobody has taken yet."""
        self._came: list[anyio.Event] = []

    @property
    def descriptor(self) -> int:
        """The descriptor that hangs up when the supervisor asks the console to leave, or is gone."""
        return self._messages.fileno()

    def report(self, line: str) -> None:
        """Send a line to the supervisor."""
        with suppress(OSError):
            os.write(self._reports, line.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n")

    def lend(self, pid: int) -> None:
        """Report the program that has the terminal now; 0 when it is the console's again."""
        self.report(f"lent {pid}" if pid else "returned")

    async def run_demo(self) -> None:
        """Run the demo on this terminal in a process of its own, until the person leaves it."""
        await run_program((sys.executable, "-m", "flytui", "demo"), self.lend)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read what the supervisor sends while the block runs."""
        self._came = [anyio.Event() for _ in self._unread]
        async with anyio.create_task_group() as group:
            group.start_soon(self._read)
            yield
            group.cancel_scope.cancel()

    async def next_message(self, place: int) -> Message:
        """Wait for the next message about the root at that place."""
        while not self._unread[place]:
            await self._came[place].wait()
            self._came[place] = anyio.Event()
        return self._unread[place].popleft()

    async def _read(self) -> None:
        while True:
            await anyio.wait_readable(self._messages)
            try:
                data, descriptor = receive_descriptor(self._messages)
            except BlockingIOError:
                continue
            kind, _, rest = data.decode("utf-8", "replace").partition(" ")
            if not kind:
                await anyio.sleep_forever()  # the supervisor is gone: `until_closed` cancels
            at, _, text = rest.partition(" ")
            self._unread[int(at)].append(Message(kind, text, descriptor))
            self._came[int(at)].set()


class Message(NamedTuple):
    """A message of the supervisor about one root."""

    kind: str
    text: str
    connection: int | None
    """The descriptor of a connection to the kernel."""


class RootLink:
    """The connection with the supervisor, as far as it is about one root."""

    def __init__(self, link: SupervisorLink, place: int, paths: RootPaths) -> None:
        self.link = link
        self.paths = paths
        self._place = place
        self._asked = False
        """Whether this console has asked for a kernel before. The first one was started without that."""

    def leave_kernel(self) -> None:
        """Have the kernel go on as `flytui serve` when this console has left."""
        self.link.report(f"serve {self._place}")

    def end_calls(self) -> None:
        """Have the calls ended of the kernel that this console waits for."""
        self.link.report(f"end-calls {self._place}")

    @asynccontextmanager
    async def open_kernel(self, on_wait: Callable[[str], None]) -> AsyncIterator[OpenConnection]:
        """Connect to the kernel that the supervisor started, or starts now, as its paired console. `on_wait`
        is called with the process that has the root while the kernel waits for it. Raises RootBusy where
        another kernel holds the root, KernelUnreachable where the kernel ended before it answered, and
        KernelFailed where no kernel can run there."""
        if self._asked:
            self.link.report(f"kernel {self._place}")
        self._asked = True
        windows = await to_thread.run_sync(find_console_windows)
        connection = await self._connection(on_wait)
        # Before the first large message, and not before the first frame, which would wait for it.
        return_large_blocks()
        async with open_own_console(self.paths, connection, windows) as kernel:
            yield OpenConnection(*kernel)

    async def _connection(self, on_wait: Callable[[str], None]) -> socket.socket:
        """Wait for the next connection to a kernel. Raises RootBusy and KernelFailed."""
        while True:
            message = await self.link.next_message(self._place)
            words = message.text.split(" ", 3)
            if message.connection is not None:
                return socket.socket(fileno=message.connection)
            if message.kind == "waiting" and len(words) == 4:
                on_wait(holder_text(int(words[0]), float(words[1]), words[2], words[3]))
            elif message.kind == "busy" and len(words) == 3:
                raise RootBusy(int(words[0]), float(words[1]), KernelRole(words[2]))
            elif message.kind == "failed":
                raise KernelFailed(message.text)


@asynccontextmanager
async def until_closed(*descriptors: int) -> AsyncIterator[None]:
    """Leave the block when the other end of one of these descriptors was closed: the terminal on standard
    input, or the supervisor."""
    # The kernel sends HUP only to processes whose controlling terminal it is. Any other process would read
    # the end of its input again and again, and keep the root.
    with select.epoll() as closed:
        for descriptor in descriptors:
            closed.register(descriptor, 0)  # no events are asked for: epoll always reports a hang-up
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
    environ: Mapping[str, str] = dict(os.environ)
    encoding = sys.stdout.encoding
    return lambda size: find_terminal(size, encoding, environ)


def read_console_settings(places: RootPaths) -> ConsoleSettings:
    """Read the person's keys, theme and colours from their settings."""
    # Textual, which only this process imports.
    from flytui.console.themes import theme_names

    read = read_settings(places.config_dir)
    own = check_settings(read.settings.keys, read.settings.theme, theme_names(), read.places)
    return msgspec.structs.replace(own, colours=read.settings.colours, pictures=read.settings.pictures)
