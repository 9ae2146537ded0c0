"""A client that outlives kernels: it finds the next one, and its callers need not know."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import NamedTuple

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

from flycore.approval.callers import identify_peer
from flycore.client.local import LocalClient
from flycore.client.protocol import Client, OnProgress
from flycore.client.remote import BACKLOG, connect_unix
from flycore.kernel.compose import open_kernel
from flycore.kernel.lock import LASTING_ROLES, RootLock
from flycore.model.call import ToolResult
from flycore.model.enums import Code, KernelRole
from flycore.model.errors import ConnectionLost, KernelUnreachable, RootBusy, single_exception
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.proxies import ForwardingClient
from flycore.server.unix import UNIX_DOOR, serve_unix

POLL_SECONDS = 0.1
SETTLE_SECONDS = 10.0
"""How long a root may be locked without its kernel answering yet, while it starts or ends."""
RECONNECT_SECONDS = 30.0
"""How long the next kernel is looked for once one has gone away."""
RETRIES = 5


class KernelConnection(NamedTuple):
    """A kernel that was found."""

    client: Client
    ended: anyio.Event
    """Set once no call may be made there any more."""


class _OpenResource:
    """A connection or kernel that a task of its own keeps open, so that it may be closed from anywhere."""

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
        """Open, report, and keep open until `close`; raises what the opening raises."""
        try:
            async with opening as (client, ended):
                self.client, self.ended = client, ended
                task_status.started()
                await self._close.wait()
        finally:
            self._closed.set()

    async def close(self) -> None:
        """Close and wait until it is closed."""
        self._close.set()
        await self._closed.wait()

    async def close_when_ended(self) -> None:
        """Close as soon as no call may be made there any more."""
        await self.ended.wait()
        await self.close()


class ReconnectingClient(ForwardingClient):
    """A client that finds a kernel again when the one it had went away before taking the call, and that
    hands a call needing a person to the console that opens within `wait_approver` seconds."""

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
        """Give the client of the kernel that was found last; where it has gone, look for the next one."""
        return (await self._kernel()).client

    async def release(self) -> None:
        """Leave the kernel; one of our own ends when its last call has."""
        held, self._resource = self._resource, None
        if held is not None:
            await held.close()

    async def find(self) -> None:
        """Find or start a kernel, where the one found last is not there any more. Raises KernelUnreachable
        where there is none, RootBusy where the root stays locked and mute."""
        async with self._find_lock:
            if self._resource is not None and not self._resource.ended.is_set():
                return
            deadline = anyio.current_time() + (RECONNECT_SECONDS if self._ever_found else SETTLE_SECONDS)
            await self.release()
            while not await self._attach():
                late = anyio.current_time() >= deadline
                if await self._start_provisional(late):
                    break
                await anyio.sleep(POLL_SECONDS)
            self._ever_found = True

    async def _kernel(self) -> _OpenResource:
        while self._resource is None or self._resource.ended.is_set():
            await self.find()
        return self._resource

    async def _attach(self) -> bool:
        """Whether a kernel runs."""
        try:
            self._resource = await self._open(_running_kernel(self._places, int(self._wait_approver * 1000)))
        except KernelUnreachable:
            return False
        return True

    async def _start_provisional(self, late: bool) -> bool:
        """Whether one was begun here. Raises what keeps it from that where the time for looking is over."""
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
        held = _OpenResource()
        await self._group.start(held.keep_open, opening)
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
            held = await self._kernel()
            try:
                result = await held.client.call(
                    tool,
                    input,
                    timeout_ms=timeout_ms,
                    said=said,
                    inline_wait_ms=inline_wait_ms,
                    on_progress=on_progress,
                )
            except ConnectionLost:
                held.ended.set()
                continue
            if not _lacks_approver(result) or not await self._console_opens(until):
                return result
        raise ConnectionLost("the kernel went away before it took the call")

    async def _console_opens(self, until: float) -> bool:
        """Wait for a kernel that a person can decide at; False where none comes in time. One of our own is
        asked to yield by the console that starts."""
        with anyio.CancelScope(deadline=until):
            while anyio.current_time() < until:
                held = await self._kernel()
                with suppress(ConnectionLost):
                    if (await held.client.status()).role in LASTING_ROLES:
                        return True
                await held.ended.wait()
        return False

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """See Client. Goes on at the next kernel, beginning with an event that says that some were missed;
        ends where there is none."""
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
                held = await self._kernel()
                try:
                    async with held.client.events(classes) as stream:
                        if first:
                            task_status.started()
                        else:
                            await send.send(_missed_event())
                        first = False
                        await _forward_events(stream, send, held.ended)
                except ConnectionLost:
                    held.ended.set()
        if first:
            raise KernelUnreachable(str(self._places.socket))
        send.close()


async def _forward_events(
    stream: AsyncIterator[Event], send: MemoryObjectSendStream[Event], ended: anyio.Event
) -> None:
    """Hand events on until the kernel has gone."""
    async with anyio.create_task_group() as group:

        async def leave() -> None:
            await ended.wait()
            group.cancel_scope.cancel()

        group.start_soon(leave)
        async for event in stream:
            await send.send(event)
        ended.set()


def _missed_event() -> Event:
    return Event(cls=EventClass.SNAPSHOT, type=MISSED, at=time.time())


def _lacks_approver(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == Code.NO_APPROVER


@asynccontextmanager
async def _running_kernel(places: RootPaths, wait_approver_ms: int) -> AsyncIterator[KernelConnection]:
    async with connect_unix(places.socket, wait_approver_ms=wait_approver_ms) as client:
        yield KernelConnection(client, client.ended)


@asynccontextmanager
async def _provisional_kernel(places: RootPaths) -> AsyncIterator[KernelConnection]:
    with RootLock.acquire(places, KernelRole.PROVISIONAL) as holder:
        async with open_kernel(places, holder) as kernel, serve_unix(kernel, places.socket):
            yield KernelConnection(LocalClient(kernel, identify_peer(os.getpid(), UNIX_DOOR)), kernel.leaving)
            await kernel.wait_until_idle()
