"""What the kernel sends: one payload shape for each type of message; events are in `events.py`."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from flycore.model.approval import Ask, Lease, Outcome
from flycore.model.audit import Metrics
from flycore.model.base import Value
from flycore.model.call import Activity, Progress, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.check import Check
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question
from flycore.model.source import Described
from flycore.model.standing import StandingRule
from flycore.model.status import Status as KernelStatus
from flycore.model.trust import TrustItem
from flycore.serve.messages import ErrorCode, Nothing


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


ANSWERS: dict[str, type[msgspec.Struct]] = {
    "server.hello": ServerHello,
    "ack": Ack,
    "pong": Nothing,
    "console.pairing": Nothing,
    "error": ErrorAnswer,
    "gateway.status.snapshot": GatewayStatus,
    "capability.catalog.snapshot": CatalogDetail,
    "tool.schema.snapshot": ToolSchema,
    "tool.progress": Progress,
    "tool.result": ToolResult,
    "ask.snapshot": AskSnapshot,
    "history.snapshot": HistorySnapshot,
    "call.picture.snapshot": PictureSnapshot,
    "tool.metrics.snapshot": MetricsSnapshot,
    "lease.snapshot": LeaseSnapshot,
    "block.snapshot": BlockSnapshot,
    "rule.snapshot": RuleSnapshot,
    "trust.snapshot": TrustSnapshot,
    "question.snapshot": QuestionSnapshot,
    "doctor.snapshot": DoctorSnapshot,
}
"""Payload by type of message. `capability.catalog.snapshot` without `detail` is the document that
`flytui schema catalog` describes; what `event.publish` carries is in `EVENTS`."""
