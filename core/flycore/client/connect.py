"""Ways to a kernel: the one that runs, or one of our own that lives as long as its calls."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from flycore.approval.callers import identify_peer
from flycore.client.local import CONSOLE_DOOR, LocalClient
from flycore.client.protocol import Approver, Client, OnProgress
from flycore.client.relay import RelayClient
from flycore.client.socket import connect_socket
from flycore.client.unwrap import unwrapped
from flycore.kernel.compose import open_kernel
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import FOR_GOOD, Holder, RootLock, next_in_line, read_holder
from flycore.model.call import Caller, ToolResult
from flycore.model.canonical import JsonObject
from flycore.model.enums import Code
from flycore.model.errors import ConnectionLost, KernelUnreachable, OtherVersion, ProtocolError, RootBusy
from flycore.registry.places import Places, find_places
from flycore.serve.unix import DOOR, serve_unix

LOOK_AGAIN_SECONDS = 0.1
SETTLE_SECONDS = 10.0
"""How long a root may be locked without its kernel answering yet, while it starts or ends."""
RETRIES = 5

OnWait = Callable[[int, float, str], None]
"""Called each second with the holder's pid, its start (Unix time) and role."""


@asynccontextmanager
async def connect(
    root: str | os.PathLike[str] | Places | None = None,
    *,
    wait_approver: float = 0.0,
    provisional: bool = True,
) -> AsyncIterator[CallingClient]:
    """A client of the kernel that runs; else, with `provisional`, of one in this process that serves
    other callers too and leaves when the last call has ended.

    `root` is the app root; None finds it as the command line does: FLYTUI_ROOT, else the nearest folder
    upwards with a registry, else the current one. A call that needs a person waits `wait_approver` seconds
    for a console to open where none is.

    Raises KernelUnreachable without `provisional`, RootBusy where the root stays locked and mute.
    """
    places = root if isinstance(root, Places) else _places_of(root)
    with unwrapped():
        async with anyio.create_task_group() as group:
            client = CallingClient(places, group, wait_approver=wait_approver, provisional=provisional)
            await client.find()
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await client.let_go()


def _places_of(root: str | os.PathLike[str] | None) -> Places:
    return find_places(None if root is None else os.fspath(root), None, os.environ, Path.cwd())


