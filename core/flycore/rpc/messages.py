"""The messages of `flyflor.ws.v1`: one envelope, and one payload shape per type, both ways.

First what any client sends, then what a console of another process sends, then what the kernel answers. A
field that is not known is refused in whatever a client sends. What `event.publish` carries is in `events.py`.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from flycore.model.approval import Answer, Ask, Lease, Outcome, StandingRule
from flycore.model.audit import Metrics
from flycore.model.base import Value
from flycore.model.call import Activity
from flycore.model.catalog import Catalog
from flycore.model.described import Described
from flycore.model.diagnostics import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question, TrustItem
from flycore.model.status import Status as KernelStatus

PROTOCOL = "flyflor.ws.v1"
EVENT_PROTOCOL = "flyflor.event.v1"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message a client may send."""
MAX_WINDOWS_OR_PIDS = 1024
"""Windows, or processes, that one console may name as its own."""
Numbers = Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_WINDOWS_OR_PIDS)]


class ErrorCode(StrEnum):
    """Codes of an `error` message."""

    INVALID_ENVELOPE = "invalid-envelope"
    INVALID_PAYLOAD = "invalid-payload"
    UNAUTHORIZED = "unauthorized"
    UNSUPPORTED_MESSAGE = "unsupported-message"
    INTERNAL = "internal"


