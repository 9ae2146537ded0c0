"""The payloads of `event.publish`, one shape for each type of event.

An event carries ids and states only. A client that needs more sends a read of the table.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from flycore.model.base import Value
from flycore.model.enums import PackageResult, Phase, QuestionKind, RequestState, Risk, Status, UpgradeState
from flycore.model.events import MISSED, PAIRING, EventClass
from flycore.rpc.messages import EmptyPayload


class CallStartEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel received a call."""

    call_id: str
    tool: str


class CallProgressEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call entered another phase, or its tool reported progress."""

    call_id: str
    phase: Phase


class CallEndEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call ended."""

    call_id: str
    status: Status


class ToolEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The program of a call was started, or the call succeeded, in the words of Flyflor."""

    call_id: str
    tool: str


class ToolFailedEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call failed or was refused, in the words of Flyflor."""

    call_id: str
    tool: str
    error: str
    """The code of the result's error, or its status where it has none."""


class RequestEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of an approval request changed."""

    request_id: str
    call_id: str
    tool: str
    risk: Risk
    state: RequestState
    by: str
    """Who decided; empty where nobody did."""


class QuestionEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that is not about one call was asked or answered."""

    question_id: str
    kind: QuestionKind
    about: str | UnsetType = UNSET
    """Key of the caller that the question is about."""


class TokenEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token for TCP and HTTP was made or revoked. Only viewers get this event."""

    name: str
    decision: str
    """`made`, `made for a URL` or `revoked`."""
    by: str
    """The program that sent the change."""
    about: str


class LoginEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person logged in or out at an MCP server. Only viewers get this event."""

    name: str
    """The entry of the server."""
    decision: str
    """`logged-in` or `logged-out`."""
    by: str
    """The program that sent the change."""
    about: str


class DesktopControlEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool began or ended to control the desktop."""

    on: bool


class PairingEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A console asks to be paired. Only consoles that already decide get this event."""

    code: str
    program: str
    pid: int
    who: str
    """The process and the programs that started it, such as `flytui (pid 12) in tmux (pid 8)`."""
    expires_at: float
    """Unix time, seconds."""


class ConsoleEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A console of another process was paired, was refused, or disconnected."""

    program: str
    pid: int
    who: str


class PolicyEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy files changed; `ok` says whether all of them could be read."""

    ok: bool


class UnwritableEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the kernel could not be written."""

    cause: str
    path: str | UnsetType = UNSET


class PackageEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a package ended."""

    package: str
    state: UpgradeState
    """The state of the package after it."""
    result: PackageResult


class CatalogEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The catalog changed."""

    version: int
    names: tuple[str, ...]
    """What changed, at most 200 names: tools, `sidecar:ID`, `diagnostics`."""


class QuotaDeniedEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A caller's calls begin to be refused because its quota is used up."""

    about: str
    """Key of the caller."""
    message: str
    """Which limit was reached."""


class QuotaFreedEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a caller whose calls were refused may begin again."""

    about: str
    """Key of the caller."""


class LineEvent(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line was written to the audit log. An agent gets those of its own calls, a viewer all."""

    seq: int
    """Number of the line."""
    event: str
    """The event that the line records, such as `TOOL_EXECUTED`."""
    call_id: str | UnsetType = UNSET
    about: str | UnsetType = UNSET
    """For a line that is of no call: key of the caller, or empty."""


EVENTS: dict[str, tuple[EventClass, type[msgspec.Struct]]] = {
    "call.started": (EventClass.TOOL, CallStartEvent),
    "call.progress": (EventClass.TOOL, CallProgressEvent),
    "call.finished": (EventClass.TOOL, CallEndEvent),
    "tool.started": (EventClass.TOOL, ToolEvent),
    "tool.succeeded": (EventClass.TOOL, ToolEvent),
    "tool.failed": (EventClass.TOOL, ToolFailedEvent),
    **dict.fromkeys(
        (
            "approval.asked",
            "approval.decided",
            "approval.timed-out",
            "approval.withdrawn",
            "approval.changed",
            "approval.turned-away",
            "confirm.answered",
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
    "quota.denied": (EventClass.QUOTA, QuotaDeniedEvent),
    "quota.freed": (EventClass.QUOTA, QuotaFreedEvent),
    "catalog.changed": (EventClass.CATALOG, CatalogEvent),
    "package.changed": (EventClass.PACKAGE, PackageEvent),
    "packages.changed": (EventClass.PACKAGE, EmptyPayload),
    **dict.fromkeys(("trust.changed", "evidence.changed"), (EventClass.SNAPSHOT, EmptyPayload)),
    "history.read": (EventClass.AUDIT, EmptyPayload),
    "audit.line": (EventClass.AUDIT, LineEvent),
    "audit.unwritable": (EventClass.AUDIT, UnwritableEvent),
    "token.changed": (EventClass.AUDIT, TokenEvent),
    "login.changed": (EventClass.AUDIT, LoginEvent),
    MISSED: (EventClass.SNAPSHOT, EmptyPayload),
}
"""The class and the payload of each type of event."""