class _Held:
    """A connection or kernel that a task of its own keeps open, so that it may be closed from anywhere."""

    def __init__(self, own: bool) -> None:
        self.own = own
        self.client: Client
        self._close = anyio.Event()
        self._closed = anyio.Event()

    async def hold(
        self,
        opening: AbstractAsyncContextManager[Client],
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Open, report, and keep open until `close`; raises what the opening raises."""
        try:
            async with opening as client:
                self.client = client
                task_status.started()
                await self._close.wait()
        finally:
            self._closed.set()

    async def close(self) -> None:
        """Close and wait until it is closed."""
        self._close.set()
        await self._closed.wait()


class CallingClient(RelayClient):
    """A client that finds a kernel again when the one it had went away before taking the call, and that
    hands a call needing a person to the console that opens within `wait_approver` seconds."""

    def __init__(self, places: Places, group: TaskGroup, *, wait_approver: float, provisional: bool) -> None:
        self._places = places
        self._group = group
        self._wait_approver = wait_approver
        self._provisional = provisional
        self._held: _Held | None = None

    @property
    def inner(self) -> Client:
        """The client of the kernel found last. Raises KernelUnreachable when there is none."""
        if self._held is None:
            raise KernelUnreachable(str(self._places.socket))
        return self._held.client

    async def reach(self) -> Client:
        """See RelayClient."""
        return self.inner

    async def let_go(self) -> None:
        """Leave the kernel; one of our own ends when its last call has."""
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    async def find(self) -> None:
        """Find or start a kernel."""
        await self.let_go()
        deadline = anyio.current_time() + SETTLE_SECONDS
        while not await self._attach():
            if not self._provisional:
                raise KernelUnreachable(str(self._places.socket))
            try:
                self._held = await self._open(_provisional_kernel(self._places), own=True)
                return
            except RootBusy:
                if anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(LOOK_AGAIN_SECONDS)

    async def _attach(self) -> bool:
        """Whether a running kernel was found."""
        wait = int(self._wait_approver * 1000)
        try:
            self._held = await self._open(
                connect_socket(self._places.socket, wait_approver_ms=wait), own=False
            )
        except KernelUnreachable:
            return False
        return True

    async def _open(self, opening: AbstractAsyncContextManager[Client], *, own: bool) -> _Held:
        held = _Held(own)
        await self._group.start(held.hold, opening)
        return held

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """See Client."""
        until = anyio.current_time() + self._wait_approver
        for _ in range(RETRIES):
            try:
                result = await self.inner.call(
                    tool,
                    input,
                    timeout_ms=timeout_ms,
                    said=said,
                    inline_wait_ms=inline_wait_ms,
                    on_progress=on_progress,
                )
            except ConnectionLost:
                await self.find()
                continue
            if not _nobody_there(result) or not await self._console_opens(until):
                return result
        raise ConnectionLost("the kernel went away before it took the call")

    async def _console_opens(self, until: float) -> bool:
        """Let go of the root and wait for a console to take it; False where none does in time."""
        if anyio.current_time() >= until:
            return False
        await self.let_go()
        with anyio.CancelScope(deadline=until):
            while not await self._console_found():
                await self.let_go()
                await anyio.sleep(LOOK_AGAIN_SECONDS)
            return True
        return False

    async def _console_found(self) -> bool:
        try:
            return await self._attach() and (await self.inner.status()).role in FOR_GOOD
        except ConnectionLost:
            return False


def _nobody_there(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == Code.NO_APPROVER


@asynccontextmanager
async def _provisional_kernel(places: Places) -> AsyncIterator[Client]:
    with RootLock.acquire(places, "provisional") as holder:
        async with open_kernel(places, holder) as kernel, serve_unix(kernel, places.socket):
            yield LocalClient(kernel, identify_peer(os.getpid(), DOOR))
            await kernel.drained()


@asynccontextmanager
async def open_console_kernel(places: Places, *, on_wait: OnWait) -> AsyncIterator[tuple[Client, Approver]]:
    """The kernel of a console: takes the root, waiting for a provisional kernel's last call.

    Raises RootBusy where another console, or `flytui serve`, holds it.
    """
    async with _kernel_for_good(places, "console", on_wait) as kernel:
        caller = Caller(door=CONSOLE_DOOR, program="flytui", pid=os.getpid())
        yield LocalClient(kernel, caller), kernel.approver


@asynccontextmanager
async def open_served_kernel(places: Places, *, on_wait: OnWait) -> AsyncIterator[Kernel]:
    """The kernel of `flytui serve`: nobody decides in this process, consoles attach to it.

    Takes the root, waiting for a provisional kernel's last call; raises RootBusy where a console, or
    another `flytui serve`, holds it.
    """
    async with _kernel_for_good(places, "serve", on_wait) as kernel:
        yield kernel


@asynccontextmanager
async def _kernel_for_good(places: Places, role: str, on_wait: OnWait) -> AsyncIterator[Kernel]:
    async with AsyncExitStack() as stack:
        with next_in_line(places):
            holder = await _take_root(places, role, stack, on_wait)
        kernel = await stack.enter_async_context(open_kernel(places, holder))
        await stack.enter_async_context(serve_unix(kernel, places.socket))
        yield kernel


async def _take_root(places: Places, role: str, stack: AsyncExitStack, on_wait: OnWait) -> Holder:
    """Hold the root until `stack` closes, as soon as a provisional kernel has left."""
    while True:
        try:
            return stack.enter_context(RootLock.acquire(places, role))
        except RootBusy as busy:
            if busy.role in FOR_GOOD:
                raise
            await _ask_to_yield(places)
            if busy.pid:
                on_wait(busy.pid, busy.since, busy.role)
            await _let_go(places, 1.0)


async def _ask_to_yield(places: Places) -> None:
    try:
        async with connect_socket(places.socket, viewer=True) as client:
            await client.ask_for("kernel.yield")
    except (KernelUnreachable, ConnectionLost, ProtocolError, OtherVersion):
        return


async def _let_go(places: Places, seconds: float) -> None:
    """Wait until nobody says that they hold the root, so long at most; never so short as to spin."""
    for _ in range(round(seconds / LOOK_AGAIN_SECONDS)):
        await anyio.sleep(LOOK_AGAIN_SECONDS)
        if read_holder(places) is None:
            return
