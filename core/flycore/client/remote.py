"""The client and the approver over the Unix socket: the same interfaces through `flyflor.ws.v1`."""

from __future__ import annotations

import gc
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

import flycore
from flycore.client.handshake import check_folder, read_hello
from flycore.kernel.lock import kernel_socket as kernel_socket
from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.call import CallError, Progress, ToolResult
from flycore.model.catalog import Capability, CapabilityView, Catalog
from flycore.model.enums import Code
from flycore.model.enums import Status as CallStatus
from flycore.model.errors import ConnectionLost, KernelUnreachable, ProtocolError, single_exception
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.shared_values import SharedValues, share_names, with_shared_values
from flycore.model.stability import Stability
from flycore.model.status import Status
from flycore.registry.paths import RootPaths
from flycore.rpc.messages import EVENT_PROTOCOL, ServerHello, envelope
from flycore.rpc.method_row import Method
from flycore.rpc.methods import OnProgress
from flycore.rpc.proxies import ApproverProxy, ClientProxy
from flycore.rpc.wire import MAX_ANSWER_BYTES, call_payload, hello_payload

CONNECT_SECONDS = 10.0
BACKLOG = 1000
"""Messages or events that wait for a slow reader; further ones are dropped."""
CONNECTION_LOST = "the connection to the kernel was lost before it answered"


class _Message(Value, frozen=True, kw_only=True):
    """A message of the kernel, whose payload is decoded by those who know its type."""

    # A catalog of 10,000 tools has 25 MB: as dictionaries first it would take the console twice as long.
    protocol: str
    type: str
    correlation_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")

    def fields(self) -> JsonObject:
        """Return the payload as a dictionary."""
        decoded: JsonObject = msgspec.json.decode(self.payload, type=dict)
        return decoded


class _CatalogAnswer(Value, frozen=True, kw_only=True):
    catalog: dict[str, msgspec.Raw]


class _ReadView(Value, frozen=True, kw_only=True):
    """A `CapabilityView` whose snapshot is not read yet."""

    capability: Capability
    sidecar: str | None
    source: str
    stability: msgspec.Raw
    decision: str = ""
    because: str = ""
    hidden: bool = False


_VIEWS = msgspec.json.Decoder(_ReadView)


def _catalog_in(payload: msgspec.Raw) -> Catalog:
    """Return the catalog in an answer. Tools with equal snapshots share one, as they do in the kernel: those
    of a sidecar have the same, and it is the largest part of a tool. So do tools with equal texts and equal
    schemas."""
    parts = msgspec.json.decode(payload, type=_CatalogAnswer).catalog
    snapshots: dict[bytes, Stability] = {}
    shared = SharedValues()
    views: list[CapabilityView] = []
    # One tool at a time: what is not kept of it makes room for the next, instead of for nothing later.
    for written in msgspec.json.decode(parts.pop("capabilities"), type=list[msgspec.Raw]):
        view = _VIEWS.decode(written)
        text = bytes(view.stability)
        if (stability := snapshots.get(text)) is None:
            stability = snapshots[text] = msgspec.json.decode(text, type=Stability)
        views.append(
            CapabilityView(
                capability=with_shared_values(view.capability, shared),
                sidecar=shared.optional(view.sidecar),
                source=shared.text(view.source),
                stability=stability,
                decision=shared.text(view.decision),
                because=shared.text(view.because),
                hidden=view.hidden,
            )
        )
    catalog = msgspec.json.decode(msgspec.json.encode(parts), type=Catalog)
    for sidecar in catalog.sidecars:
        share_names(sidecar.entry, shared)
    return msgspec.structs.replace(catalog, capabilities=tuple(views))