class Envelope(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every message is wrapped in."""

    protocol: str
    id: str
    type: str
    at: float
    """Unix time, seconds, as the sender's clock has it."""
    request_id: str | None = None
    """The sender's own mark, such as a trace's id: not interpreted, and given back with every answer."""
    correlation_id: str | None = None
    """The `id` of the message this one answers."""
    payload: JsonObject = msgspec.field(default_factory=dict)


class EmptyPayload(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of a message that carries none."""


class Hello(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`client.hello`. What a client says of itself is shown as unverified and matched by nothing."""

    client: str = ""
    viewer: bool = False
    """A viewer reads and does not call."""
    version: str = ""
    """Version of flytui, where the client is a part of it; a console has to be of the kernel's."""


class CatalogGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`capability.catalog.get`; `detail` adds the whole catalog value under `catalog`."""

    detail: bool = False


class Subscribe(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`event.subscribe` and `event.unsubscribe`; nothing named means everything."""

    classes: tuple[EventClass, ...] = ()
    types: tuple[str, ...] = ()


class ToolCall(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.call`. There is no field that approves anything; one that tries is refused."""

    tool: str
    input: JsonObject = msgspec.field(default_factory=dict)
    timeout_ms: int | None = None
    say: str = ""
    """What the call is for, in the caller's words; shown as unverified."""
    wait_approver_ms: int = 0
    """How long to wait for a console to open when a person is needed and none is there."""
    inline_wait_ms: int | None = None
    """How long to wait for a person before the call ends `pending`; None: what the settings say."""


class ToolCancel(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.cancel`, by the call's id or by the id of the `tool.call` message."""

    call_id: str = ""
    request_id: str = ""


class PictureGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`call.picture.get`: the artifact of that index, from 0, of a call that has ended."""

    call_id: str
    index: int = 0


class AskGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.detail.get`."""

    id: str


class CallGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`history.detail.get`: one call, running or ended."""

    call_id: str


class SchemaGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.schema.get`."""

    tool: str


class SidecarProbe(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.probe`: ask a sidecar again whether it is well."""

    sidecar: str


class TokenAdd(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.add`: let a client in. The token itself stays with who made it."""

    name: str
    digest: str
    """SHA-256 of the token, hexadecimal."""


class TokenRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.revoke`: let it in no longer."""

    name: str


class Attach(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.attach`: have a one-time code shown where a person sits already."""

    window_ids: Numbers = ()
    """Windows of the console, which no tool may touch once it is paired."""
    pids: Numbers = ()
    """Its process and those it sits in."""


class Pair(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.pair`: the code, as the person typed it."""

    code: Annotated[str, msgspec.Meta(max_length=64)]


class AskDecide(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.decide`."""

    id: str
    subject_digest: str
    """Of what the card showed: if it is another by now, nothing counts."""
    answer: Answer


class AskEdit(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.edit`: another input in the place of the one that waits."""

    id: str
    subject_digest: str
    input: JsonObject


class AskHold(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.hold`: stop a request's time, or let it run on."""

    id: str
    held: bool


class LeaseRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`lease.revoke`."""

    id: str


class RuleRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rule.remove`: the rule that was shown there, and no other."""

    where: str
    digest: str


class BlockRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`block.remove`."""

    tool: str


class QuestionAnswer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`question.answer`."""

    id: str
    option: str
    text: str = ""


class TrustAccept(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trust.accept`: entries as (sidecar id, digest shown)."""

    accepted: tuple[tuple[str, str], ...]


class SidecarEnable(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.enable`: switch an entry on or off in its file."""

    sidecar: str
    enabled: bool
    reason: str = ""


class ServerImport(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`server.import`: a server of another client's file, by that file and its name as the catalog shows
    them, and the digest of what was shown that would be written."""

    path: str
    name: str
    digest: str


class RefusePairing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.refuse`: the codes that this process asked for count no more."""

    pid: int


class Abilities(Value, frozen=True, kw_only=True):
    """What the door can do."""

    commands: tuple[str, ...]
    event_stream: bool
    protocol: str


class ServerHello(Value, frozen=True, kw_only=True):
    """`server.hello`: the first message of a connection."""

    client_id: str
    connected_at: float
    """Unix time, seconds."""
    capabilities: Abilities
    kits: tuple[Described, ...]
    """Kits, skills, plugins and servers: described, never run."""
    status: KernelStatus


class Ack(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ack`: which keys it has depends on the message that it answers."""

    classes: tuple[EventClass, ...] | UnsetType = UNSET
    """What is subscribed to from now on, with `types`; both empty after `event.unsubscribe`."""
    types: tuple[str, ...] | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET
    """Of `tool.cancel`: whether such a call was under way."""
    stopped: bool | UnsetType = UNSET
    """Of `panic`: false where everything was stopped already."""
    accepted: bool | UnsetType = UNSET
    """Of `trust.revoke`, `token.add` and `token.revoke`, with `whyNot`."""
    why_not: str | UnsetType = UNSET
    yielding: bool | UnsetType = UNSET
    """Of `kernel.yield`."""
    paired: bool | UnsetType = UNSET
    """Of `console.pair`: true."""
    outcome: Outcome | UnsetType = UNSET
    """Of what a paired console has done."""


class ErrorAnswer(Value, frozen=True, kw_only=True):
    """`error`: the message it answers did nothing; the connection goes on."""

    code: ErrorCode
    message: str


class GatewayStatus(KernelStatus, frozen=True, kw_only=True):
    """`gateway.status.snapshot`."""

    client_count: int
    """Connections there are now, this one counted."""


class CatalogDetail(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`capability.catalog.snapshot` where `detail` was asked for."""

    kits: tuple[Described, ...]
    catalog: Catalog


class ToolSchema(Value, frozen=True, kw_only=True):
    """`tool.schema.snapshot`."""

    tool: str
    description: str
    """For agents."""
    input_schema: JsonObject
    """JSON Schema 2020-12; empty where the tool's own is not known."""
    output_schema: JsonObject
    examples: tuple[JsonObject, ...]


class AskSnapshot(Value, frozen=True, kw_only=True):
    """`ask.snapshot`."""

    asks: tuple[Ask, ...]
    outcome: Outcome | UnsetType = UNSET
    """Of `ask.decide`, `ask.edit` and `ask.hold`: whether it counted."""


class HistorySnapshot(Value, frozen=True, kw_only=True):
    """`history.snapshot`."""

    calls: tuple[Activity, ...]


class PictureSnapshot(Value, frozen=True, kw_only=True):
    """`call.picture.snapshot`."""

    picture: Picture | None


class MetricsSnapshot(Value, frozen=True, kw_only=True):
    """`tool.metrics.snapshot`."""

    metrics: Metrics


class LeaseSnapshot(Value, frozen=True, kw_only=True):
    """`lease.snapshot`."""

    leases: tuple[Lease, ...]


class BlockSnapshot(Value, frozen=True, kw_only=True):
    """`block.snapshot`."""

    blocks: tuple[Block, ...]


class RuleSnapshot(Value, frozen=True, kw_only=True):
    """`rule.snapshot`."""

    rules: tuple[StandingRule, ...]


class TrustSnapshot(Value, frozen=True, kw_only=True):
    """`trust.snapshot`."""

    items: tuple[TrustItem, ...]


class QuestionSnapshot(Value, frozen=True, kw_only=True):
    """`question.snapshot`."""

    questions: tuple[Question, ...]


class DoctorSnapshot(Value, frozen=True, kw_only=True):
    """`doctor.snapshot`."""

    checks: tuple[Check, ...]


def envelope(
    kind: str, payload: Any, *, message_id: str, answers: Envelope | None = None, protocol: str = PROTOCOL
) -> str:
    """A message as text, ASCII only, ready to send; as one that answers another it says which."""
    body: dict[str, object] = {
        "protocol": protocol,
        "id": message_id,
        "type": kind,
        "at": round(time.time(), 6),
        "payload": msgspec.to_builtins(payload),
    }
    if answers is not None:
        body["correlationId"] = answers.id
        if answers.request_id is not None:
            body["requestId"] = answers.request_id
    return msgspec.json.encode(body).decode("utf-8")


def event_payload(event: Event) -> JsonObject:
    """An event as `event.publish` carries it."""
    return {"class": event.cls.value, "type": event.type, "at": event.at, "payload": event.payload}
