"""The table of everything that may be asked of a kernel, and the two interfaces it is asked through.

`Client` and `Approver` are what consoles, command line and servers are written against. Each method is
declared once, with the message that carries it over a connection, the message that answers it and who may
send it. From these rows come the proxies (`proxies.py`, `flycore.client`), the server's dispatch, the schemas
and the table in docs/protocol.md.

To add a read or a decision: declare it here, give its payloads a shape in `messages.py`, and give `Kernel`
(for a decision `KernelApprover`) a method of the same name and parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar, get_type_hints

import msgspec

from flycore.model.approval import Answer, Ask, Lease, Outcome, StandingRule
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Progress, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question, TrustItem
from flycore.model.status import Status
from flycore.rpc import messages as m

OnProgress = Callable[[Progress], None]
F = TypeVar("F", bound=Callable[..., Any])

EVERYTHING = "everything"
NARROWED = "narrowed"
_NO_PARAMETERS = inspect.Signature()


class Who(Enum):
    """Who may send a message."""

    TOKEN = "every client, over TCP too"  # noqa: S105 - a kind of client, no secret
    PROGRAM = "a program of this user, over the Unix socket"
    VIEWER = "over the Unix socket, a viewer"
    CONSOLE = "a paired console"


class Kind(Enum):
    """What a message is for."""

    CONNECTION = "is about the connection"
    READ = "reads"
    ACT = "acts"
    DECISION = "decides"


class UnimplementedError(Exception):
    """A method was called that the interface declares and the class neither defines nor generates."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table."""

    message: str
    """Type of the message that asks."""
    answer: str
    """Type of the message that answers."""
    shape: type[msgspec.Struct]
    """Payload of `answer`."""
    key: str = ""
    """Field of `shape` that is the result; empty where the whole payload is, or where there is none."""
    payload: type[msgspec.Struct] = m.EmptyPayload
    """Payload of `message`. Its first fields are the parameters, in their order."""
    who: Who = Who.TOKEN
    kind: Kind = Kind.READ
    agents_see: str = NARROWED
    """What a client that is no viewer is given: EVERYTHING; or only those items of a list that are its own,
    named by the path of the attribute with the caller's key, such as `caller.key`; or NARROWED: a method of
    `Queries` decides. That is the default, so that a read without such a method answers nobody."""
    refusal: str = ""
    """What another than a viewer is told, for Who.VIEWER."""
    interface: str = ""
    """`Client` or `Approver`; empty for what neither offers."""
    name: str = ""
    """Of the method that answers: of the interface, else of `Queries`. Empty where the connection answers."""
    signature: inspect.Signature = _NO_PARAMETERS
    """Of the method, without `self`."""
    result: Any = None
    """Type of the method's result."""

    def bind(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Give the value of each parameter, in their order. Raises TypeError as a call does."""
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def payload_of(self, arguments: tuple[Any, ...]) -> JsonObject:
        """Build the payload that carries these values."""
        fields = msgspec.structs.fields(self.payload)
        return {
            field.encode_name: msgspec.to_builtins(value)
            for field, value in zip(fields, arguments, strict=False)  # a payload may have more than is passed
        }

    def arguments_in(self, payload: msgspec.Struct) -> tuple[Any, ...]:
        """Take the values of the parameters out of a payload of this row's shape."""
        return tuple(
            getattr(payload, name) for name in payload.__struct_fields__[: len(self.signature.parameters)]
        )

    def answer_of(self, result: Any) -> JsonObject:
        """Build the payload that carries a result."""
        value: Any = msgspec.to_builtins(result)
        return {self.key: value} if self.key else value or {}

    def result_in(self, payload: JsonObject) -> Any:
        """Take the result out of the payload of an answer. Raises msgspec.ValidationError, KeyError."""
        return msgspec.convert(payload[self.key], self.result) if self.key else None


_WIRE_METHODS: list[Method] = []


def wire_method(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Callable[[F], F]:
    """Decorate a method of `Client` or `Approver` with its row; `more` are further fields of Method."""

    def enter(function: F) -> F:
        interface, _, name = function.__qualname__.partition(".")
        signature = inspect.signature(function)
        _, *parameters = signature.parameters.values()
        row = Method(
            message,
            answer,
            shape,
            interface=interface,
            name=name,
            signature=signature.replace(parameters=parameters),
            result=get_type_hints(function)["return"],
            **more,
        )
        _WIRE_METHODS.append(row)
        return function

    return enter


def decision(message: str, payload: type[msgspec.Struct] = m.EmptyPayload) -> Callable[[F], F]:
    """Decorate a decision: only a paired console sends it, and its answer says whether it counted. That of a
    request is answered with the request as it is then."""
    asks = message.startswith("ask.")
    answer, shape = ("ask.snapshot", m.AskSnapshot) if asks else ("ack", m.Ack)
    return wire_method(
        message, answer, shape, key="outcome", payload=payload, who=Who.CONSOLE, kind=Kind.DECISION
    )


class Client(Protocol):
    """Everything but deciding. Raises ConnectionLost where the kernel went away."""

    @wire_method("gateway.status.get", "gateway.status.snapshot", m.GatewayStatus, agents_see=EVERYTHING)
    async def status(self) -> Status:
        """What the kernel says of itself."""
        raise UnimplementedError

    @wire_method(
        "capability.catalog.get",
        "capability.catalog.snapshot",
        m.CatalogDetail,
        payload=m.CatalogGet,
    )
    async def catalog(self) -> Catalog:
        """The catalog as it is now."""
        raise UnimplementedError

    @wire_method("tool.call", "tool.result", ToolResult, payload=m.ToolCall, kind=Kind.ACT)
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
        """Run a tool through the whole pipeline; waits for a person where one is needed, `inline_wait_ms`
        at most (None: what the settings say): then the call ends `pending`, and the same call made again
        takes its place.

        Cancelling the awaiting task cancels the call, its process tree and its approval request.
        """
        ...

    @wire_method(
        "tool.cancel",
        "ack",
        m.Ack,
        key="cancelled",
        payload=m.ToolCancel,
        kind=Kind.ACT,
        agents_see=EVERYTHING,
    )
    async def cancel(self, call_id: str) -> bool:
        """End a running or waiting call; False when there is none of that id. Over a connection that is no
        viewer's, only calls of that connection."""
        raise UnimplementedError

    @wire_method("history.list", "history.snapshot", m.HistorySnapshot, key="calls")
    async def activity(self) -> tuple[Activity, ...]:
        """Calls, running first, then finished ones, newest first, those of earlier kernels too."""
        raise UnimplementedError

    @wire_method(
        "call.picture.get",
        "call.picture.snapshot",
        m.PictureSnapshot,
        key="picture",
        payload=m.PictureGet,
    )
    async def picture(self, call_id: str, index: int) -> Picture | None:
        """An image that a call made, scaled down: the artifact of that index, from 0. None where it is no
        PNG, JPEG, GIF or WebP, is gone, damaged or too large, or is nothing the asker may see."""
        raise UnimplementedError

    @wire_method("tool.metrics.get", "tool.metrics.snapshot", m.MetricsSnapshot, key="metrics")
    async def metrics(self) -> Metrics:
        """Per tool: how often, how it ended, how long it took. An agent is told of its own calls."""
        raise UnimplementedError

    @wire_method("ask.list", "ask.snapshot", m.AskSnapshot, key="asks")
    async def asks(self) -> tuple[Ask, ...]:
        """Approval requests: waiting ones first in order of arrival, then recent ones."""
        raise UnimplementedError

    @wire_method("lease.list", "lease.snapshot", m.LeaseSnapshot, key="leases", agents_see="caller.key")
    async def leases(self) -> tuple[Lease, ...]:
        """Leases that still hold."""
        raise UnimplementedError

    @wire_method("block.list", "block.snapshot", m.BlockSnapshot, key="blocks", agents_see=EVERYTHING)
    async def blocks(self) -> tuple[Block, ...]:
        """Tools that a person has blocked."""
        raise UnimplementedError

    @wire_method("rule.list", "rule.snapshot", m.RuleSnapshot, key="rules")
    async def rules(self) -> tuple[StandingRule, ...]:
        """Rules of the person's own policy file, as it is now. No agent sees them."""
        raise UnimplementedError

    @wire_method(
        "question.list", "question.snapshot", m.QuestionSnapshot, key="questions", agents_see="about"
    )
    async def questions(self) -> tuple[Question, ...]:
        """Decisions that wait and are not about one call, in order of arrival. An agent gets what is about
        itself."""
        raise UnimplementedError

    @wire_method("panic", "ack", m.Ack, key="stopped", kind=Kind.ACT)
    async def panic(self) -> bool:
        """Stop everything: leases end, calls are ended, new ones refused until a person releases it.
        Everybody may; False where it was stopped already."""
        raise UnimplementedError

    @wire_method("trust.list", "trust.snapshot", m.TrustSnapshot, key="items", agents_see=EVERYTHING)
    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """Entries that wait for trust."""
        raise UnimplementedError

    @wire_method("sidecar.probe", "ack", m.Ack, payload=m.SidecarProbe, kind=Kind.ACT, agents_see=EVERYTHING)
    async def probe(self, sidecar: str) -> None:
        """Ask a sidecar again whether it is well; the catalog's event says when it is known."""
        raise UnimplementedError

    @wire_method(
        "doctor.get",
        "doctor.snapshot",
        m.DoctorSnapshot,
        key="checks",
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer is told how the root is",
    )
    async def checks(self) -> tuple[Check, ...]:
        """Look at everything the root stands on: files, programs, log, display. Not for agents."""
        raise UnimplementedError

    @wire_method("event.subscribe", "ack", m.Ack, payload=m.Subscribe, kind=Kind.CONNECTION)
    def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe; a listener that is too slow loses the oldest events, never holds up the kernel."""
        ...


class Approver(Protocol):
    """The person's own hand. The console in the kernel's process is given one, and each paired console."""

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """Say that a person is there, and which windows and processes no tool may touch."""
        ...

    def detach(self) -> None:
        """The person has left: new requests end `no-approver`, waiting ones stay pending."""
        ...

    @decision("ask.decide", m.AskDecide)
    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """Answer a request. `subject_digest` is what the card showed: if it is another, nothing counts."""
        raise UnimplementedError

    @decision("ask.edit", m.AskEdit)
    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Change a waiting request's input: checked, prepared and judged by policy anew. The request is
        then another card, with another digest, that waits like any; nothing is decided by this."""
        raise UnimplementedError

    @decision("ask.hold", m.AskHold)
    async def hold(self, request_id: str, held: bool) -> bool:
        """Stop a waiting request's time, or let it run on; False where there is none."""
        raise UnimplementedError

    @decision("lease.revoke", m.LeaseRevoke)
    async def revoke(self, lease_id: str) -> bool:
        """End a lease; False when it no longer held."""
        raise UnimplementedError

    @decision("rule.remove", m.RuleRemove)
    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """Take a rule out of the person's own policy file: `where` as shown (`file:line`), `digest` of the
        rule that was shown there, so that a stale list removes nothing else."""
        raise UnimplementedError

    @decision("block.remove", m.BlockRemove)
    async def unblock(self, tool: str) -> bool:
        """Let a blocked tool be called again; False where it was not blocked."""
        raise UnimplementedError

    @decision("approver.undo")
    async def undo(self) -> Outcome:
        """Take back the last `revoke`, `remove_rule` or `unblock` of this session."""
        raise UnimplementedError

    @decision("question.answer", m.QuestionAnswer)
    async def answer(self, question_id: str, option: str, text: str = "") -> Outcome:
        """Answer a question that is not about one call."""
        raise UnimplementedError

    @decision("trust.accept", m.TrustAccept)
    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """Trust entries, as (sidecar id, digest shown); one that changed meanwhile is not trusted."""
        raise UnimplementedError

    @decision("sidecar.enable", m.SidecarEnable)
    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """Switch an entry on or off in its registry file, by an edit that changes nothing else; the person's
        own change keeps its trust. Calls that run go on. `reason` is kept in the file of what is off."""
        raise UnimplementedError

    @decision("server.import", m.ServerImport)
    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """Take a server of another client's file (`path` and `name` as the catalog shows them) over into the
        project's registry, and trust the entry: `digest` is that of the offer the person was shown, and where
        the file offers another by now nothing is written. Nothing that is there is changed."""
        raise UnimplementedError

    @decision("console.refuse", m.RefusePairing)
    async def refuse_pairing(self, pid: int) -> bool:
        """Have the codes that the program of that process asked for count no more; False where none did."""
        raise UnimplementedError

    @decision("starter.write")
    async def write_starter(self) -> Outcome:
        """Write the starter registry into a project that has none; its entries are trusted, as the person
        was shown its text. Nothing that is there is overwritten."""
        raise UnimplementedError


_NOT_A_VIEWER = "a console reads and does not call: say so in client.hello, before anything is called"
_NO_TOKENS = "only a viewer makes or revokes tokens"


def _row(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Method:
    return Method(message, answer, shape, **{"kind": Kind.CONNECTION, **more})


def _query(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Method:
    """A read of one thing, which a method of `Queries` answers; its payload has that method's parameters."""
    parameters = [
        inspect.Parameter(field, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for field in more["payload"].__struct_fields__
    ]
    return Method(message, answer, shape, signature=inspect.Signature(parameters), **more)


METHODS: tuple[Method, ...] = (
    *_WIRE_METHODS,
    _query("ask.detail.get", "ask.snapshot", m.AskSnapshot, key="asks", payload=m.AskGet, name="one_ask"),
    _query(
        "history.detail.get",
        "history.snapshot",
        m.HistorySnapshot,
        key="calls",
        payload=m.CallGet,
        name="one_call",
    ),
    _query("tool.schema.get", "tool.schema.snapshot", m.ToolSchema, payload=m.SchemaGet, name="tool_schema"),
    _row("client.hello", "ack", m.Ack, payload=m.Hello),
    _row("ping", "pong", m.EmptyPayload),
    _row("event.unsubscribe", "ack", m.Ack, payload=m.Subscribe),
    _row(
        "console.attach",
        "console.pairing",
        m.EmptyPayload,
        payload=m.Attach,
        who=Who.VIEWER,
        refusal=_NOT_A_VIEWER,
    ),
    _row("console.pair", "ack", m.Ack, payload=m.Pair, who=Who.VIEWER, refusal=_NOT_A_VIEWER),
    _row("kernel.yield", "ack", m.Ack, who=Who.PROGRAM, kind=Kind.ACT),
    _row(
        "trust.revoke", "ack", m.Ack, who=Who.VIEWER, kind=Kind.ACT, refusal="only a viewer takes trust away"
    ),
    _row("token.add", "ack", m.Ack, payload=m.TokenAdd, who=Who.VIEWER, kind=Kind.ACT, refusal=_NO_TOKENS),
    _row(
        "token.revoke", "ack", m.Ack, payload=m.TokenRevoke, who=Who.VIEWER, kind=Kind.ACT, refusal=_NO_TOKENS
    ),
)
"""Every message that a client may send."""
BY_MESSAGE: Mapping[str, Method] = {method.message: method for method in METHODS}
ANSWERS: Mapping[str, type[msgspec.Struct]] = {
    "server.hello": m.ServerHello,
    "error": m.ErrorAnswer,
    "tool.progress": Progress,
    **{method.answer: method.shape for method in METHODS},
}
"""Payload by type of whatever the kernel sends but events. `capability.catalog.snapshot` without `detail` is
the document that `flytui schema catalog` describes."""


def methods_of(interface: type) -> tuple[Method, ...]:
    """Give the rows of `Client` or of `Approver`."""
    return tuple(method for method in METHODS if method.interface == interface.__name__)
