"""The client of a kernel: it finds the kernel of a root, starts one if none runs, and goes on at the next one
when that has ended."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
import msgspec
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

from flycore.client.catalog_answer import read_catalog_answer
from flycore.client.kernel_start import start_kernel
from flycore.kernel.lock import kernel_socket as kernel_socket
from flycore.kernel.lock import living_holder
from flycore.model.call import CallError, Progress, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.enums import Code
from flycore.model.enums import Status as CallStatus
from flycore.model.errors import ConnectionLost, KernelUnreachable, RootBusy, single_exception
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.status import Status
from flycore.registry.paths import RootPaths, find_paths
from flycore.rpc.method_row import Kind, Method
from flycore.rpc.methods import OnProgress
from flycore.rpc.proxies import ClientProxy
from flycore.rpc.wire import BACKLOG, call_payload

if TYPE_CHECKING:
    from flycore.client.kernel_link import KernelLink, Message

POLL_SECONDS = 0.1
SETTLE_SECONDS = 10.0
"""How long a root may be locked while its kernel does not answer, because it starts or ends."""
RECONNECT_SECONDS = 30.0
"""How long a client looks for the next kernel after one has ended."""
OpenLink: TypeAlias = "Callable[[], AbstractAsyncContextManager[KernelLink]]"
"""Opens a connection to the kernel. Raises KernelUnreachable if none answers."""


class _HeldLink:
    """A connection that is kept open by a task of its own."""

    # Its context manager holds a task group, which must be left in the task that entered it. With a task of
    # its own it can be closed from any task.

    def __init__(self) -> None:
        self.link: KernelLink
        self._close = anyio.Event()
        self._closed = anyio.Event()

    async def keep_open(
        self,
        opening: AbstractAsyncContextManager[KernelLink],
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Open the connection, report `started`, and keep it open until `close`. Raises what opening
        raises."""
        try:
            async with opening as self.link:
                task_status.started()
                await self._close.wait()
        finally:
            self._closed.set()

    async def close(self) -> None:
        """Close the connection, and wait until it is closed."""
        self._close.set()
        await self._closed.wait()


class _Retries:
    """The time in which one request may be sent to further kernels. It begins with the first one that was
    lost: before, a kernel that gives way may let the request wait for as long as its last call runs."""

    def __init__(self) -> None:
        self._until: float | None = None

    def left(self) -> bool:
        """Return whether the request may be sent once more."""
        if self._until is None:
            self._until = anyio.current_time() + RECONNECT_SECONDS
            return True
        return anyio.current_time() < self._until


class KernelFinder:
    """Finds the kernel of a root again when it has ended, and starts one if `start` is set and none runs."""

    def __init__(self, places: RootPaths, *, start: bool) -> None:
        self._places = places
        self._start = start
        self._found_before = False

    async def next_link(self, open_link: Callable[[], Any]) -> _HeldLink:
        """Return an open connection to the kernel.

        Raises KernelUnreachable if there is none, RootBusy if the root stays locked and its kernel does not
        answer, and what `start_kernel` raises.
        """
        deadline = anyio.current_time() + (RECONNECT_SECONDS if self._found_before else SETTLE_SECONDS)
        while True:
            try:
                held: _HeldLink = await open_link()
            except KernelUnreachable:
                if anyio.current_time() >= deadline and not self._is_starting():
                    self._raise_holder()
                    raise
                if not self._start and not self._found_before:
                    raise
            else:
                self._found_before = True
                return held
            if not self._start or not await start_kernel(self._places):
                await anyio.sleep(POLL_SECONDS)

    def _is_starting(self) -> bool:
        """Return whether the holder of the root is young: on a busy machine a kernel starts slowly."""
        holder = living_holder(self._places)
        return holder is not None and time.time() - holder.since < RECONNECT_SECONDS

    def _raise_holder(self) -> None:
        """Raise RootBusy if a living process holds the root."""
        holder = living_holder(self._places)
        if holder is not None:
            raise RootBusy(holder.pid, holder.since, holder.role, holder.on_demand)


