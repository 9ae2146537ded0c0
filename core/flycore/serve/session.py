"""One connection: reads messages, answers them, and lets none of them decide anything."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

from flycore.catalog.document import catalog_document
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import Caller, CallRequest, Progress
from flycore.model.canonical import JsonObject
from flycore.model.enums import Phase
from flycore.runners.strict_json import NotStrict, read_strict
from flycore.serve import messages as m

MAX_CALLS = 128
"""Calls that one connection may have under way."""


class Connection(Protocol):
    """What a session needs of a WebSocket."""

    async def recv(self) -> str | bytes:
        """The next message; raises ConnectionClosed."""
        ...

    async def send(self, message: str) -> None:
        """Send one message; raises ConnectionClosed."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


def for_reading(ask: Ask, *, viewer: bool) -> Ask:
    """An ask as other programs may see it: the confirming letter is for the person's eyes alone, which
    rule asked is not for agents, and of the input they get what the card shows, secrets masked."""
    subject = msgspec.structs.replace(ask.request.subject, input=json.loads(ask.request.input_json))
    why = ask.request.why if viewer else ()
    request = msgspec.structs.replace(ask.request, letter="", why=why, subject=subject)
    return msgspec.structs.replace(ask, request=request)


class Session:
    """The server's side of one connection. The caller is who the transport says, never who a message says."""

    def __init__(self, kernel: Kernel, connection: Connection, caller: Caller) -> None:
        self._kernel = kernel
        self._connection = connection
        self._caller = caller
        self._viewer = False
        self._ids = itertools.count(1)
        self._calls: dict[str, str] = {}
        self._quiet = anyio.Event()
        self._subscription: m.Subscribe | None = None
        self._handlers: dict[str, Callable[[m.Envelope, TaskGroup], Awaitable[None]]] = {
            "client.hello": self._hello,
            "ping": self._ping,
            "gateway.status.get": self._status,
            "capability.catalog.get": self._catalog,
            "event.subscribe": self._subscribe,
            "event.unsubscribe": self._unsubscribe,
            "tool.call": self._call,
            "tool.cancel": self._cancel,
            "ask.list": self._asks,
            "ask.detail.get": self._ask,
            "ask.decide": self._decide,
            "history.list": self._history,
            "lease.list": self._leases,
            "trust.list": self._trust,
            "sidecar.probe": self._probe,
            "kernel.yield": self._yield,
        }

    async def run(self) -> None:
        """Serve until the peer leaves; its calls are cancelled, its requests withdrawn."""
        with self._kernel.client(), suppress(ConnectionClosed):
            await self._greet()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._events)
                    await self._read(group)
                    group.cancel_scope.cancel()
            except* ConnectionClosed:
                pass

    async def settled(self) -> None:
        """Wait until the peer has been told how each of its calls ended."""
        while self._calls:
            await self._quiet.wait()

    async def _read(self, group: TaskGroup) -> None:
        while True:
            try:
                frame = await self._connection.recv()
            except ConnectionClosed:
                return
            try:
                data = read_strict(frame.encode() if isinstance(frame, str) else frame)
                message = msgspec.convert(data, m.Envelope)
            except (NotStrict, msgspec.ValidationError, UnicodeEncodeError) as error:
                await self._error(None, m.ErrorCode.INVALID_ENVELOPE, str(error))
                continue
            await self._dispatch(message, group)

    async def _dispatch(self, message: m.Envelope, group: TaskGroup) -> None:
        handler = self._handlers.get(message.type)
        if message.protocol != m.PROTOCOL:
            await self._error(message, m.ErrorCode.INVALID_ENVELOPE, f"this door speaks {m.PROTOCOL}")
        elif handler is None:
            await self._error(message, m.ErrorCode.UNSUPPORTED_MESSAGE, "unknown message type")
        else:
            try:
                await handler(message, group)
            except msgspec.ValidationError as error:
                await self._error(message, m.ErrorCode.INVALID_PAYLOAD, str(error))

    async def _send(self, kind: str, payload: object, answers: m.Envelope | None) -> None:
        correlation = answers.id if answers is not None else None
        await self._connection.send(
            m.envelope(kind, payload, message_id=f"s{next(self._ids)}", correlation=correlation)
        )

    async def _error(self, answers: m.Envelope | None, code: m.ErrorCode, message: str) -> None:
        await self._send("error", {"code": code.value, "message": message[:400]}, answers)

    async def _greet(self) -> None:
        status = self._kernel.status()
        hello = {
            "clientId": f"c{id(self):x}",
            "connectedAt": status.since,
            "capabilities": {"commands": sorted(self._handlers), "eventStream": True, "protocol": m.PROTOCOL},
            "kits": [],
            "status": msgspec.to_builtins(status),
        }
        await self._send("server.hello", hello, None)

    async def _hello(self, message: m.Envelope, _: TaskGroup) -> None:
        hello = msgspec.convert(message.payload, m.Hello)
        self._viewer = hello.viewer
        self._caller = msgspec.structs.replace(self._caller, claims=hello.client[:200])
        await self._send("ack", {}, message)

    async def _ping(self, message: m.Envelope, _: TaskGroup) -> None:
        await self._send("pong", {}, message)

    async def _status(self, message: m.Envelope, _: TaskGroup) -> None:
        status: JsonObject = msgspec.to_builtins(self._kernel.status())
        await self._send("gateway.status.snapshot", {**status, "clientCount": status["clients"]}, message)

    async def _catalog(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.CatalogGet)
        catalog = self._kernel.catalog()
        payload = {"kits": [], **catalog_document(catalog)}
        if wanted.detail:
            payload = {"kits": [], "catalog": msgspec.to_builtins(catalog)}
        await self._send("capability.catalog.snapshot", payload, message)

    async def _subscribe(self, message: m.Envelope, _: TaskGroup) -> None:
        self._subscription = msgspec.convert(message.payload, m.Subscribe)
        await self._send("ack", msgspec.to_builtins(self._subscription), message)

    async def _unsubscribe(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Subscribe)
        self._subscription = None
        await self._send("ack", {"classes": [], "types": []}, message)

    async def _events(self) -> None:
        with self._kernel.bus.subscribe() as events:
            async for event in events:
                wanted = self._subscription
                if wanted is None or (wanted.classes and event.cls not in wanted.classes):
                    continue
                if wanted.types and event.type not in wanted.types:
                    continue
                await self._connection.send(
                    m.envelope(
                        "event.publish",
                        m.event_payload(event),
                        message_id=f"s{next(self._ids)}",
                        protocol=m.EVENT_PROTOCOL,
                    )
                )

    async def _call(self, message: m.Envelope, group: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.ToolCall)
        if self._kernel.yielding:
            await self._connection.close()
        elif self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "a viewer does not call tools")
        elif len(self._calls) >= MAX_CALLS or message.id in self._calls:
            await self._error(message, m.ErrorCode.INVALID_PAYLOAD, "that id is in use, or too many calls")
        else:
            request = CallRequest(
                call_id=self._kernel.new_call_id(),
                tool=wanted.tool,
                input=wanted.input,
                caller=self._caller,
                timeout_ms=wanted.timeout_ms,
                said=wanted.say[:2000],
                wait_approver_ms=wanted.wait_approver_ms,
            )
            self._calls[message.id] = request.call_id
            group.start_soon(self._run_call, message, request)

    async def _run_call(self, message: m.Envelope, request: CallRequest) -> None:
        send, receive = anyio.create_memory_object_stream[Progress](64)

        def tell(progress: Progress) -> None:
            if send.statistics().current_buffer_used < 64:
                send.send_nowait(progress)

        async def forward() -> None:
            async with receive:
                async for progress in receive:
                    await self._send("tool.progress", progress, message)

        taken = Progress(call_id=request.call_id, phase=Phase.CHECKING)
        try:
            await self._send("tool.progress", taken, message)
            async with anyio.create_task_group() as group:
                group.start_soon(forward)
                try:
                    result = await self._kernel.call(request, tell)
                finally:
                    send.close()
            await self._send("tool.result", result, message)
        finally:
            del self._calls[message.id]
            self._quiet.set()
            self._quiet = anyio.Event()

    async def _cancel(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.ToolCancel)
        mine = self._calls.get(wanted.request_id) or next(
            (call for call in self._calls.values() if call == wanted.call_id), None
        )
        ended = mine is not None and self._kernel.cancel(mine)
        await self._send("ack", {"cancelled": ended}, message)

    async def _asks(self, message: m.Envelope, _: TaskGroup) -> None:
        asks = [for_reading(ask, viewer=self._viewer) for ask in self._kernel.asks()]
        await self._send("ask.snapshot", {"asks": msgspec.to_builtins(asks)}, message)

    async def _ask(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.AskGet)
        asks = [
            for_reading(ask, viewer=self._viewer)
            for ask in self._kernel.asks()
            if ask.request.id == wanted.id
        ]
        await self._send("ask.snapshot", {"asks": msgspec.to_builtins(asks)}, message)

    async def _decide(self, message: m.Envelope, _: TaskGroup) -> None:
        await self._error(message, m.ErrorCode.UNAUTHORIZED, "only the open console decides")

    async def _history(self, message: m.Envelope, _: TaskGroup) -> None:
        payload = {"calls": msgspec.to_builtins(self._kernel.activity())}
        await self._send("history.snapshot", payload, message)

    async def _leases(self, message: m.Envelope, _: TaskGroup) -> None:
        await self._send("lease.snapshot", {"leases": msgspec.to_builtins(self._kernel.leases())}, message)

    async def _trust(self, message: m.Envelope, _: TaskGroup) -> None:
        payload = {"items": msgspec.to_builtins(self._kernel.pending_trust())}
        await self._send("trust.snapshot", payload, message)

    async def _probe(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.SidecarProbe)
        self._kernel.probe(wanted.sidecar)
        await self._send("ack", {}, message)

    async def _yield(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        await self._send("ack", {"yielding": self._kernel.yield_root()}, message)
