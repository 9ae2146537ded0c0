"""The messages of `flyflor.ws.v1`: one envelope, and one payload shape for each type, in both directions.

The messages of any client come first, then the kernel's answers. Those of a console in another process are in
`console_messages.py`.
Unknown keys of a payload are ignored in messages that every client may send and that only read or manage the
connection, and refused in all others: no unknown key can act, and none that is misspelt acts otherwise than
meant. An envelope has no unknown keys. The payloads of `event.publish` are in `events.py`.
"""

from __future__ import annotations

import time
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from flycore.model.approval import Ask, Lease, Outcome, StandingRule
from flycore.model.audit import Metrics
from flycore.model.base import Value
from flycore.model.call import Activity, Picture, UndoResult
from flycore.model.catalog import Catalog
from flycore.model.described import Described
from flycore.model.diagnostics import Check
from flycore.model.enums import RootPermission
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.package import PackageCheck, PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.starter import StarterOffer, StarterPlan
from flycore.model.status import Status as KernelStatus
from flycore.rpc.flyflor import HistoryTurn, KitCatalog, rfc3339
from flycore.rpc.wire import EVENT_PROTOCOL as EVENT_PROTOCOL
from flycore.rpc.wire import PROTOCOL as PROTOCOL
from flycore.rpc.wire import message_body

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message that a client may send."""


class ErrorCode(StrEnum):
    """The codes of an `error` message."""

    INVALID_ENVELOPE = "invalid-envelope"
    INVALID_PAYLOAD = "invalid-payload"
    UNAUTHORIZED = "unauthorized"
    UNSUPPORTED_MESSAGE = "unsupported-message"
    INTERNAL = "internal"


class Envelope(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outer object of every message."""

    protocol: str
    id: str
    type: str
    at: Annotated[datetime, msgspec.Meta(tz=True)] | float | None = None
    """The time by the sender's clock: Unix time in seconds, or RFC 3339 as text. Text chooses the form of
    Flyflor for what the kernel sends."""
    request_id: str | None = None
    """A mark of the sender, such as the id of a trace. The kernel copies it into every answer."""
    correlation_id: str | None = None
    """The `id` of the message that this one answers."""
    payload: JsonObject = msgspec.field(default_factory=dict)


