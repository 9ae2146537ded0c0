"""A connection to a kernel over its Unix socket or over one that the supervisor handed over, through
`flyflor.ws.v1`."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

import flycore
from flycore.client.handshake import check_folder, read_hello
from flycore.model.base import Value
from flycore.model.errors import ConnectionLost, KernelUnreachable, ProtocolError, single_exception
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.messages import EVENT_PROTOCOL, ServerHello, envelope
from flycore.rpc.wire import BACKLOG, MAX_ANSWER_BYTES, hello_payload
from flysafe.command_process import connect_as_stub

CONNECT_SECONDS = 10.0


class Message(Value, frozen=True, kw_only=True):
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


class KernelLink:
    """One connection to a kernel: messages, their answers, and events. `run` must be running while it is
    used."""

    def __init__(self, connection: ClientConnection, hello: ServerHello) -> None:
        self._connection = connection
        self.hello = hello
        """The kernel's first message."""
        self.ended = anyio.Event()
        """Set once the connection has ended."""
        self._ids = itertools.count(1)
        self._pending: dict[str, MemoryObjectSendStream[Message]] = {}
        self._listeners: list[tuple[frozenset[EventClass] | None, MemoryObjectSendStream[Event]]] = []

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

    def _receive(self, message: Message) -> None:
        if message.protocol == EVENT_PROTOCOL:
            self._publish(message)
        elif message.correlation_id in self._pending:
            stream = self._pending[message.correlation_id]
            # The reader of one call must not block the others: progress is dropped where it does not fit,
            # and one place is kept for the result.
            if message.type != "tool.progress" or stream.statistics().current_buffer_used < BACKLOG - 1:
                stream.send_nowait(message)

    def _publish(self, message: Message) -> None:
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
    async def exchange(
        self, kind: str, payload: JsonObject, message_id: str
    ) -> AsyncIterator[AsyncIterator[Message]]:
        """Send a message and give its answers until the block ends. Raises ConnectionLost, ProtocolError."""
        send, receive = anyio.create_memory_object_stream[Message](BACKLOG)
        self._pending[message_id] = send  # before the message is sent: the answer may come at once

        async def answers() -> AsyncIterator[Message]:
            async for message in receive:
                if message.type == "error":
                    fields = message.fields()
                    code, text = str(fields.get("code")), str(fields.get("message"))
                    raise ProtocolError(f"{code}: {text}", code=code, said=text)
                yield message
            raise ConnectionLost("the kernel went away")

        try:
            await self.send(kind, payload, message_id)
            yield answers()
        finally:
            del self._pending[message_id]
            send.close()
            receive.close()

    def new_id(self) -> str:
        return f"r{next(self._ids)}"

    async def send(self, kind: str, payload: JsonObject, message_id: str) -> None:
        try:
            await self._connection.send(envelope(kind, payload, message_id=message_id))
        except ConnectionClosed as error:
            raise ConnectionLost("the kernel went away") from error

    async def ask(self, kind: str, payload: JsonObject) -> Message:
        """Send a message and return its answer. Raises ConnectionLost, ProtocolError."""
        async with self.exchange(kind, payload, self.new_id()) as answers:
            return await anext(answers)

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to events of these classes, or of all."""
        send, receive = anyio.create_memory_object_stream[Event](BACKLOG)
        listener = (classes, send)
        self._listeners.append(listener)
        try:
            await self.ask("event.subscribe", {})
            yield receive
        finally:
            self._listeners.remove(listener)
            send.close()
            receive.close()


_MESSAGES = msgspec.json.Decoder(Message)


def link_to(path: Path, *, viewer: bool, name: str) -> AbstractAsyncContextManager[KernelLink]:
    """Connect to the kernel that listens on the socket `path`.

    Raises KernelUnreachable, UnsafeSocket if the folder or the kernel belongs to another user, and
    OtherVersion if the kernel uses another protocol.
    """
    check_folder(path)
    return _open_link(partial(_connect, path), path, viewer, name)


async def _connect(path: Path) -> ClientConnection:
    # The kernel identifies the caller by the process that opened the connection.
    opened = connect_as_stub(str(path))
    named = {"path": str(path)} if opened is None else {"sock": opened}
    return await unix_connect(open_timeout=CONNECT_SECONDS, **named, **_OPTIONS)


def handed_over_link(
    connection: socket.socket, path: Path, name: str
) -> AbstractAsyncContextManager[KernelLink]:
    """Connect as a viewer over a connection that the supervisor handed over. `path` names the kernel in
    errors.

    Raises KernelUnreachable if the kernel ended before it answered.
    """
    opening = partial(unix_connect, sock=connection, open_timeout=CONNECT_SECONDS, **_OPTIONS)
    return _open_link(opening, path, True, name)


_OPTIONS: dict[str, Any] = {
    "uri": "ws://localhost/ws",
    "max_size": MAX_ANSWER_BYTES,
    "compression": None,
    "proxy": None,
    "close_timeout": 1,
    "ping_interval": None,
}


@asynccontextmanager
async def _open_link(
    opening: Callable[[], Awaitable[ClientConnection]], path: Path, viewer: bool, name: str
) -> AsyncIterator[KernelLink]:
    try:
        connection = await opening()
    except (OSError, InvalidHandshake, InvalidMessage, ConnectionClosed, EOFError, TimeoutError) as error:
        raise KernelUnreachable(str(path)) from error
    try:
        link = KernelLink(connection, await read_hello(connection, path))
        with single_exception():
            async with anyio.create_task_group() as group:
                group.start_soon(link.run)
                hello = cast(JsonObject, hello_payload(name, viewer=viewer, version=flycore.__version__))
                try:
                    await link.ask("client.hello", hello)
                except ConnectionLost as error:
                    raise KernelUnreachable(str(path)) from error
                yield link
                group.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(2, shield=True):
            await connection.close()
