"""One call under way: its times and progress, its record in the log, and the value that ends it early."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from flycore.approval.loop_guard import Attempt
from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.model.base import Value
from flycore.model.call import CallRequest, Progress, ToolResult
from flycore.model.clock import Clock
from flycore.model.enums import Code, Phase, Status
from flycore.model.errors import AuditUnwritable
from flycore.model.json import Json, JsonObject, canonical_json, text_digest
from flycore.model.large_values import is_large, run_aside
from flycore.pipeline.activity import ActivityLog
from flycore.sandbox.secret_masks import Masks
from flysafe.spare_descriptors import NONE_LEFT


class Rejection(Value, frozen=True, kw_only=True):
    """The reason why a call ends early. Every step may return one instead of going on."""

    status: Status
    code: str
    message: str
    hint: str = ""
    details: JsonObject = {}  # noqa: RUF012 - msgspec gives each instance its own


def denied(code: Code, message: str, hint: str = "", **details: Json) -> Rejection:
    """The rejection of a call that a person, a rule or a limit refused."""
    return Rejection(status=Status.DENIED, code=code, message=message, hint=hint, details=dict(details))


def failed(code: Code, message: str, hint: str = "", **details: Json) -> Rejection:
    """The rejection of a call that failed without anybody's decision."""
    return Rejection(status=Status.FAILED, code=code, message=message, hint=hint, details=dict(details))


NO_DESCRIPTORS = "no-descriptors"
AUDIT_UNWRITABLE = "audit-unwritable"
MACHINE_FAULTS = (NO_DESCRIPTORS, AUDIT_UNWRITABLE)
"""Values of `fault` in the details of a failure that is the machine's, not the call's."""


def no_descriptors(error: OSError | AuditUnwritable) -> Rejection | None:
    """The rejection of a call for which no file could be opened; None for any other error."""
    words = [os.strerror(number) for number in NONE_LEFT]
    if (error.strerror if isinstance(error, OSError) else error.cause) not in words:
        return None
    return failed(
        Code.SPAWN,
        "flytui has no descriptor left, so that it can open no file and start no program",
        "run fewer calls at once, or raise the limit of descriptors (`ulimit -n`) and start flytui again",
        fault=NO_DESCRIPTORS,
    )


OnProgress = Callable[[Progress], None]
OnCancellable = Callable[[], Awaitable[None]]
"""Is awaited once the call can be cancelled, before its first step."""


class Call:
    """A call under way. `waited_ms` is the time that it waited for people and for other calls."""

    def __init__(
        self, request: CallRequest, clock: Clock, activity: ActivityLog, on_progress: OnProgress | None
    ) -> None:
        self.request = request
        self.waited_ms = 0
        self.edited = False
        """Whether a person has changed the input."""
        self.notices: list[str] = []
        """What has to be told with the result, however the call ends."""
        self._ran_from: float | None = None
        self._clock = clock
        self._activity = activity
        self._on_progress = on_progress

    def report(
        self, phase: Phase, message: str = "", progress: float | None = None, total: float | None = None
    ) -> None:
        """Report the call's progress to the activity log and to the caller."""
        if phase is Phase.RUNNING and self._ran_from is None:
            self._ran_from = self._clock.monotonic()
        step = Progress(
            call_id=self.request.call_id, phase=phase, message=message, progress=progress, total=total
        )
        self._activity.progress(step)
        if self._on_progress is not None:
            self._on_progress(step)

    def hand_on_log(self, log: JsonObject) -> None:
        """Hand a log message of the server on to the caller alone."""
        if self._on_progress is not None:
            self._on_progress(Progress(call_id=self.request.call_id, phase=Phase.RUNNING, log=log))

    @property
    def began(self) -> bool:
        """Whether the tool has begun to run."""
        return self._ran_from is not None

    @property
    def ran_ms(self) -> int:
        """Milliseconds since the tool began to run; 0 where it has not."""
        return 0 if self._ran_from is None else int((self._clock.monotonic() - self._ran_from) * 1000)

    def show_input(self, sidecar: str, input_text: str) -> None:
        """Show the validated input in the activity log. `input_text` has its secrets masked."""
        self._activity.show_input(self.request.call_id, sidecar, input_text)

    def start_wait(self) -> float:
        """The present time, in seconds, to be handed to `end_wait`."""
        return self._clock.monotonic()

    def end_wait(self, began: float) -> None:
        """Count the time since `began` as waiting."""
        self.waited_ms += int((self._clock.monotonic() - began) * 1000)


class RecordedInput(Value, frozen=True, kw_only=True):
    """The input as the log has it; empty where the call ended before it was recorded."""

    input_digest: str = ""
    shown: str = ""
    """Canonical JSON with secrets masked."""


async def record_call(
    audit: AuditLog, call: Call, input: JsonObject, masks: Masks, sidecar: str
) -> RecordedInput:
    """Write the call's arrival with this input to the log, and show the input in the activity log.

    Raises AuditUnwritable.
    """
    recorded, fields = await run_aside(is_large(input), _recorded_input, call.request, input, masks)
    audit.append(audit_events.TOOL_CALLED, fields)
    call.show_input(sidecar, recorded.shown)
    return recorded


def _recorded_input(
    request: CallRequest, input: JsonObject, masks: Masks
) -> tuple[RecordedInput, JsonObject]:
    """The input as the log has it, and the fields of its line."""
    text = canonical_json(input)
    masked = masks.json(input)
    # The digest is over the input before masking, so that it equals the one that the start line names.
    over = text_digest(text)
    fields = masks.json(audit_events.tool_called(request, masked, input_digest=over))
    shown = text if masked == input else canonical_json(masked)
    return RecordedInput(input_digest=over, shown=shown), fields


def attempt_of(call: Call, arrival: RecordedInput, result: ToolResult) -> Attempt:
    """What the loop guard counts of the call. It holds no secret."""
    error = result.error
    return Attempt(
        caller=call.request.caller,
        tool=call.request.tool,
        input_digest=arrival.input_digest,
        input_text=arrival.shown,
        status=result.status,
        code=error.code if error is not None else "",
        message=error.message if error is not None else "",
        machine_fault=error is not None and error.details.get("fault") in MACHINE_FAULTS,
    )
