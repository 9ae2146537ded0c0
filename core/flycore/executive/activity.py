"""What runs and what ran lately: the list that the Activity screen shows and cancel works on."""

from __future__ import annotations

from collections import OrderedDict

import anyio
import msgspec

from flycore.executive.rooms import Clock
from flycore.model.call import Activity, CallRequest, Progress, ToolResult
from flycore.model.enums import Phase
from flycore.model.events import Event, EventClass, Publish

FINISHED_KEPT = 500
"""Finished calls kept in memory; the audit log has all of them."""


class ActivityBook:
    """Calls under way with the scope that ends each, and the latest finished ones."""

    def __init__(self, clock: Clock, publish: Publish) -> None:
        self._clock = clock
        self._publish = publish
        self._running: dict[str, Activity] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._finished: OrderedDict[str, Activity] = OrderedDict()

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
        )
        self._scopes[request.call_id] = scope
        self._tell("call.started", request.call_id, tool=request.tool)

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
        self._tell("call.progress", progress.call_id, phase=progress.phase.value)

    def finish(self, result: ToolResult) -> None:
        """A call has ended."""
        activity = self._running.pop(result.call_id, None)
        self._scopes.pop(result.call_id, None)
        if activity is None:
            return
        self._finished[result.call_id] = msgspec.structs.replace(
            activity, phase=Phase.FINISHED, result=result, sidecar=result.sidecar
        )
        while len(self._finished) > FINISHED_KEPT:
            self._finished.popitem(last=False)
        self._tell("call.finished", result.call_id, status=result.status.value)

    def cancel(self, call_id: str) -> bool:
        """End a call that is under way; False when there is none."""
        scope = self._scopes.get(call_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    def all(self) -> tuple[Activity, ...]:
        """Under way first, then finished, newest first."""
        return (*reversed(self._running.values()), *reversed(self._finished.values()))

    def running(self) -> int:
        """How many calls are under way."""
        return len(self._running)

    def _change(self, call_id: str, **fields: object) -> None:
        if call_id in self._running:
            self._running[call_id] = msgspec.structs.replace(self._running[call_id], **fields)

    def _tell(self, kind: str, call_id: str, **payload: str) -> None:
        self._publish(
            Event(
                cls=EventClass.TOOL, type=kind, at=self._clock.now(), payload={"callId": call_id, **payload}
            )
        )