class RemoteClient(ClientProxy):
    """A client of the kernel that holds the root. `run` must be running while it is used."""

    def __init__(self, connection: ClientConnection, hello: ServerHello, wait_approver_ms: int = 0) -> None:
        self._connection = connection
        self.hello = hello
        """The kernel's first message."""
        self.ended = anyio.Event()
        """Set once the connection has ended."""
        self._ids = itertools.count(1)
        self._pending: dict[str, MemoryObjectSendStream[_Message]] = {}
        self._listeners: list[tuple[frozenset[EventClass] | None, MemoryObjectSendStream[Event]]] = []
        self._wait_approver_ms = wait_approver_ms

    async def run(self) -> None:
        """Read messages until the connection ends; then end the streams of all who wait."""
        try:
            while True:
                self._receive(_MESSAGES.decode(await self._connection.recv(decode=False)))
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()
            for waiting in self._pending.values():
                waiting.close()
            for _, listener in self._listeners:
                listener.close()

    def _receive(self, message: _Message) -> None:
        if message.protocol == EVENT_PROTOCOL:
            self._publish(message)
        elif message.correlation_id in self._pending:
            stream = self._pending[message.correlation_id]
            # The reader of one call must not block the others: progress is dropped where it does not fit,
            # and one place is kept for the result.
            if message.type != "tool.progress" or stream.statistics().current_buffer_used < BACKLOG - 1:
                stream.send_nowait(message)

    def _publish(self, message: _Message) -> None:
        body = message.fields()
        event = Event(
            cls=EventClass(cast(str, body["class"])),
            type=cast(str, body["type"]),
            at=cast(float, body["at"]),
            payload=cast(JsonObject, body["payload"]),
        )
        for classes, stream in self._listeners:
            if classes is not None and event.cls not in classes and event.type != MISSED:
                continue
            room = BACKLOG - stream.statistics().current_buffer_used
            if room > 1:
                stream.send_nowait(event)
            elif room == 1:  # the last place reports that the following events were lost
                stream.send_nowait(Event(cls=EventClass.SNAPSHOT, type=MISSED, at=event.at))

    @asynccontextmanager
    async def _exchange(
        self, kind: str, payload: JsonObject, message_id: str
    ) -> AsyncIterator[AsyncIterator[_Message]]:
        """Send a message and give its answers until the block ends. Raises ConnectionLost, ProtocolError."""
        send, receive = anyio.create_memory_object_stream[_Message](BACKLOG)
        self._pending[message_id] = send  # before the message is sent: the answer may come at once

        async def answers() -> AsyncIterator[_Message]:
            async for message in receive:
                if message.type == "error":
                    fields = message.fields()
                    code, text = str(fields.get("code")), str(fields.get("message"))
                    raise ProtocolError(f"{code}: {text}", code=code, said=text)
                yield message
            raise ConnectionLost("the kernel went away")

        try:
            await self._send(kind, payload, message_id)
            yield answers()
        finally:
            del self._pending[message_id]
            send.close()
            receive.close()

    def _new_id(self) -> str:
        return f"r{next(self._ids)}"

    async def _send(self, kind: str, payload: JsonObject, message_id: str) -> None:
        try:
            await self._connection.send(envelope(kind, payload, message_id=message_id))
        except ConnectionClosed as error:
            raise ConnectionLost("the kernel went away") from error

    async def ask_for(self, kind: str, payload: JsonObject | None = None) -> JsonObject:
        """Send a message and return the payload of its answer. Raises ConnectionLost, ProtocolError."""
        return (await self._answer(kind, payload or {})).fields()

    async def _answer(self, kind: str, payload: JsonObject) -> _Message:
        async with self._exchange(kind, payload, self._new_id()) as answers:
            return await anext(answers)

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Send the message of that method and return the result from its answer."""
        return method.result_in(await self.ask_for(method.message, method.payload_of(arguments)))

    async def status(self) -> Status:
        """Return the state of the kernel, which is the whole payload of the answer."""
        payload = await self.ask_for("gateway.status.get")
        return msgspec.convert(payload, Status)

    async def catalog(self, outline: bool = False) -> Catalog:
        """Return the catalog, or its outline. Other programs read it as a document without `detail`."""
        wanted: JsonObject = {"detail": True, **({"outline": True} if outline else {})}
        answer = await self._answer("capability.catalog.get", wanted)
        # Nothing of what is made here is garbage, and looking for garbage would double the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            return _catalog_in(answer.payload)
        finally:
            if collects:
                gc.enable()

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
        """Run a tool.

        Where the connection is lost after the kernel accepted the call, the result is `outcome-unknown`,
        because the call may have had effects. Before that, ConnectionLost is raised, and calling again is
        safe.
        """
        payload = cast(
            JsonObject,
            call_payload(
                tool,
                input,
                timeout_ms=timeout_ms,
                purpose=purpose,
                wait_approver_ms=self._wait_approver_ms,
                inline_wait_ms=inline_wait_ms,
                observe=observe,
                samples=samples,
            ),
        )
        call_id, message_id = "", self._new_id()
        try:
            async with self._exchange("tool.call", payload, message_id) as answers:
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
                        await self._send("tool.cancel", {"requestId": message_id}, self._new_id())
                    raise
        except ConnectionLost:
            if not call_id:  # the kernel reports progress before a call has any effect
                raise
            return outcome_unknown(tool, call_id)
        raise ConnectionLost("the kernel ended the call without a result")

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to events of these classes, or of all."""
        send, receive = anyio.create_memory_object_stream[Event](BACKLOG)
        listener = (classes, send)
        self._listeners.append(listener)
        try:
            await self.ask_for("event.subscribe")
            yield receive
        finally:
            self._listeners.remove(listener)
            send.close()
            receive.close()