class KernelClient(ClientProxy):
    """A client of the kernel that owns a root. It has one connection at a time.

    With a `finder` it goes on at the next kernel: a call that the last one had not accepted is made there,
    reads are asked there, and streams of events go on. Without one, ConnectionLost is raised.
    """

    def __init__(
        self,
        group: TaskGroup,
        open_link: OpenLink,
        *,
        finder: KernelFinder | None = None,
        wait_approver: float = 0.0,
        link_for_call: OpenLink | None = None,
    ) -> None:
        """`link_for_call` opens a connection for each call, because that of a console may decide and may
        therefore not call."""
        self._group = group
        self._open_link = open_link
        self._finder = finder
        self._wait_approver = wait_approver
        self._link_for_call = link_for_call
        self._held: _HeldLink | None = None
        self._finding = anyio.Lock()

    # The connection.

    async def link(self) -> KernelLink:
        """Return the connection to the kernel. If that has ended, find the next one."""
        # Several requests lose their kernel at the same time; only one of them looks for the next.
        async with self._finding:
            if self._held is not None and not self._held.link.ended.is_set():
                return self._held.link
            if self._finder is None:
                if self._held is not None:
                    raise ConnectionLost("the kernel went away")
                self._held = await self._open()
            else:
                await self.release()
                self._held = await self._finder.next_link(self._open)
            return self._held.link

    async def release(self) -> None:
        """Close the connection to the kernel."""
        held, self._held = self._held, None
        if held is not None:
            await held.close()

    async def _open(self) -> _HeldLink:
        held = _HeldLink()
        await self._group.start(held.keep_open, self._open_link())
        return held

    # Requests.

    async def ask_for(self, kind: str, payload: JsonObject | None = None) -> JsonObject:
        """Send a message and return the payload of its answer. Raises ConnectionLost, ProtocolError."""
        return (await self._answer(kind, payload or {}, again=False)).fields()

    async def _answer(self, kind: str, payload: JsonObject, *, again: bool) -> Message:
        """Return the answer to a message. With `again`, it is sent to the next kernel if one ends first."""
        retries = _Retries()
        while True:
            link = await self.link()
            try:
                return await link.ask(kind, payload)
            except ConnectionLost:
                if self._finder is None or not again or not retries.left():
                    raise

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Send the message of that method and return the result from its answer."""
        # Another kind of message than a read may have had its effect before the kernel ended.
        again = method.kind is Kind.READ
        answer = await self._answer(method.message, method.payload_of(arguments), again=again)
        return method.result_in(answer.fields())

    async def status(self) -> Status:
        """Return the state of the kernel, which is the whole payload of the answer."""
        answer = await self._answer("gateway.status.get", {}, again=True)
        return msgspec.convert(answer.fields(), Status)

    async def catalog(self, outline: bool = False) -> Catalog:
        """Return the catalog, or its outline. Other programs read it as a document without `detail`."""
        wanted: JsonObject = {"detail": True, **({"outline": True} if outline else {})}
        answer = await self._answer("capability.catalog.get", wanted, again=True)
        return read_catalog_answer(answer.payload)

    # Calls.

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
        """Run a tool. If the kernel ends before it accepts the call, the call is made at the next kernel.

        If the connection is lost after the kernel accepted the call, the result is `outcome-unknown`,
        because the call may have had effects. ConnectionLost is raised if no kernel accepted the call, and
        calling again is safe.
        """
        payload = call_payload(
            tool,
            input,
            timeout_ms=timeout_ms,
            purpose=purpose,
            wait_approver_ms=int(self._wait_approver * 1000),
            inline_wait_ms=inline_wait_ms,
            observe=observe,
            samples=samples,
        )
        until = anyio.current_time() + self._wait_approver
        retries = _Retries()
        while True:
            try:
                result = await self._call_once(tool, cast(JsonObject, payload), on_progress)
            except ConnectionLost:  # raised only if the call had not started: sending it again is safe
                if self._finder is None or not retries.left():
                    raise
                continue
            if not _lacks_approver(result) or not await self._console_opens(until):
                return result

    async def _call_once(self, tool: str, payload: JsonObject, on_progress: OnProgress | None) -> ToolResult:
        if self._link_for_call is None:
            return await _call_over(await self.link(), tool, payload, on_progress)
        async with self._link_for_call() as link:
            return await _call_over(link, tool, payload, on_progress)

    async def _console_opens(self, until: float) -> bool:
        """Wait for a kernel at which a person can decide. Return False if none starts in time."""
        if self._finder is None:
            return False
        with anyio.CancelScope(deadline=until):
            while anyio.current_time() < until:
                with suppress(ConnectionLost):
                    if not (await self.status()).on_demand:
                        return True
                # A console that starts asks a kernel on demand to give way, which ends the connection.
                await (await self.link()).ended.wait()
        return False

    # Events.

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to events of these classes, or of all.

        The events of each further kernel begin with one that says that events were missed. The stream ends
        if no further kernel is found.
        """
        if self._finder is None:
            async with (await self.link()).events(classes) as stream:
                yield stream
            return
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
                link = await self.link()
                with suppress(ConnectionLost):
                    async with link.events(classes) as stream:
                        if first:
                            task_status.started()
                        else:
                            await send.send(_missed_event())
                        first = False
                        async for event in stream:
                            await send.send(event)
        if first:
            raise KernelUnreachable("the kernel ended before it answered")
        send.close()


