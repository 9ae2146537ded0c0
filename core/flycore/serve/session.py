"""One connection: reads messages and answers them. Only a paired console's decide anything (`approving`)."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

from flycore.catalog.document import catalog_document, kits_document, without_rules
from flycore.kernel.kernel import Kernel
from flycore.kernel.presence import Present
from flycore.model.approval import Ask
from flycore.model.call import Caller
from flycore.model.events import MISSED, Event
from flycore.model.json import JsonObject, NotStrict, canonical_json, read_strict
from flycore.serve import messages as m
from flycore.serve import remote, tokening
from flycore.serve.approving import Approving
from flycore.serve.calls import ConnectionCalls
from flycore.serve.console_messages import CONSOLE_PAYLOADS
from flycore.serve.reading import DETAILS, FOR_VIEWERS, READS, Reader

OTHER_PROTOCOL = f"this door speaks {m.PROTOCOL}: restart the older of the two programs"


class Connection(Protocol):
    """What a session needs of a WebSocket."""

    async def recv(self, *, decode: Literal[False]) -> bytes:
        """The next message as it came, whatever its bytes; raises ConnectionClosed."""
        ...

    async def send(self, message: str) -> None:
        """Send one message; raises ConnectionClosed."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


def for_reading(ask: Ask, *, viewer: bool, approver: bool = False) -> Ask:
    """An ask as a paired console sees it, which is all of it, or as other programs may: the confirming
    letter and what a mask hides are for the person's eyes alone, and which rules asked, what changed
    meanwhile, and what the kernel read of a file, is not for agents."""
    if approver:
        return ask
    asked, subject = ask.request.without_crops("it is shown in the console alone"), ask.request.subject
    if not viewer and subject.preview is not None and subject.preview.file:
        subject = msgspec.structs.replace(subject, preview=None)
    if asked.input_json != canonical_json(subject.input):
        subject = msgspec.structs.replace(subject, input=_masked_input(asked.input_json))
    request = msgspec.structs.replace(
        asked,
        letter="",
        why=asked.why if viewer else (),
        difference=asked.difference if viewer else (),
        subject=subject,
    )
    return msgspec.structs.replace(ask, request=request)


