"""What runs and what ran lately: the list that the Activity screen shows and cancel works on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import anyio
import msgspec

from flycore.model.call import Activity, CallRequest, Progress, ToolResult
from flycore.model.clock import Clock
from flycore.model.enums import Phase
from flycore.model.events import Event, EventClass, Publish

FINISHED_KEPT = 500
"""Finished calls kept in memory; the audit log has all of them."""
FINISHED_BYTES = 8 * 1024 * 1024
"""Of all their inputs and outputs together; the oldest go first."""
SHOWN_BYTES = 256 * 1024
"""Of one input, output or set of details; what is larger was the caller's to keep."""


class ActivityLog:
    """Calls under way with the scope that ends each, and the latest finished ones."""

    def __init__(self, clock: Clock, publish: Publish) -> None:
        self._clock = clock
        self._publish = publish
        self._running: dict[str, Activity] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._ends: dict[str, anyio.Event] = {}
        self._panicked: set[str] = set()
        self._finished: OrderedDict[str, tuple[Activity, int]] = OrderedDict()
        self._finished_bytes = 0

    def begin(self, request: CallRequest, scope: anyio.CancelScope, input_text: str) -> None:
        """A call has arrived; cancelling `scope` ends it."""
        self._running[request.call_id] = Activity(
            call_id=request.call_id,
            tool=request.tool,
            sidecar=None,
            caller=request.caller,
            phase=Phase.CHECKING,
            started_at=self._clock.now(),
            input_text=input_text,
            parent_call_id=request.parent_call_id or "",
            step=request.step,
        )
        self._scopes[request.call_id] = scope
        self._ends[request.call_id] = anyio.Event()
        self._publish_event("call.started", request.call_id, tool=request.tool)

    def show_input(self, call_id: str, sidecar: str, input_text: str) -> None:
        """The input as checked, with secrets masked."""
        self._change(call_id, sidecar=sidecar, input_text=input_text)

    def progress(self, progress: Progress) -> None:
        """A call has moved."""
        activity = self._running.get(progress.call_id)
        if activity is None:
            return
        starts = progress.phase is Phase.RUNNING and activity.running_since is None
        since = self._clock.now() if starts else activity.running_since
        self._change(progress.call_id, phase=progress.phase, progress=progress, running_since=since)
        self._publish_event("call.progress", progress.call_id, phase=progress.phase.value)

    def finish(self, result: ToolResult) -> None:
        """A call has ended."""
        activity = self._running.pop(result.call_id, None)
        self._scopes.pop(result.call_id, None)
        self._panicked.discard(result.call_id)
        if (ended := self._ends.pop(result.call_id, None)) is not None:
            ended.set()
        if activity is None:
            return
        self._keep(
            msgspec.structs.replace(
                activity,
                phase=Phase.FINISHED,
                result=_bounded(result),
                sidecar=result.sidecar,
                input_text=_bounded_text(activity.input_text),
            )
        )
        self._publish_event("call.finished", result.call_id, status=result.status.value)

    def cancel(self, call_id: str) -> bool:
        """End a call that is under way; False when there is none."""
        scope = self._scopes.get(call_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    def stop(self, *, asking: bool) -> tuple[str, ...]:
        """Panic: end the calls under way; those that wait for a person only with `asking`, because their
        requests are settled first. Ids of the calls that are ending."""
        stopped = [
            call_id
            for call_id, activity in self._running.items()
            if asking or activity.phase is not Phase.WAITING_APPROVAL
        ]
        self._panicked.update(stopped)
        for call_id in stopped:
            self._scopes[call_id].cancel()
        return tuple(stopped)

    def stopped_by_panic(self, call_id: str) -> bool:
        """Whether the call is ending because everything was stopped."""
        return call_id in self._panicked

    async def wait_until_ended(self, call_ids: Iterable[str]) -> None:
        """Wait until these calls have ended, their processes too."""
        for call_id in tuple(call_ids):
            if (end := self._ends.get(call_id)) is not None:
                await end.wait()

    def all(self) -> tuple[Activity, ...]:
        """Under way first, then finished, newest first."""
        finished = (activity for activity, _ in reversed(self._finished.values()))
        return (*reversed(self._running.values()), *finished)

    def find(self, call_id: str) -> Activity | None:
        """The call, under way or ended; None where it is not known any more."""
        kept = self._finished.get(call_id)
        return self._running.get(call_id) or (kept[0] if kept is not None else None)

    def caller_of(self, call_id: str) -> str:
        """Key of whose call it is or was; empty where it is not known any more."""
        activity = self.find(call_id)
        return activity.caller.key if activity is not None else ""

    def running(self) -> int:
        """How many calls are under way."""
        return len(self._running)

    def _keep(self, activity: Activity) -> None:
        size = len(msgspec.json.encode(activity))
        self._finished[activity.call_id] = (activity, size)
        self._finished_bytes += size
        while len(self._finished) > FINISHED_KEPT or self._finished_bytes > FINISHED_BYTES:
            _, (_, gone) = self._finished.popitem(last=False)
            self._finished_bytes -= gone

    def _change(self, call_id: str, **fields: object) -> None:
        if call_id in self._running:
            self._running[call_id] = msgspec.structs.replace(self._running[call_id], **fields)

    def _publish_event(self, kind: str, call_id: str, **payload: str) -> None:
        self._publish(
            Event(
                cls=EventClass.TOOL, type=kind, at=self._clock.now(), payload={"callId": call_id, **payload}
            )
        )


def _bounded(result: ToolResult) -> ToolResult:
    """The result with what is too large left out, and that said."""
    warnings = result.warnings
    output, error = result.output, result.error
    if _is_large(output):
        output = None
        warnings = (*warnings, f"the output is not kept here: it is larger than {SHOWN_BYTES} bytes")
    if error is not None and _is_large(error.details):
        error = msgspec.structs.replace(error, details={})
        warnings = (*warnings, f"the details are not kept here: they are larger than {SHOWN_BYTES} bytes")
    return msgspec.structs.replace(result, output=output, error=error, warnings=warnings)


def _is_large(value: object) -> bool:
    return len(msgspec.json.encode(value)) > SHOWN_BYTES


def _bounded_text(text: str) -> str:
    return text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}… ({len(text):,} characters in all)"
