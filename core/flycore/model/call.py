"""Call values: the request, its progress and its result, in the same shape for every door.

A picture of what a call made is small: it has the size that a terminal can show.
"""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.caller import Caller as Caller
from flycore.model.enums import Code, Level, Phase, RequestState, Status
from flycore.model.json import Json, JsonObject
from flycore.model.refusals import Refusals

MOST_WIDTH = 320
MOST_HEIGHT = 200


class Picture(Value, frozen=True, kw_only=True):
    """Pixels, row by row from the top, three bytes each (red, green, blue). On the wire `rgb` is base64."""

    width: int
    height: int
    rgb: bytes

    def __post_init__(self) -> None:
        """Check the size. Raises ValueError where it is out of range or does not match the pixels."""
        if not (0 < self.width <= MOST_WIDTH and 0 < self.height <= MOST_HEIGHT):
            raise ValueError(f"a picture is at most {MOST_WIDTH}×{MOST_HEIGHT} pixels and at least one")
        if len(self.rgb) != self.width * self.height * 3:
            raise ValueError("a picture has three bytes a pixel")


EXIT_BY_CODE: dict[str, int] = {
    Code.INVALID_INPUT: 2,
    Code.NOT_FOUND: 3,
    Code.TIMEOUT: 6,
    Code.APPROVAL_TIMEOUT: 6,
    Code.QUEUE_FULL: 10,
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
    """The step of a plan that a call is."""

    plan: str
    """The plan's tool, such as `computer.use`."""
    number: int
    """From 1, in the order of the plan."""
    of: int
    """The number of steps, including waits and the last picture."""

    def __str__(self) -> str:
        return f"step {self.number} of {self.of} of {self.plan}"


class CallRequest(Value, frozen=True, kw_only=True):
    """A call as a door hands it to the kernel."""

    call_id: str
    tool: str
    input: JsonObject
    caller: Caller
    timeout_ms: int | None = None
    """Shortens the entry's own limit, never lengthens it."""
    said: str = ""
    """What the caller says about its purpose. It is not verified."""
    parent_call_id: str | None = None
    """Call id of the plan whose step this is. No door reads it from outside."""
    step: PlanStep | None = None
    """The step of that plan."""
    wait_approver_ms: int = 0
    """How long to wait for a console to open, where a person is needed and no console is open."""
    inline_wait_ms: int | None = None
    """How long to wait for a person before the call ends `pending` with a ticket; None waits to the end."""
    observe: bool = False
    """Whether the result says what the sandbox refused to the program, also where the call succeeds."""
    samples: bool = False
    """Whether the caller has a model, and answers what an MCP server asks of it (`Progress.sampling`)."""


class Progress(Value, frozen=True, kw_only=True):
    """How far a running call is."""

    call_id: str
    phase: Phase
    progress: float | None = None
    total: float | None = None
    message: str = ""
    log: JsonObject = {}
    """A log message of the MCP server that works on the call, as it sent it, with `level`, `logger` and
    `data`; it says nothing of the progress. Empty where this is progress."""
    sampling: JsonObject = {}
    """A request to the caller's model, which a person let through: its `id`, for `sampling.answer`, and its
    `params` as MCP has them for `sampling/createMessage`. Empty where this is progress."""


class CallError(Value, frozen=True, kw_only=True):
    """Why a call has no output. `details` holds what an audit needs."""

    code: str
    """A member of Code or, for an unavailable tool, of ReasonCode (msgspec decodes no union of the two)."""
    message: str
    hint: str = ""
    details: JsonObject = {}


class Artifact(Value, frozen=True, kw_only=True):
    """A file that a call made for the caller."""

    path: str
    mime_type: str
    bytes: int


class ToolResult(Value, frozen=True, kw_only=True):
    """The result of a call: `output` for the status `success`, `error` for every other one."""

    status: Status
    tool: str
    sidecar: str | None
    call_id: str
    output: Json = None
    text: str | None = None
    """The text of an MCP server's answer, which agents get as it is; None for every other tool."""
    structured: bool = True
    """Whether the tool gave a structured output. Where it gave only text, the output was made from that."""
    content: tuple[JsonObject, ...] = ()
    """The content blocks of an MCP server's answer, as the server sent them, also of one that is an error.
    Base64 is an artifact of the call: in place of it, a block has the field `artifact`, the number of it from
    0. Empty where the answer is only `text`."""
    meta: JsonObject = {}
    """The `_meta` of an MCP server's answer."""
    error: CallError | None = None
    artifacts: tuple[Artifact, ...] = ()
    duration_ms: int = 0
    """Milliseconds of running, without waiting."""
    waited_ms: int = 0
    exit_code: int | None = None
    """Exit code of the program; negative for a signal, None where nothing ran."""
    stderr_tail: str = ""
    sandbox: Level | None = None
    """The sandbox level that was applied; None where nothing ran."""
    warnings: tuple[str, ...] = ()
    refusals: Refusals | None = None
    """What the sandbox refused to the program. None where that is not known, and for a call that succeeded
    and was not to be observed."""

    @property
    def exit_status(self) -> int:
        """The exit code of `flytui call` for this result."""
        if self.error is not None and self.error.code in EXIT_BY_CODE:
            return EXIT_BY_CODE[self.error.code]
        return EXIT_BY_STATUS[self.status]


class CallDecision(Value, frozen=True, kw_only=True):
    """How the request of a call was decided."""

    outcome: RequestState
    by: str = ""
    """The console of the person who decided; empty where nobody did."""
    took_ms: int = 0
    """Milliseconds from the request to the decision."""
    reason: str = ""
    """The reason that the person gave."""


class Activity(Value, frozen=True, kw_only=True):
    """A call as the Activity screen shows it."""

    call_id: str
    tool: str
    sidecar: str | None
    caller: Caller
    phase: Phase
    started_at: float
    """Unix time in seconds at which the call arrived."""
    running_since: float | None = None
    input_text: str = ""
    """Canonical JSON of the input, with secrets masked."""
    parent_call_id: str = ""
    """Call id of the plan whose step this is."""
    step: PlanStep | None = None
    progress: Progress | None = None
    decision: CallDecision | None = None
    """How its request was decided; None where there was none, and while it waits."""
    authority: str = ""
    """What permitted the call to start, with its id or place: `request …`, `lease …` or `policy …`; or `its
    steps` for a plan."""
    result: ToolResult | None = None


class UndoResult(Value, frozen=True, kw_only=True):
    """Whether the change that a call made to files was undone, or can be where that was only asked."""

    accepted: bool
    why_not: str = ""
    files: tuple[str, ...] = ()
    """The files that get back what they were, relative to the project."""