def _masked_input(text: str) -> JsonObject:
    """The input as its card spells it; nothing where masking left no JSON."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _subscribed(wanted: m.Subscribe, event: Event) -> bool:
    """Whether the event is one of those; that some were lost is told to everybody."""
    named = not wanted.classes or event.cls in wanted.classes
    return event.type == MISSED or (named and (not wanted.types or event.type in wanted.types))


class Session:
    """The server's side of one connection. The caller is who the transport says, never who a message says."""

    def __init__(self, kernel: Kernel, connection: Connection, caller: Caller, pid: int = 0) -> None:
        self._kernel = kernel
        self._connection = connection
        self._caller = caller
        self._present, self._viewer = Present(), False
        self._greeted = False
        self._ids = itertools.count(1)
        self._calls = ConnectionCalls(kernel, self._send)
        self._approving = Approving(kernel, self._send, self._error, pid)
        self._subscription: m.Subscribe | None = None
        self._handlers: dict[str, Callable[[m.Envelope, TaskGroup], Awaitable[None]]] = {
            **dict.fromkeys(READS, self._read_out),
            **dict.fromkeys(DETAILS, self._read_detail),
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
            **dict.fromkeys(CONSOLE_PAYLOADS, self._of_console),
            "call.picture.get": self._picture,
            "trust.revoke": self._revoke_trust,
            "panic": self._panic,
            "sidecar.probe": self._probe,
            "kernel.yield": self._yield,
            **dict.fromkeys(tokening.MESSAGES, self._tokens),
        }

    async def run(self) -> None:
        """Serve until the peer leaves; its calls are cancelled, its requests withdrawn."""
        with self._kernel.client() as self._present, suppress(ConnectionClosed):
            await self._greet()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._events)
                    await self._read(group)
                    group.cancel_scope.cancel()
            except* ConnectionClosed:
                pass
            finally:
                self._approving.leave(self._caller)

    async def settled(self) -> None:
        """Wait until the peer has been told how each of its calls ended."""
        await self._calls.settled()

    async def _read(self, group: TaskGroup) -> None:
        while True:
            try:
                frame = await self._connection.recv(decode=False)
            except ConnectionClosed:
                return
            try:
                message = msgspec.convert(read_strict(frame), m.Envelope)
            except (NotStrict, msgspec.ValidationError) as error:
                await self._error(None, m.ErrorCode.INVALID_ENVELOPE, str(error))
                continue
            await self._dispatch(message, group)

    async def _dispatch(self, message: m.Envelope, group: TaskGroup) -> None:
        handler = self._handlers.get(message.type)
        if message.protocol != m.PROTOCOL:
            await self._error(message, m.ErrorCode.INVALID_ENVELOPE, OTHER_PROTOCOL)
        elif handler is None:
            await self._error(message, m.ErrorCode.UNSUPPORTED_MESSAGE, "unknown message type")
        elif not remote.is_taken(message.type, self._caller):
            await self._error(message, m.ErrorCode.UNAUTHORIZED, remote.ONLY_LOCAL)
        else:
            try:
                await handler(message, group)
            except msgspec.ValidationError as error:
                await self._error(message, m.ErrorCode.INVALID_PAYLOAD, str(error))

    async def _send(self, kind: str, payload: object, answers: m.Envelope | None) -> None:
        await self._connection.send(
            m.envelope(kind, payload, message_id=f"s{next(self._ids)}", answers=answers)
        )

    async def _error(self, answers: m.Envelope | None, code: m.ErrorCode, message: str) -> None:
        await self._send("error", {"code": code.value, "message": message[:400]}, answers)

    async def _greet(self) -> None:
        status = self._kernel.status()
        commands = sorted(kind for kind in self._handlers if remote.is_taken(kind, self._caller))
        hello = {
            "clientId": f"c{secrets.token_hex(4)}",
            "connectedAt": round(time.time(), 6),
            "capabilities": {"commands": commands, "eventStream": True, "protocol": m.PROTOCOL},
            "kits": kits_document(without_rules(self._kernel.catalog()).described),
            "status": msgspec.to_builtins(status),
        }
        await self._send("server.hello", hello, None)

    async def _hello(self, message: m.Envelope, _: TaskGroup) -> None:
        hello = msgspec.convert(message.payload, m.Hello)
        if self._greeted:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "a connection keeps the role it began with")
            return
        if hello.viewer and remote.comes_in_by_token(self._caller):
            await self._error(message, m.ErrorCode.UNAUTHORIZED, remote.ONLY_LOCAL)
            return
        self._greeted = True
        self._viewer = self._present.viewer = hello.viewer
        self._approving.version = hello.version
        self._caller = msgspec.structs.replace(self._caller, claims=hello.client[:200])
        await self._send("ack", {}, message)

    async def _ping(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        await self._send("pong", {}, message)

    async def _status(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        status: JsonObject = msgspec.to_builtins(self._kernel.status())
        await self._send("gateway.status.snapshot", {**status, "clientCount": status["clients"]}, message)

    async def _catalog(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.CatalogGet)
        catalog = self._kernel.catalog("" if self._viewer else self._caller.key)
        seen = catalog if self._viewer else without_rules(catalog)
        kits = kits_document(seen.described)
        detail: JsonObject = {"kits": kits, "catalog": msgspec.to_builtins(seen)}
        payload = detail if wanted.detail else catalog_document(seen)
        await self._send("capability.catalog.snapshot", payload, message)

    async def _subscribe(self, message: m.Envelope, _: TaskGroup) -> None:
        self._subscription = msgspec.convert(message.payload, m.Subscribe)
        await self._send("ack", msgspec.to_builtins(self._subscription), message)

    async def _unsubscribe(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Subscribe)
        self._subscription = None
        await self._send("ack", {"classes": [], "types": []}, message)

    async def _events(self) -> None:
        with self._kernel.bus.subscribe(person=lambda: self._approving.paired) as events:
            async for event in events:
                if self._wants(event):
                    await self._connection.send(
                        m.envelope(
                            "event.publish",
                            m.event_payload(event),
                            message_id=f"s{next(self._ids)}",
                            protocol=m.EVENT_PROTOCOL,
                        )
                    )

    def _wants(self, event: Event) -> bool:
        """Whether the peer has asked for it, and may see it: what concerns a call is for its caller."""
        call_id, about = event.payload.get("callId"), event.payload.get("about")
        if self._subscription is None or not _subscribed(self._subscription, event):
            return False
        own = not isinstance(call_id, str) or self._kernel.caller_of(call_id) == self._caller.key
        mine = not isinstance(about, str) or about == self._caller.key
        return self._viewer or (own and mine)

    async def _call(self, message: m.Envelope, group: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.ToolCall)
        self._greeted = True  # who has called does not become a viewer, and so no console
        if self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "a viewer does not call tools")
        elif not self._calls.accepts(message.id):
            await self._error(message, m.ErrorCode.INVALID_PAYLOAD, "that id is in use, or too many calls")
        else:
            await self._calls.take(message, wanted, self._caller, group)

    async def _cancel(self, message: m.Envelope, _: TaskGroup) -> None:
        """A peer ends its own calls; a viewer, which is a person's command line, any."""
        wanted = msgspec.convert(message.payload, m.ToolCancel)
        ended = self._kernel.cancel(wanted.call_id) if self._viewer else self._calls.cancel(wanted)
        await self._send("ack", {"cancelled": ended}, message)

    @property
    def _reader(self) -> Reader:
        return Reader(self._caller, self._viewer)

    async def _asks(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        await self._send_asks(message, "")

    async def _ask(self, message: m.Envelope, _: TaskGroup) -> None:
        await self._send_asks(message, msgspec.convert(message.payload, m.AskGet).id)

    async def _send_asks(self, message: m.Envelope, wanted: str) -> None:
        asks = [
            for_reading(ask, viewer=self._viewer, approver=self._approving.paired)
            for ask in self._kernel.asks()
            if wanted in ("", ask.request.id) and self._reader.sees(ask.request.caller)
        ]
        await self._send("ask.snapshot", {"asks": msgspec.to_builtins(asks)}, message)

    async def _picture(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.PictureGet)
        seen = self._viewer or self._kernel.caller_of(wanted.call_id) == self._caller.key
        picture = await self._kernel.picture(wanted.call_id, wanted.index) if seen else None
        await self._send("call.picture.snapshot", {"picture": msgspec.to_builtins(picture)}, message)

    async def _of_console(self, message: m.Envelope, _: TaskGroup) -> None:
        await self._approving.take(message, self._caller, viewer=self._viewer)

    async def _read_out(self, message: m.Envelope, _: TaskGroup) -> None:
        """Answer what only reads."""
        msgspec.convert(message.payload, m.Nothing)
        if message.type in FOR_VIEWERS and not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, FOR_VIEWERS[message.type])
            return
        await self._send(*await READS[message.type](self._kernel, self._reader), message)

    async def _read_detail(self, message: m.Envelope, _: TaskGroup) -> None:
        """Answer what reads one thing, which the payload names."""
        detail = DETAILS[message.type]
        wanted = msgspec.convert(message.payload, detail.shape)
        await self._send(*await detail.read(self._kernel, self._reader, wanted), message)

    async def _revoke_trust(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "only a viewer takes trust away")
            return
        outcome = await self._kernel.revoke_trust(by=f"flytui trust --revoke, {self._caller}")
        await self._send("ack", msgspec.to_builtins(outcome), message)

    async def _tokens(self, message: m.Envelope, _: TaskGroup) -> None:
        """Only the command line, as a viewer, lets clients in; log and console say who it was."""
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "only a viewer makes or revokes tokens")
            return
        outcome = tokening.change_tokens(self._kernel, message.type, message.payload, self._caller)
        await self._send("ack", msgspec.to_builtins(outcome), message)

    async def _panic(self, message: m.Envelope, _: TaskGroup) -> None:
        """Whoever may connect may stop everything; nothing on this door releases it."""
        msgspec.convert(message.payload, m.Nothing)
        await self._send("ack", {"stopped": await self._kernel.panic(str(self._caller))}, message)

    async def _probe(self, message: m.Envelope, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.SidecarProbe)
        self._kernel.probe(wanted.sidecar)
        await self._send("ack", {}, message)

    async def _yield(self, message: m.Envelope, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Nothing)
        await self._send("ack", {"yielding": self._kernel.yield_root()}, message)
