"""A call and its result: the one shape every door hands out."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.caller import Caller as Caller
from flycore.model.enums import Code, Level, Phase, Status
from flycore.model.json import Json, JsonObject

EXIT_BY_CODE: dict[str, int] = {
    Code.INVALID_INPUT: 2,
    Code.NOT_FOUND: 3,
    Code.TIMEOUT: 6,
    Code.APPROVAL_TIMEOUT: 6,
    Code.CANCELLED: 130,
}
EXIT_BY_STATUS: dict[Status, int] = {
    Status.SUCCESS: 0,
    Status.FAILED: 1,
    Status.UNAVAILABLE: 3,
    Status.DENIED: 4,
    Status.UNKNOWN: 7,
    Status.PENDING: 8,
}


class PlanStep(Value, frozen=True, kw_only=True):
    """Which step of which plan a call is."""

    plan: str
    """The plan's tool, such as `computer.use`."""
    number: int
    """From 1, in the order of the plan."""
    of: int
    """How many there are, waits and the closing picture included."""

    def __str__(self) -> str:
        return f"step {self.number} of {self.of} of {self.plan}"


class CallRequest(Value, frozen=True, kw_only=True):
    """What a door hands to the kernel."""

    call_id: str
    tool: str
    input: JsonObject
    caller: Caller
    timeout_ms: int | None = None
    """Shortens the entry's own limit, never lengthens it."""
    said: str = ""
    """What the caller says of its purpose; unverified."""
    parent_call_id: str | None = None
    """Of the plan whose step this is; no door reads it from outside."""
    step: PlanStep | None = None
    """Where in that plan."""
    wait_approver_ms: int = 0
    """How long to wait for a console to open when a person is needed and none is there."""
    inline_wait_ms: int | None = None
    """How long to wait for a person before the call ends `pending` with a ticket; None: to the end."""


class Progress(Value, frozen=True, kw_only=True):
    """How far a running call is."""

    call_id: str
    phase: Phase
    progress: float | None = None
    total: float | None = None
    message: str = ""


class CallError(Value, frozen=True, kw_only=True):
    """Why there is no output. `details` holds what an audit needs."""

    code: str
    """A member of Code or, for an unavailable tool, of ReasonCode (msgspec decodes no union of the two)."""
    message: str
    hint: str = ""
    details: JsonObject = {}


class Artifact(Value, frozen=True, kw_only=True):
    """A file made for the caller."""

    path: str
    mime_type: str
    bytes: int


class ToolResult(Value, frozen=True, kw_only=True):
    """How a call ended. `output` is there for `success`, `error` for everything else."""

    status: Status
    tool: str
    sidecar: str | None
    call_id: str
    output: Json = None
    error: CallError | None = None
    artifacts: tuple[Artifact, ...] = ()
    duration_ms: int = 0
    """Running, not waiting."""
    waited_ms: int = 0
    exit_code: int | None = None
    """Negative for a signal, None where nothing ran."""
    stderr_tail: str = ""
    sandbox: Level | None = None
    """The level that was applied; None where nothing ran."""
    warnings: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """Exit code of `flytui call` for this result."""
        if self.error is not None and self.error.code in EXIT_BY_CODE:
            return EXIT_BY_CODE[self.error.code]
        return EXIT_BY_STATUS[self.status]


class Activity(Value, frozen=True, kw_only=True):
    """A call as the Activity screen shows it."""

    call_id: str
    tool: str
    sidecar: str | None
    caller: Caller
    phase: Phase
    started_at: float
    """Unix time the call arrived, seconds."""
    running_since: float | None = None
    input_text: str = ""
    """Canonical JSON of the input, secrets masked."""
    parent_call_id: str = ""
    """Of the plan whose step this is."""
    step: PlanStep | None = None
    progress: Progress | None = None
    result: ToolResult | None = None