class EmptyPayload(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty payload."""


class Query(Value, frozen=True, kw_only=True):
    """The payload of a read or a `ping` that has no keys of its own. Whatever it holds is ignored."""


class ClientName(Value, frozen=True, kw_only=True):
    """The client as an object, as some clients of Flyflor state it."""

    name: str = ""
    version: str = ""


class Hello(Value, frozen=True, kw_only=True):
    """`client.hello`. Consoles show what a client states here as unverified; no rule can match it."""

    client: str | ClientName = ""
    viewer: bool = False
    """A viewer reads everything and cannot call tools."""
    version: str = ""
    """Version of the client. A console of flytui must have the version of the kernel."""
    name: str = ""
    """The client's name where `client` is absent."""

    @property
    def claims(self) -> str:
        """What the client calls itself."""
        if isinstance(self.client, ClientName):
            return f"{self.client.name} {self.client.version}".strip()
        return self.client or f"{self.name} {self.version if self.name else ''}".strip()


class CatalogGet(Value, frozen=True, kw_only=True):
    """`capability.catalog.get`. With `detail`, the answer holds the complete catalog under `catalog`; with
    `outline` too, its outline."""

    outline: bool = False
    """Beside `detail`: of a sidecar that offers tools, the entry as it is written is not wanted. It says all
    of its tools once more."""
    detail: bool = False


class RootRefresh(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`root.refresh`: read the files of the root again, and with `probes` wait for the probes that run."""

    probes: bool = False


class TerminalProof(Value, frozen=True, kw_only=True):
    """`terminal.proof`: the file that a command makes before it sends what a person decided."""

    file: str
    """Name of the empty file in the root's state folder, which a confined program cannot write."""


class Subscribe(Value, frozen=True, kw_only=True):
    """`event.subscribe` and `event.unsubscribe`. An empty list means every class or every type."""

    classes: tuple[EventClass, ...] = ()
    types: tuple[str, ...] = ()


class ToolCall(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.call`. No field approves anything, and a message with an unknown field is refused."""

    tool: str
    input: JsonObject = msgspec.field(default_factory=dict)
    timeout_ms: int | None = None
    say: str = ""
    """The purpose of the call in the caller's words, shown as unverified."""
    wait_approver_ms: int = 0
    """How long the call waits for a console to open where a person is needed and no console is open."""
    inline_wait_ms: int | None = None
    """How long the call waits for a person before it ends `pending`. None: as the settings say."""
    observe: bool = False
    """Whether the result says what the sandbox refused to the program, also where the call succeeds."""
    samples: bool = False
    """Whether the client has a model, and answers each `sampling` of a `tool.progress`."""


class SamplingAnswer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sampling.answer`: what the client's model answers to a request of an MCP server, during the client's
    own call. The server gets it."""

    sampling_id: str
    result: JsonObject | None = None
    """The result of `sampling/createMessage`, as MCP has it; null where there is none."""


class ToolCreate(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.create`. The tool waits for a person's review; no field approves anything."""

    name: str
    definition: JsonObject | str
    """A tool manifest, as an object or as the text of the file."""


class ToolCancel(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.cancel`: end a call, by its id or by the id of its `tool.call` message."""

    call_id: str = ""
    request_id: str = ""


class PictureGet(Value, frozen=True, kw_only=True):
    """`call.picture.get`: read one artifact of an ended call, by its index from 0."""

    call_id: str
    index: int = 0


class AskGet(Value, frozen=True, kw_only=True):
    """`ask.detail.get`: read one approval request; all of them where no id is given."""

    id: str = ""
    ask_id: str = ""
    """Flyflor's name of `id`."""


class ConfirmList(Value, frozen=True, kw_only=True):
    """`confirm.list`: read the latest approval requests as Flyflor's confirmations."""

    limit: int = 10


class HistoryList(Value, frozen=True, kw_only=True):
    """`history.list`. Without `limit` and `beforeTs`, `calls` has all calls and `history` the newest 20."""

    limit: int | None = None
    """The most calls, of the newest ones."""
    before_ts: int | None = None
    """Unix time in milliseconds: only calls that arrived then or earlier."""


class CallGet(Value, frozen=True, kw_only=True):
    """`history.detail.get`: read one call, running or ended."""

    call_id: str = ""
    event_id: str = ""
    """Flyflor's name of `callId`."""


class SchemaGet(Value, frozen=True, kw_only=True):
    """`tool.schema.get`: read the schemas of one tool."""

    tool: str


class SidecarProbe(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.probe`: check again whether a sidecar works."""

    sidecar: str


class CallUndo(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Payload of `call.undo`. With `look` nothing is changed: the answer says whether it can be undone."""

    call_id: str
    look: bool


class CallUndone(Value, frozen=True, kw_only=True):
    """Answer to `call.undo`."""

    undone: UndoResult


class NestedRoot(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`root.nested`: ask whether programs may work on a root that lies within the kernel's."""

    root: str


class TokenAdd(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.add`: admit a client over TCP and HTTP. The kernel never gets the token itself."""

    name: str
    digest: str
    """SHA-256 of the token, hexadecimal."""
    in_url: bool = False
    """Whether the token comes in a URL, and in no other way."""


class TokenRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.revoke`: stop to admit a client over TCP and HTTP."""

    name: str


class LoginChange(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`login.change`: log that the person logged in or out at the server of an entry. The kernel never gets a
    token over the connection."""

    sidecar: str
    decision: Literal["logged-in", "logged-out"]


class Abilities(Value, frozen=True, kw_only=True):
    """What the server offers to this client."""

    commands: tuple[str, ...]
    event_stream: bool
    protocol: str
    semantic_types: tuple[str, ...]
    """The groups of messages that Flyflor's clients distinguish."""


class ServerHello(Value, frozen=True, kw_only=True):
    """`server.hello`: the first message of a connection. A client asks for everything else that it needs."""

    protocol: str
    version: str
    """Version of the kernel's program."""
    pid: int
    """The kernel's process."""
    client_id: str | UnsetType = UNSET
    """Over TCP only, like all keys that follow: Flyflor's clients read them in the first message."""
    connected_at: str | UnsetType = UNSET
    """RFC 3339, UTC."""
    capabilities: Abilities | UnsetType = UNSET
    kits: KitCatalog | UnsetType = UNSET
    status: JsonObject | UnsetType = UNSET
    """The state of the kernel with the keys of Flyflor's gateway."""


class Ack(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ack`: the message was carried out. Its keys depend on the message that it answers."""

    classes: tuple[EventClass, ...] | UnsetType = UNSET
    """The subscription from now on, with `types`. Both are empty after `event.unsubscribe`."""
    types: tuple[str, ...] | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET
    """Answer to `tool.cancel`: whether there was such a running call."""
    stopped: bool | UnsetType = UNSET
    """Answer to `panic`: false where everything was stopped already."""
    accepted: bool | UnsetType = UNSET
    """Answer to `trust.revoke`, `token.add`, `token.revoke` and `login.change`, with `whyNot`."""
    why_not: str | UnsetType = UNSET
    yielding: bool | UnsetType = UNSET
    """Answer to `kernel.yield`: whether the kernel gives up the root."""
    paired: bool | UnsetType = UNSET
    """Answer to `console.pair`: true."""
    outcome: Outcome | UnsetType = UNSET
    """Answer to a decision of a paired console, to `tool.create`: whether the tool waits for review, to
    `package.ask`: whether a person is asked, and to `sampling.answer`: whether the server still waited."""
    permission: RootPermission | UnsetType = UNSET
    """Answer to `root.nested`."""
    client_id: str | UnsetType = UNSET
    """In the form of Flyflor: the id of the connection, with `received` and `subscriptions`."""
    received: str | UnsetType = UNSET
    """Type of the message that is answered."""
    subscriptions: tuple[JsonObject, ...] | UnsetType = UNSET


class Pong(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`pong`."""

    now: str
    """RFC 3339, UTC."""


class DataSnapshot(Value, frozen=True, kw_only=True):
    """The answer to a read of Flyflor: a list, one object, or null."""

    data: Any


class ErrorAnswer(Value, frozen=True, kw_only=True):
    """`error`: the message that it answers had no effect. The connection stays open."""

    code: ErrorCode
    message: str


class GatewayStatus(KernelStatus, frozen=True, kw_only=True):
    """`gateway.status.snapshot`: the state of the kernel."""

    client_count: int
    """Number of open connections, this one included."""
    status: JsonObject
    """The same with the keys of Flyflor's gateway."""


class CatalogDetail(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`capability.catalog.snapshot`, the answer to a request with `detail`."""

    kits: tuple[Described, ...]
    catalog: Catalog


class ToolSchema(Value, frozen=True, kw_only=True):
    """`tool.schema.snapshot`: the schemas of one tool."""

    tool: str
    description: str
    """Description for agents."""
    input_schema: JsonObject
    """JSON Schema 2020-12; empty where the schema of the tool is not known."""
    output_schema: JsonObject
    examples: tuple[JsonObject, ...]


class AskSnapshot(Value, frozen=True, kw_only=True):
    """`ask.snapshot`: approval requests."""

    asks: tuple[Ask, ...]
    outcome: Outcome | UnsetType = UNSET
    """Answer to `ask.decide`, `ask.edit` and `ask.hold`: whether the decision was accepted."""
    data: Any = UNSET
    """In the form of Flyflor: the same requests as its asks, or one of them or null."""


class HistorySnapshot(Value, frozen=True, kw_only=True):
    """`history.snapshot`: calls, running or ended."""

    calls: tuple[Activity, ...]
    history: tuple[HistoryTurn, ...] | UnsetType = UNSET
    """Answer to `history.list`: the newest calls as Flyflor's turns, in order of time."""
    next_before_ts: int | UnsetType | None = UNSET
    """`beforeTs` of the turns before these; null where there are none."""
    data: JsonObject | UnsetType | None = UNSET
    """Answer to `history.detail.get`: the call as Flyflor's details of a turn."""


class PictureSnapshot(Value, frozen=True, kw_only=True):
    """`call.picture.snapshot`: an image that a call made; null where there is none to show."""

    picture: Picture | None


class MetricsSnapshot(Value, frozen=True, kw_only=True):
    """`tool.metrics.snapshot`: counts and durations of calls."""

    metrics: Metrics


class LeaseSnapshot(Value, frozen=True, kw_only=True):
    """`lease.snapshot`: the leases that are in force."""

    leases: tuple[Lease, ...]


class BlockSnapshot(Value, frozen=True, kw_only=True):
    """`block.snapshot`: the tools that a person blocked."""

    blocks: tuple[Block, ...]


class RuleSnapshot(Value, frozen=True, kw_only=True):
    """`rule.snapshot`: the rules of the person's own policy file."""

    rules: tuple[StandingRule, ...]


class TrustSnapshot(Value, frozen=True, kw_only=True):
    """`trust.snapshot`: the registry entries that wait for trust."""

    items: tuple[TrustItem, ...]


class PackageSnapshot(Value, frozen=True, kw_only=True):
    """`package.snapshot`: the packages that are installed or staged."""

    packages: tuple[PackageView, ...]


class PackageChecks(Value, frozen=True, kw_only=True):
    """`package.checks`: whether the files of the installed packages are those that were installed."""

    checks: tuple[PackageCheck, ...]


class QuestionSnapshot(Value, frozen=True, kw_only=True):
    """`question.snapshot`: the questions that wait for a person."""

    questions: tuple[Question, ...]


class StarterSnapshot(Value, frozen=True, kw_only=True):
    """`starter.snapshot`: the entries of the starter registry, and what works of them on this machine."""

    starter: StarterOffer


class StarterPlanSnapshot(Value, frozen=True, kw_only=True):
    """`starter.plan.snapshot`: the change that writes some entries of the starter registry."""

    plan: StarterPlan


class DoctorSnapshot(Value, frozen=True, kw_only=True):
    """`doctor.snapshot`: the checks of everything that the root needs."""

    checks: tuple[Check, ...]


def envelope(
    kind: str,
    payload: Any,
    *,
    message_id: str,
    answers: Envelope | None = None,
    protocol: str = PROTOCOL,
    text_time: bool = False,
) -> str:
    """Return a message as text, ready to send. `answers` is the message that it answers. `text_time` writes
    `at` as RFC 3339."""
    body = message_body(kind, payload, message_id, protocol)
    if text_time:
        body["at"] = rfc3339(time.time())
    if answers is not None:
        body["correlationId"] = answers.id
        if answers.request_id is not None:
            body["requestId"] = answers.request_id
    return msgspec.json.encode(body).decode("utf-8")


def event_payload(event: Event) -> JsonObject:
    """Return the payload of `event.publish` for an event."""
    return {"class": event.cls.value, "type": event.type, "at": event.at, "payload": event.payload}