_MESSAGES = msgspec.json.Decoder(_Message)


def outcome_unknown(tool: str, call_id: str) -> ToolResult:
    """Return the result of a call whose kernel was lost while it ran."""
    error = CallError(
        code=Code.OUTCOME_UNKNOWN,
        message="the connection to the kernel was lost while the call ran",
        hint="it is not known whether the call took effect: check before you call again (flytui audit tail)",
    )
    return ToolResult(status=CallStatus.UNKNOWN, tool=tool, sidecar=None, call_id=call_id, error=error)


@asynccontextmanager
async def connect_unix(
    path: Path, *, viewer: bool = False, name: str = "flytui", wait_approver_ms: int = 0
) -> AsyncIterator[RemoteClient]:
    """Give a client of the kernel that listens on the socket `path`.

    Raises KernelUnreachable, UnsafeSocket where the folder or the kernel belongs to another user, and
    OtherVersion where the kernel uses another protocol.
    """
    check_folder(path)
    opening = unix_connect(str(path), open_timeout=CONNECT_SECONDS, **_OPTIONS)
    async with _client_of(opening, path, viewer, name, wait_approver_ms) as client:
        yield client


@asynccontextmanager
async def connect_handed_over(
    connection: socket.socket, path: Path, name: str
) -> AsyncIterator[RemoteClient]:
    """Give a viewer over a connection that the supervisor handed over. `path` names the kernel in errors.

    Raises KernelUnreachable where the kernel ended before it answered.
    """
    opening = unix_connect(sock=connection, open_timeout=CONNECT_SECONDS, **_OPTIONS)
    async with _client_of(opening, path, True, name, 0) as client:
        yield client


_OPTIONS: dict[str, Any] = {
    "uri": "ws://localhost/ws",
    "max_size": MAX_ANSWER_BYTES,
    "compression": None,
    "proxy": None,
    "close_timeout": 1,
    "ping_interval": None,
}


@asynccontextmanager
async def _client_of(
    opening: Any, path: Path, viewer: bool, name: str, wait_approver_ms: int
) -> AsyncIterator[RemoteClient]:
    try:
        connection = await opening
    except (OSError, InvalidHandshake, InvalidMessage, ConnectionClosed, EOFError, TimeoutError) as error:
        raise KernelUnreachable(str(path)) from error
    try:
        client = RemoteClient(connection, await read_hello(connection, path), wait_approver_ms)
        with single_exception():
            async with anyio.create_task_group() as group:
                group.start_soon(client.run)
                hello = cast(JsonObject, hello_payload(name, viewer=viewer, version=flycore.__version__))
                try:
                    await client.ask_for("client.hello", hello)
                except ConnectionLost as error:
                    raise KernelUnreachable(str(path)) from error
                yield client
                group.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(2, shield=True):
            await connection.close()


@asynccontextmanager
async def connect_root(
    places: RootPaths, *, viewer: bool = False, name: str = "flytui", wait_approver_ms: int = 0
) -> AsyncIterator[RemoteClient]:
    """Give a client of the kernel that holds the root, whatever environment that kernel started with.

    Raises what `connect_unix` raises.
    """
    async with connect_unix(
        kernel_socket(places), viewer=viewer, name=name, wait_approver_ms=wait_approver_ms
    ) as client:
        yield client


class RemoteApprover(ApproverProxy):
    """The approver of a console, which sends each decision over its paired connection.

    A decision has no effect where the connection is lost, and its outcome says so. The kernel learned the
    windows and processes of the console with `console.attach`, and releases them when the connection ends.
    """

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Send the decision and return its outcome."""
        outcome = await self._outcome(method, arguments)
        return outcome.accepted if method.result is bool else outcome

    async def _outcome(self, method: Method, arguments: tuple[Any, ...]) -> Outcome:
        try:
            payload = await self._client.ask_for(method.message, method.payload_of(arguments))
        except ConnectionLost:
            return Outcome(accepted=False, why_not=CONNECTION_LOST)
        except ProtocolError as error:
            return Outcome(accepted=False, why_not=error.said or str(error))
        return msgspec.convert(payload[method.key], Outcome)
