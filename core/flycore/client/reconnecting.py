"""A client that finds the next kernel when the one that it used has ended."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, NamedTuple

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

from flycore.client.local import LocalClient
from flycore.client.remote import BACKLOG, connect_root
from flycore.kernel.compose import open_kernel
from flycore.kernel.lock import LASTING_ROLES, LockHolder, RootLock, read_holder
from flycore.model.call import ToolResult
from flycore.model.enums import Code, KernelRole
from flycore.model.errors import ConnectionLost, KernelUnreachable, RootBusy, single_exception
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.method_row import Kind, Method
from flycore.rpc.methods import Client, OnProgress
from flycore.rpc.proxies import ForwardingClient
from flycore.server.unix import UNIX_DOOR, serve_unix

POLL_SECONDS = 0.1
SETTLE_SECONDS = 10.0
"""How long a root may be locked while its kernel does not answer, because it starts or ends."""
RECONNECT_SECONDS = 30.0
"""How long the client looks for the next kernel after one has ended."""
RETRIES = 50
"""How often one call is sent to another kernel. Each time a kernel has ended; where many calls start at once,
nearly each of them may be the kernel of the others for a moment."""


class KernelConnection(NamedTuple):
    """A connection to a kernel."""

    client: Client
    ended: anyio.Event
    """Set once the kernel accepts no more calls."""


class _OpenResource:
    """A connection or kernel that is kept open by a task of its own."""

    # Its context manager holds a task group, which must be left in the task that entered it. With a task of
    # its own it can be closed from any task.

    def __init__(self) -> None:
        self.client: Client
        self.ended: anyio.Event
        self._close = anyio.Event()
        self._closed = anyio.Event()

    async def keep_open(
        self,
        opening: AbstractAsyncContextManager[KernelConnection],
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Open the resource, report `started`, and keep it open until `close`. Raises what opening raises."""
        try:
            async with opening as (client, ended):
                self.client, self.ended = client, ended
                task_status.started()
                await self._close.wait()
        finally:
            self._closed.set()

    async def close(self) -> None:
        """Close the resource, and wait until it is closed."""
        self._close.set()
        await self._closed.wait()

    async def close_when_ended(self) -> None:
        """Close the resource as soon as the kernel accepts no more calls."""
        await self.ended.wait()
        await self.close()


