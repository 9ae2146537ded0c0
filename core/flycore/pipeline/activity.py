"""The activity log: the calls under way, which can be cancelled, and the latest finished ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import anyio
import msgspec

from flycore.model.call import Activity, CallRequest, Progress, ToolResult
from flycore.model.clock import Clock
from flycore.model.enums import Phase, Status
from flycore.model.events import Event, EventClass, Publish

FINISHED_KEPT = 500
"""Finished calls kept in memory; the audit log has all of them."""
FINISHED_BYTES = 8 * 1024 * 1024
"""Bytes of all finished calls together; the oldest are dropped first."""
SHOWN_BYTES = 256 * 1024
"""Bytes of one input, output or set of details; a larger one is left out, for the caller has it."""


class ActivityLog:
    """The calls under way, each with the scope that cancels it, and the latest finished ones."""

    def __init__(self, clock: Clock, publish: Publish) -> None:
        self._clock = clock
        self._publish = publish
        self._running: dict[str, Activity] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._ends: dict[str, anyio.Event] = {}
        self._panicked: set[str] = set()
        self.closed = False
        """Whether the calls end because the kernel does."""
        self._finished: OrderedDict[str, tuple[Activity, int]] = OrderedDict()
        self._finished_bytes = 0

    def begin(self, request: CallRequest, scope: anyio.CancelScope, input_text: str) -> None:
        """Add a call that has arrived; cancelling `scope` ends it."""
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
        """Set the call's validated input, with secrets masked."""
        self._change(call_id, sidecar=sidecar, input_text=input_text)

    def progress(self, progress: Progress) -> None:
        """Set the call's phase and progress, and publish them."""
        activity = self._running.get(progress.call_id)
        # A sidecar's last event may arrive after its call has ended.
        if activity is None:
            return
        starts = progress.phase is Phase.RUNNING and activity.running_since is None
        since = self._clock.now() if starts else activity.running_since
        self._change(progress.call_id, phase=progress.phase, progress=progress, running_since=since)
        self._publish_event("call.progress", progress.call_id, phase=progress.phase.value)
        if starts:
            self._publish_event("tool.started", progress.call_id, tool=activity.tool)

    def finish(self, result: ToolResult) -> None:
        """Move the call to the finished ones, and publish its end."""
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
        # A call that waits for a person under a ticket has neither succeeded nor failed.
        if result.status is Status.SUCCESS:
            self._publish_event("tool.succeeded", result.call_id, tool=activity.tool)
        elif result.status is not Status.PENDING:
            error = result.error.code if result.error is not None else result.status.value
            self._publish_event("tool.failed", result.call_id, tool=activity.tool, error=error)

    def cancel(self, call_id: str) -> bool:
        """Cancel the call; False where no such call is under way."""
        scope = self._scopes.get(call_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    def close(self) -> None:
        """Cancel all calls under way, because the kernel ends."""
        self.closed = True
        for scope in self._scopes.values():
            scope.cancel()

    def stop(self, *, asking: bool) -> tuple[str, ...]:
        """Cancel the calls under way because of a panic, and return their ids. Calls that wait for a person
        are cancelled only with `asking`."""
        # Without `asking` the requests themselves are settled by the panic: a call that was cancelled first
        # would withdraw its request, and the log would not say that the panic ended it.
        stopped = [
            call_id
            for call_id, activity in self._running.items()
            if asking or activity.phase is not Phase.WAITING_APPROVAL
        ]
        self._panicked.update(stopped)
        for call_id in stopped:
            self._scopes[call_id].cancel()
        return tuple(stopped)

    def under_way(self, sidecar: str) -> tuple[Activity, ...]:
        """Return the calls whose program may run, of one sidecar."""
        return tuple(
            call
            for call in self._running.values()
            if call.sidecar == sidecar and call.running_since is not None
        )

    def stopped_by_panic(self, call_id: str) -> bool:
        """Whether the call ends because of a panic."""
        return call_id in self._panicked

    async def wait_until_ended(self, call_ids: Iterable[str]) -> None:
        """Wait until these calls and their processes have ended."""
        for call_id in tuple(call_ids):
            if (end := self._ends.get(call_id)) is not None:
                await end.wait()

    def all(self) -> tuple[Activity, ...]:
        """All calls: those under way, then the finished ones, each newest first."""
        finished = (activity for activity, _ in reversed(self._finished.values()))
        return (*reversed(self._running.values()), *finished)

    def find(self, call_id: str) -> Activity | None:
        """The call, under way or finished; None where it is not kept any more."""
        kept = self._finished.get(call_id)
        return self._running.get(call_id) or (kept[0] if kept is not None else None)

    def caller_of(self, call_id: str) -> str:
        """The key of the call's caller; empty where the call is not kept any more."""
        activity = self.find(call_id)
        return activity.caller.key if activity is not None else ""

    def running(self) -> int:
        """The number of calls under way."""
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
    """The result without an output or details that are too large, with a warning for each."""
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
