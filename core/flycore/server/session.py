"""The session of one connection: reads the messages of a client and answers them.

Only the messages of a paired console decide anything (`console_session`).
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup
from websockets.exceptions import ConnectionClosed

import flycore
from flycore.catalog.document import catalog_document, kits_document
from flycore.kernel.connections import ConnectionInfo
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Outcome
from flycore.model.call import Caller
from flycore.model.catalog import Catalog
from flycore.model.errors import AuditUnwritable, TokenRefused
from flycore.model.events import MISSED, Event
from flycore.model.json import JsonObject, StrictJsonError, read_strict
from flycore.model.large_values import is_large_text, run_aside
from flycore.rpc import flyflor
from flycore.rpc import messages as m
from flycore.rpc.method_row import Kind, Method, Who
from flycore.rpc.methods import BY_MESSAGE, METHODS
from flycore.server.calls import ConnectionCalls
from flycore.server.console_session import ConsoleSession
from flycore.server.queries import Queries
from flycore.server.tokens import MADE_FOR_URL, TCP_DOOR, TokenStore

Handler = Callable[[m.Envelope, Method, TaskGroup], Awaitable[None]]

ONLY_LOCAL = "only a program of this user may do this, over the Unix socket"
NO_SIDECAR = "a program that flytui started cannot be a viewer: it sees its own calls only"
MAX_ID_CHARS = 200
"""Characters of a message id that is repeated in the answer to a message that is refused."""
OTHER_PROTOCOL = f"this server speaks {m.PROTOCOL}: restart the older of the two programs"


class Connection(Protocol):
    """The methods of a WebSocket that a session uses."""

    async def recv(self, *, decode: Literal[False]) -> bytes:
        """Return the next message as bytes. Raises ConnectionClosed."""
        ...

    async def send(self, message: str) -> None:
        """Send one message. Raises ConnectionClosed."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class Session:
    """The server side of one connection.

    The caller is the one that the transport identified; no message can change it.
    """

    def __init__(
        self,
        kernel: Kernel,
        connection: Connection,
        caller: Caller,
        pid: int = 0,
        *,
        handed_over: bool = False,
        in_flyflor_form: bool = False,
    ) -> None:
        """`handed_over` says that the kernel's supervisor handed this connection over: it is the paired
        console and needs no code. `in_flyflor_form` is set for a client that is known to read this form; of
        any other one, its messages tell."""
        self._kernel = kernel
        self._connection = connection
        self._caller = caller
        self._present, self._viewer = ConnectionInfo(), False
        self._greeted = False
        self._client_id = f"c{secrets.token_hex(4)}"
        self._in_flyflor_form = in_flyflor_form
        self._ids = itertools.count(1)
        self._calls = ConnectionCalls(kernel, self._send)
        self._console = ConsoleSession(kernel, self._send, self._error, pid, handed_over=handed_over)
        self._subscription: m.Subscribe | None = None
        self._handlers: dict[str, Handler] = {
            "client.hello": self._hello,
            "ping": self._ping,
            "gateway.status.get": self._status,
            "capability.catalog.get": self._catalog,
            "event.subscribe": self._subscribe,
            "event.unsubscribe": self._unsubscribe,
            "tool.call": self._call,
            "tool.cancel": self._cancel,
            "console.attach": self._enter,
            "console.pair": self._enter,
            "trust.revoke": self._revoke_trust,
            "kernel.yield": self._yield,
            "terminal.prove": self._prove,
            "token.add": self._tokens,
            "token.revoke": self._tokens,
            "login.change": self._login,
        }
        """Messages that the session answers itself. All others go to Queries or to the approver."""

    async def run(self) -> None:
        """Serve until the peer disconnects, then cancel its calls and withdraw its approval requests."""
        with self._kernel.connection() as self._present, suppress(ConnectionClosed):
            await self._send_hello()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._events)
                    await self._read(group)
                    group.cancel_scope.cancel()
            except* ConnectionClosed:
                pass
            finally:
                self._console.close(self._caller)

    async def wait_until_answered(self) -> None:
        """Wait until the result of every call of this connection has been sent."""
        await self._calls.wait_until_answered()

    async def _read(self, group: TaskGroup) -> None:
        while True:
            try:
                frame = await self._connection.recv(decode=False)
            except ConnectionClosed:
                return
            try:
                document = await run_aside(is_large_text(frame), read_strict, frame)
                message = msgspec.convert(document, m.Envelope)
            except (StrictJsonError, msgspec.ValidationError) as error:
                # Without the id of its message a client could not tell which one the answer is for.
                await self._error(_envelope_of(frame), m.ErrorCode.INVALID_ENVELOPE, str(error))
                continue
            await self._dispatch(message, group)

    async def _dispatch(self, message: m.Envelope, group: TaskGroup) -> None:
        method = BY_MESSAGE.get(message.type)
        self._in_flyflor_form = self._in_flyflor_form or isinstance(message.at, datetime)
        if message.protocol != m.PROTOCOL:
            await self._error(message, m.ErrorCode.INVALID_ENVELOPE, OTHER_PROTOCOL)
        elif method is None:
            await self._error(message, m.ErrorCode.UNSUPPORTED_MESSAGE, "unknown message type")
        elif not self._accepts(method):
            await self._error(message, m.ErrorCode.UNAUTHORIZED, ONLY_LOCAL)
        else:
            try:
                await self.handler_of(method)(message, method, group)
            except msgspec.ValidationError as error:
                await self._error(message, m.ErrorCode.INVALID_PAYLOAD, str(error))

    def handler_of(self, method: Method) -> Handler:
        """Return the handler that answers the message of that method."""
        if method.shape is m.DataSnapshot and not method.name:
            return self._answer_without_data
        handler = self._handlers.get(method.message)
        return handler or (self._decide if method.kind is Kind.DECISION else self._query)

    def _accepts(self, method: Method) -> bool:
        """Return whether this caller may send the message of that method at all."""
        # A caller over TCP is known by its token only, not by its process. It is an agent: it may read what
        # belongs to it and call tools, and nothing else.
        return method.who is Who.TOKEN or self._caller.door != TCP_DOOR

    async def _send(self, kind: str, payload: object, answers: m.Envelope | None) -> None:
        if self._in_flyflor_form and kind == "ack" and answers is not None and isinstance(payload, dict):
            payload = {**payload, **self._flyflor_ack(answers.type)}
        await self._connection.send(
            m.envelope(
                kind,
                payload,
                message_id=f"s{next(self._ids)}",
                answers=answers,
                text_time=self._in_flyflor_form,
            )
        )

    def _flyflor_ack(self, received: str) -> JsonObject:
        """Return what an `ack` has in the form of Flyflor."""
        subscribed = () if self._subscription is None else (msgspec.to_builtins(self._subscription),)
        return {"clientId": self._client_id, "received": received, "subscriptions": list(subscribed)}

    async def _error(self, answers: m.Envelope | None, code: m.ErrorCode, message: str) -> None:
        await self._send("error", {"code": code.value, "message": message[:400]}, answers)

    async def _send_hello(self) -> None:
        hello = m.ServerHello(protocol=m.PROTOCOL, version=flycore.__version__, pid=os.getpid())
        if self._caller.door == TCP_DOOR:
            hello = self._hello_over_tcp(hello)
        await self._send("server.hello", hello, None)

    def _hello_over_tcp(self, hello: m.ServerHello) -> m.ServerHello:
        """Return the greeting with the keys that Flyflor's protocol promises."""
        return msgspec.structs.replace(
            hello,
            client_id=self._client_id,
            connected_at=flyflor.rfc3339(time.time()),
            capabilities=m.Abilities(
                commands=tuple(sorted(method.message for method in METHODS if self._accepts(method))),
                event_stream=True,
                protocol=m.PROTOCOL,
                semantic_types=flyflor.SEMANTIC_TYPES,
            ),
            kits=_kit_catalog(self._kernel.catalog()),
            status=self._gateway_status()[1],
        )

    def _gateway_status(self) -> tuple[JsonObject, JsonObject]:
        """Return the state of the kernel, and the same with the keys of Flyflor's gateway."""
        status = self._kernel.status()
        gateway = flyflor.gateway_status(status.clients, status.listening, status.since)
        return msgspec.to_builtins(status), gateway

    async def _hello(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        hello = msgspec.convert(message.payload, m.Hello)
        if self._greeted:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "a connection cannot change its role")
            return
        if hello.viewer and self._caller.door == TCP_DOOR:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, ONLY_LOCAL)
            return
        if hello.viewer and not self._caller.is_program:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, NO_SIDECAR)
            return
        self._greeted = True
        self._viewer = hello.viewer
        self._present.declare(agent=not hello.viewer)
        self._console.version = hello.version
        self._caller = msgspec.structs.replace(self._caller, claims=hello.claims[:200])
        await self._send("ack", {}, message)

    async def _ping(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        await self._send("pong", {"now": flyflor.rfc3339(time.time())}, message)

    async def _status(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        status, gateway = self._gateway_status()
        answer = {**status, "clientCount": status["clients"], "status": gateway}
        await self._send("gateway.status.snapshot", answer, message)

    async def _catalog(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.CatalogGet)
        seen = await self._queries.catalog(wanted.outline and wanted.detail)
        if self._in_flyflor_form:
            document = catalog_document(seen)
            del document["kits"]
            answer = {"catalog": document, "kits": _kit_catalog(seen)}
            await self._send("capability.catalog.snapshot", answer, message)
            return
        # The values are encoded as they are. As dictionaries 10,000 tools would hold the loop for seconds.
        detail: dict[str, object] = {"kits": kits_document(seen.described), "catalog": seen}
        payload = detail if wanted.detail else catalog_document(seen)
        await self._send("capability.catalog.snapshot", payload, message)

    async def _subscribe(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        self._subscription = msgspec.convert(message.payload, m.Subscribe)
        await self._send("ack", msgspec.to_builtins(self._subscription), message)

    async def _unsubscribe(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.Subscribe)
        self._subscription = None
        await self._send("ack", {"classes": [], "types": []}, message)

    async def _events(self) -> None:
        # Most connections subscribe to nothing, and a call has a dozen events: none of these wakes them.
        subscribe = self._kernel.bus.subscribe
        with subscribe(person=lambda: self._console.paired, wants=self._is_subscribed) as events:
            async for event in events:
                if self._should_send(event):
                    payload, message_id = m.event_payload(event), f"s{next(self._ids)}"
                    if self._in_flyflor_form:
                        payload = flyflor.event_payload(payload, message_id)
                    await self._connection.send(
                        m.envelope(
                            "event.publish",
                            payload,
                            message_id=message_id,
                            protocol=m.EVENT_PROTOCOL,
                            text_time=self._in_flyflor_form,
                        )
                    )

    def _is_subscribed(self, event: Event) -> bool:
        """Return whether the peer subscribed to the event."""
        return self._subscription is not None and _matches(self._subscription, event)

    def _should_send(self, event: Event) -> bool:
        """Return whether the peer subscribed to the event, still, and may see it."""
        call_id, about = event.payload.get("callId"), event.payload.get("about")
        if not self._is_subscribed(event):
            return False
        # An agent sees events of its own calls and about itself, and events that concern no caller.
        own_call = not isinstance(call_id, str) or self._kernel.caller_of(call_id) == self._caller.key
        about_self = not isinstance(about, str) or about == self._caller.key
        return self._viewer or (own_call and about_self)

    async def _call(self, message: m.Envelope, method: Method, group: TaskGroup) -> None:
        wanted = msgspec.convert(message.payload, m.ToolCall)
        # A client that called a tool must not become a viewer later: a viewer can become a console, which
        # could approve the client's own calls.
        self._greeted = True
        self._present.declare(agent=not self._viewer)
        if self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, "a viewer cannot call tools")
        elif not self._calls.accepts(message.id):
            problem = "this id is in use, or too many calls are running"
            await self._error(message, m.ErrorCode.INVALID_PAYLOAD, problem)
        else:
            await self._calls.start(message, wanted, self._caller, group)

    async def _cancel(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        """End a call. An agent ends its own calls; a viewer, which is a person's command line, any call."""
        wanted = msgspec.convert(message.payload, m.ToolCancel)
        ended = self._kernel.cancel(wanted.call_id) if self._viewer else self._calls.cancel(wanted)
        await self._send("ack", {"cancelled": ended}, message)

    @property
    def _queries(self) -> Queries:
        return Queries(self._kernel, self._caller, viewer=self._viewer, paired=self._console.paired)

    async def _query(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        """Answer a read of the table, of `Queries` or of the kernel."""
        wanted = msgspec.convert(message.payload, method.payload)
        if method.who is Who.VIEWER and not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
            return
        if method.for_agents:
            # As for a call: what did this must not become a viewer later, which could decide about it.
            self._greeted = True
            self._present.declare(agent=not self._viewer)
            if self._viewer:
                await self._error(message, m.ErrorCode.UNAUTHORIZED, method.for_agents)
                return
        result = await self._queries.perform(method, method.arguments_in(wanted))
        if isinstance(wanted, m.HistoryList):
            turns = flyflor.history(result, wanted.limit, wanted.before_ts)
            result = flyflor.narrowed(result, turns, wanted.limit, wanted.before_ts)
            answer = {**method.answer_of(result), **msgspec.to_builtins(turns)}
        else:
            answer = method.answer_of(result)
        if isinstance(wanted, m.CallGet):
            answer["data"] = flyflor.turn_data(result)
        elif self._in_flyflor_form and method.shape is m.AskSnapshot:
            asks: Any = [flyflor.ask_data(ask) for ask in msgspec.to_builtins(result)]
            one = isinstance(wanted, m.AskGet) and (wanted.id or wanted.ask_id)
            answer["data"] = next(iter(asks), None) if one else asks
        await self._send(method.answer, answer, message)

    async def _answer_without_data(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        """Answer a read of something that Flyflor has and flytui does not."""
        await self._send(method.answer, {"data": method.data}, message)

    async def _decide(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        await self._console.decide(message, method, self._caller, viewer=self._viewer)

    async def _enter(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        await self._console.enter(message, method, self._caller, viewer=self._viewer)

    async def _revoke_trust(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.EmptyPayload)
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
            return
        outcome = await self._kernel.revoke_trust(by=f"flytui trust --revoke, {self._caller}")
        await self._send("ack", msgspec.to_builtins(outcome), message)

    async def _tokens(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        """Add or revoke a token. Only viewers may; the audit log and the console name the program."""
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
            return
        outcome = change_tokens(self._kernel, message.type, message.payload, self._caller)
        await self._send("ack", msgspec.to_builtins(outcome), message)

    async def _login(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        """Log a login or logout at a server. Only viewers may; the console names the program."""
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
            return
        outcome = change_login(self._kernel, message.payload, self._caller)
        await self._send("ack", msgspec.to_builtins(outcome), message)

    async def _prove(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.EmptyPayload)
        if not self._viewer:
            await self._error(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
            return
        await self._send(method.answer, {"file": self._console.new_proof()}, message)

    async def _yield(self, message: m.Envelope, method: Method, _: TaskGroup) -> None:
        msgspec.convert(message.payload, m.EmptyPayload)
        await self._send("ack", {"yielding": self._kernel.yield_root()}, message)


_LONGEST_START = 1_000
# Before the first object or array within the message: a text that is nested too deeply cannot be parsed.
_ID_FIRST = re.compile(rb'\s*\{[^\[\]{}\\]*?"id"\s*:\s*"([^"\\\x80-\xff]{1,200})"')


class _MessageId(msgspec.Struct):
    id: str
    type: str = ""


def _kit_catalog(catalog: Catalog) -> flyflor.KitCatalog:
    """Return what a catalog describes in the form of Flyflor."""
    return flyflor.kit_catalog(catalog.described, catalog.built_at)


def _envelope_of(frame: bytes) -> m.Envelope | None:
    """Return an envelope with the id of a message that is refused; None where it has none that can be
    read."""
    found = _ID_FIRST.match(frame[:_LONGEST_START])
    if found is not None:
        return m.Envelope(id=found[1].decode("ascii", "replace"), type="", protocol=m.PROTOCOL, at=0.0)
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        read = msgspec.json.decode(frame, type=_MessageId)
        if 0 < len(read.id) <= MAX_ID_CHARS:
            return m.Envelope(id=read.id, type=read.type, protocol=m.PROTOCOL, at=0.0)
    return None


def _matches(wanted: m.Subscribe, event: Event) -> bool:
    """Return whether the subscription includes the event. The report of lost events goes to everybody."""
    of_class = not wanted.classes or event.cls in wanted.classes
    return event.type == MISSED or (of_class and (not wanted.types or event.type in wanted.types))


def change_login(kernel: Kernel, payload: JsonObject, caller: Caller) -> Outcome:
    """Log a change of the login at an entry's server, which `caller` made. Raises msgspec.ValidationError for
    a wrong payload."""
    wanted = msgspec.convert(payload, m.LoginChange)
    view = kernel.catalog().sidecar(wanted.sidecar)
    if view is None or not view.entry.url:
        return Outcome(accepted=False, why_not="no entry of a server over HTTP has that id")
    try:
        kernel.record_login_change(wanted.sidecar, wanted.decision, f"flytui upstream, {caller}")
    except AuditUnwritable as refused:
        return Outcome(accepted=False, why_not=str(refused))
    return Outcome(accepted=True)


def change_tokens(kernel: Kernel, kind: str, payload: JsonObject, caller: Caller) -> Outcome:
    """Add or revoke a token on behalf of `caller`, whom the audit log and the console name.

    `kind` is `token.add` or `token.revoke`. Raises msgspec.ValidationError for a wrong payload.
    """
    store, by = TokenStore.load(kernel.state_dir), f"flytui token, {caller}"
    try:
        if kind == "token.add":
            wanted = msgspec.convert(payload, m.TokenAdd)
            store.add(
                wanted.name,
                wanted.digest,
                before_write=lambda: kernel.record_token_change(
                    wanted.name, MADE_FOR_URL if wanted.in_url else "made", by
                ),
                in_url=wanted.in_url,
            )
            return Outcome(accepted=True)
        name = msgspec.convert(payload, m.TokenRevoke).name
        if not store.revoke(name, before_write=lambda: kernel.record_token_change(name, "revoked", by)):
            return Outcome(accepted=False, why_not=f"there is no token {name[:40]}")
    except (TokenRefused, AuditUnwritable) as refused:
        return Outcome(accepted=False, why_not=str(refused))
    except OSError as error:
        return Outcome(accepted=False, why_not=f"the tokens could not be written: {error.strerror or error}")
    return Outcome(accepted=True)