class ReconnectingClient(ForwardingClient):
    """A client that sends a call to the next kernel where the last one ended before it accepted the call.

    A call that needs a person goes to the kernel of a console that opens within `wait_approver` seconds.
    """

    def __init__(
        self, places: RootPaths, group: TaskGroup, *, wait_approver: float, provisional: bool
    ) -> None:
        self._places = places
        self._group = group
        self._wait_approver = wait_approver
        self._provisional = provisional
        self._resource: _OpenResource | None = None
        self._find_lock = anyio.Lock()
        self._ever_found = False

    async def reach(self) -> Client:
        """Return the client of the current kernel. Where that has ended, look for the next one."""
        return (await self._kernel()).client

    async def release(self) -> None:
        """Disconnect from the kernel. A provisional kernel of this process ends after its last call."""
        resource, self._resource = self._resource, None
        if resource is not None:
            await resource.close()

    async def find(self) -> None:
        """Find or start a kernel, where there is none or the last one has ended.

        Raises KernelUnreachable where there is none, and RootBusy where the root stays locked and its kernel
        does not answer.
        """
        # Several calls lose their kernel at the same time; only one of them looks for the next.
        async with self._find_lock:
            if self._resource is not None and not self._resource.ended.is_set():
                return
            holder = read_holder(self._places)
            deadline = anyio.current_time() + self._patience(holder)
            await self.release()
            while not await self._attach():
                # Where many calls start at once, short-lived kernels follow one another on the root. Each of
                # them gets the whole time; only one that holds the root and does not answer is given up.
                if (now := read_holder(self._places)) is not None and now != holder:
                    holder, deadline = now, anyio.current_time() + self._patience(now)
                late = anyio.current_time() >= deadline
                if await self._start_provisional(late):
                    break
                await anyio.sleep(POLL_SECONDS)
            self._ever_found = True

    def _patience(self, holder: LockHolder | None) -> float:
        """How many seconds that holder of the root may take to answer."""
        # A kernel that another call opened shares a busy machine with all of them, and starts as slowly.
        slow = holder is not None and holder.role == KernelRole.PROVISIONAL
        return RECONNECT_SECONDS if self._ever_found or slow else SETTLE_SECONDS

    async def _kernel(self) -> _OpenResource:
        while self._resource is None or self._resource.ended.is_set():
            await self.find()
        return self._resource

    async def _attach(self) -> bool:
        """Connect to a running kernel. Return False where none runs."""
        try:
            self._resource = await self._open(_running_kernel(self._places, int(self._wait_approver * 1000)))
        except KernelUnreachable:
            return False
        return True

    async def _start_provisional(self, late: bool) -> bool:
        """Start a provisional kernel. Return False where that is not possible now.

        Raises the reason, KernelUnreachable or RootBusy, where `late` says that the time is over.
        """
        if not self._provisional:
            if late or not self._ever_found:
                raise KernelUnreachable(str(self._places.socket))
            return False
        try:
            self._resource = await self._open(_provisional_kernel(self._places))
        except RootBusy:
            if late:
                raise
            return False
        self._group.start_soon(self._resource.close_when_ended)
        return True

    async def _open(self, opening: AbstractAsyncContextManager[KernelConnection]) -> _OpenResource:
        resource = _OpenResource()
        await self._group.start(resource.keep_open, opening)
        return resource

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        observe: bool = False,
        samples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool; where the kernel ends before it accepts the call, run it at the next kernel."""
        until = anyio.current_time() + self._wait_approver
        for _ in range(RETRIES):
            kernel = await self._kernel()
            try:
                result = await kernel.client.call(
                    tool,
                    input,
                    timeout_ms=timeout_ms,
                    purpose=purpose,
                    inline_wait_ms=inline_wait_ms,
                    observe=observe,
                    samples=samples,
                    on_progress=on_progress,
                )
            except ConnectionLost:  # raised only where the call had not started: sending it again is safe
                kernel.ended.set()
                continue
            if not _lacks_approver(result) or not await self._console_opens(until):
                return result
        raise ConnectionLost("the kernel ended before it accepted the call")

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Call the same method of the current kernel. A read that its end interrupts goes to the next one."""
        for _ in range(RETRIES):
            kernel = await self._kernel()
            try:
                return await getattr(kernel.client, method.name)(*arguments)
            except ConnectionLost:
                kernel.ended.set()
                if method.kind is not Kind.READ:  # another kind of message may have had its effect
                    raise
        raise ConnectionLost("the kernel ended before it answered")

    async def _console_opens(self, until: float) -> bool:
        """Wait for a kernel at which a person can decide. Return False where none starts in time."""
        with anyio.CancelScope(deadline=until):
            while anyio.current_time() < until:
                kernel = await self._kernel()
                with suppress(ConnectionLost):
                    if (await kernel.client.status()).role in LASTING_ROLES:
                        return True
                # A console that starts asks a provisional kernel to yield, which sets this event.
                await kernel.ended.wait()
        return False

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to events of the current kernel and of the kernels after it.

        The events of each further kernel begin with one that says that events were missed. The stream ends
        where no further kernel is found.
        """
        send, receive = anyio.create_memory_object_stream[Event](BACKLOG)
        with single_exception():
            async with send, receive, anyio.create_task_group() as group:
                await group.start(self._follow, classes, send)
                yield receive
                group.cancel_scope.cancel()

    async def _follow(
        self,
        classes: frozenset[EventClass] | None,
        send: MemoryObjectSendStream[Event],
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        first = True
        with suppress(KernelUnreachable, RootBusy):
            while True:
                kernel = await self._kernel()
                try:
                    async with kernel.client.events(classes) as stream:
                        if first:
                            task_status.started()
                        else:
                            await send.send(_missed_event())
                        first = False
                        await _forward_events(stream, send, kernel.ended)
                except ConnectionLost:
                    kernel.ended.set()
        if first:
            raise KernelUnreachable(str(self._places.socket))
        send.close()


async def _forward_events(
    stream: AsyncIterator[Event], send: MemoryObjectSendStream[Event], ended: anyio.Event
) -> None:
    """Pass events on until the kernel has ended."""
    async with anyio.create_task_group() as group:

        async def stop_when_ended() -> None:
            await ended.wait()
            group.cancel_scope.cancel()

        group.start_soon(stop_when_ended)
        async for event in stream:
            await send.send(event)
        ended.set()


def _missed_event() -> Event:
    return Event(cls=EventClass.SNAPSHOT, type=MISSED, at=time.time())


def _lacks_approver(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == Code.NO_APPROVER


@asynccontextmanager
async def _running_kernel(places: RootPaths, wait_approver_ms: int) -> AsyncIterator[KernelConnection]:
    async with connect_root(places, wait_approver_ms=wait_approver_ms) as client:
        yield KernelConnection(client, client.ended)


@asynccontextmanager
async def _provisional_kernel(places: RootPaths) -> AsyncIterator[KernelConnection]:
    with RootLock.acquire(places, KernelRole.PROVISIONAL) as holder:
        async with open_kernel(places, holder) as kernel, serve_unix(kernel, places.socket):
            yield KernelConnection(
                LocalClient(kernel, kernel.identify_peer(os.getpid(), UNIX_DOOR)), kernel.yielded
            )
            await kernel.wait_until_idle()
