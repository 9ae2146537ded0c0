"""What `event.publish` carries: one payload shape for each type of event. Ids and states; whoever wants
the whole asks for it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from flycore.model.base import Value
from flycore.model.enums import Phase, QuestionKind, RequestState, Risk, Status
from flycore.model.events import MISSED, PAIRING, EventClass
from flycore.rpc.messages import EmptyPayload


class CallStartEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call arrived."""

    call_id: str
    tool: str


class CallProgressEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call is somewhere else on its way, or has told of its progress."""

    call_id: str
    phase: Phase


class CallEndEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call ended."""

    call_id: str
    status: Status


class RequestEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of an approval request."""

    request_id: str
    call_id: str
    tool: str
    risk: Risk
    state: RequestState
    by: str
    """Who decided; empty where nobody has."""


class QuestionEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision that is not about one call."""

    question_id: str
    kind: QuestionKind
    about: str | UnsetType = UNSET
    """Key of the caller it is about."""


class TokenEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client is let in over TCP and HTTP from now on, or no longer. Only viewers are told."""

    name: str
    decision: str
    """`made` or `revoked`."""
    by: str
    """The program that asked for it."""
    about: str


class DesktopControlEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a tool has its hands on the machine."""

    on: bool


class PairingEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A console asks to come in. Told to consoles that decide already, and to nobody else."""

    code: str
    program: str
    pid: int
    who: str
    """The process and for whom it was started, such as `flytui (pid 12) in tmux (pid 8)`."""
    expires_at: float
    """Unix time, seconds."""


class ConsoleEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A console of another process has come in, was refused, or left."""

    program: str
    pid: int
    who: str


class PolicyEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether every policy file could be read."""

    ok: bool


class UnwritableEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something could not be kept."""

    cause: str
    path: str | UnsetType = UNSET


class CatalogEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The catalog is another."""

    version: int
    names: tuple[str, ...]
    """What changed, the first 200: tools, `sidecar:ID`, `diagnostics`."""


EVENTS: dict[str, tuple[EventClass, type[msgspec.Struct]]] = {
    "call.started": (EventClass.TOOL, CallStartEvent),
    "call.progress": (EventClass.TOOL, CallProgressEvent),
    "call.finished": (EventClass.TOOL, CallEndEvent),
    **dict.fromkeys(
        (
            "approval.asked",
            "approval.decided",
            "approval.timed-out",
            "approval.withdrawn",
            "approval.changed",
        ),
        (EventClass.APPROVAL, RequestEvent),
    ),
    **dict.fromkeys(("question.asked", "question.answered"), (EventClass.APPROVAL, QuestionEvent)),
    **dict.fromkeys(
        ("leases.changed", "blocks.changed", "rules.changed", "status.changed"),
        (EventClass.APPROVAL, EmptyPayload),
    ),
    PAIRING: (EventClass.APPROVAL, PairingEvent),
    **dict.fromkeys(
        ("console.attached", "console.refused", "console.left"), (EventClass.APPROVAL, ConsoleEvent)
    ),
    "hands.changed": (EventClass.APPROVAL, DesktopControlEvent),
    "policy.changed": (EventClass.APPROVAL, PolicyEvent),
    "tickets.unwritable": (EventClass.APPROVAL, UnwritableEvent),
    "catalog.changed": (EventClass.CATALOG, CatalogEvent),
    **dict.fromkeys(("trust.changed", "evidence.changed"), (EventClass.SNAPSHOT, EmptyPayload)),
    "history.read": (EventClass.AUDIT, EmptyPayload),
    "audit.unwritable": (EventClass.AUDIT, UnwritableEvent),
    "token.changed": (EventClass.AUDIT, TokenEvent),
    MISSED: (EventClass.SNAPSHOT, EmptyPayload),
}
"""Class and payload by type of event."""