async def _call_over(
    link: KernelLink, tool: str, payload: JsonObject, on_progress: OnProgress | None
) -> ToolResult:
    call_id, message_id = "", link.new_id()
    try:
        async with link.exchange("tool.call", payload, message_id) as answers:
            try:
                async for message in answers:
                    if message.type == "tool.result":
                        return msgspec.json.decode(message.payload, type=ToolResult)
                    progress = msgspec.json.decode(message.payload, type=Progress)
                    call_id = progress.call_id
                    if on_progress is not None:
                        on_progress(progress)
            except anyio.get_cancelled_exc_class():
                # This task is cancelled, so without a shield the message could not be sent any more.
                with anyio.move_on_after(1, shield=True):
                    await link.send("tool.cancel", {"requestId": message_id}, link.new_id())
                raise
    except ConnectionLost:
        if not call_id:  # the kernel reports progress before a call has any effect
            raise
        return outcome_unknown(tool, call_id)
    raise ConnectionLost("the kernel ended the call without a result")


def outcome_unknown(tool: str, call_id: str) -> ToolResult:
    """Return the result of a call whose kernel was lost while it ran."""
    error = CallError(
        code=Code.OUTCOME_UNKNOWN,
        message="the connection to the kernel was lost while the call ran",
        hint="it is not known whether the call took effect: check before you call again (flytui audit tail)",
    )
    return ToolResult(status=CallStatus.UNKNOWN, tool=tool, sidecar=None, call_id=call_id, error=error)


def _missed_event() -> Event:
    return Event(cls=EventClass.SNAPSHOT, type=MISSED, at=time.time())


def _lacks_approver(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == Code.NO_APPROVER


# Ways to a client.


@asynccontextmanager
async def connect(
    root: str | os.PathLike[str] | RootPaths | None = None,
    *,
    wait_approver: float = 0.0,
    start: bool = True,
    viewer: bool = False,
) -> AsyncIterator[KernelClient]:
    """Give a client of the root's kernel, which is started if none runs and `start` is set.

    A kernel that is started this way runs in a process of its own, and ends when nobody has used it for
    `kernel.idleMinutes`. `root` is the app root. None finds it as the command line does: FLYTUI_ROOT, else
    the nearest folder upwards that has a registry, else the current folder. A call that needs a person waits
    `wait_approver` seconds for a console to open if none is open. A `viewer` reads everything and calls no
    tool. When the kernel ends, the client looks for
    the next one for half a minute: calls that had started end `outcome-unknown`, other calls are made again,
    and streams of events go on.

    Raises KernelUnreachable if no kernel runs and `start` is false, RootBusy if the root stays locked and its
    kernel does not answer, and KernelFailed or StateUnwritable if no kernel can run on the root.
    """
    places = root if isinstance(root, RootPaths) else _find_paths(root)
    finder = KernelFinder(places, start=start)
    async with keep_client(
        partial(_link_of_root, places, viewer=viewer), finder=finder, wait_approver=wait_approver
    ) as it:
        yield it


def connect_root(
    places: RootPaths, *, viewer: bool = False, name: str = "flytui"
) -> AbstractAsyncContextManager[KernelClient]:
    """Give a client of the kernel that runs on the root, whatever environment that kernel started with.

    Raises KernelUnreachable if none runs, UnsafeSocket if the folder or the kernel belongs to another user,
    and OtherVersion if the kernel uses another protocol.
    """
    return keep_client(partial(_link_of_root, places, viewer=viewer, name=name))


def connect_unix(
    path: Path, *, viewer: bool = False, name: str = "flytui", wait_approver: float = 0.0
) -> AbstractAsyncContextManager[KernelClient]:
    """Give a client of the kernel that listens on the socket `path`. Raises what `connect_root` raises."""
    # websockets and asyncio, for which `flytui --help` would wait.
    from flycore.client.kernel_link import link_to

    return keep_client(partial(link_to, path, viewer=viewer, name=name), wait_approver=wait_approver)


@asynccontextmanager
async def keep_client(
    open_link: OpenLink,
    *,
    finder: KernelFinder | None = None,
    wait_approver: float = 0.0,
    link_for_call: OpenLink | None = None,
) -> AsyncIterator[KernelClient]:
    """Give a connected client for the block. Raises what opening the connection raises."""
    with single_exception():
        async with anyio.create_task_group() as group:
            client = KernelClient(
                group,
                open_link,
                finder=finder,
                wait_approver=wait_approver,
                link_for_call=link_for_call,
            )
            await client.link()
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await client.release()


def _link_of_root(
    places: RootPaths, *, viewer: bool = False, name: str = "flytui"
) -> AbstractAsyncContextManager[KernelLink]:
    # websockets and asyncio, for which `flytui --help` would wait.
    from flycore.client.kernel_link import link_to

    # The lock names the socket: the next kernel may have been started in another environment.
    return link_to(kernel_socket(places), viewer=viewer, name=name)


def _find_paths(root: str | os.PathLike[str] | None) -> RootPaths:
    return find_paths(None if root is None else os.fspath(root), None, os.environ, Path.cwd())
