"""The events of quotas: `quota.denied` when a caller's calls begin to be refused, `quota.freed` once one may
begin again, whether the caller tries or not."""

from __future__ import annotations

import math

import anyio

from flycore.approval.quota import Quota, QuotaLimits, QuotaRefusal
from flycore.kernel.bus import Recorder
from flycore.model.events import EventClass

MOST_WAITING = 1024
"""Callers whose next free call is waited for. Beyond, a caller's own next call reports that it is free."""


class QuotaEvents:
    """The publisher of these events, which waits for the time at which a refused caller may call again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._due: dict[str, float] = {}
        """Monotonic time at which to look at a caller again."""
        self._changed = anyio.Event()

    def quota(self, limits: QuotaLimits) -> Quota:
        """Return the quota whose changes are published."""
        self._quota = Quota(self._recorder.clock, limits, self._on_change)
        return self._quota

    def _on_change(self, caller: str, refusal: QuotaRefusal | None) -> None:
        if refusal is None:
            self._due.pop(caller, None)
            self._recorder.publish(EventClass.QUOTA, "quota.freed", {"about": caller})
            return
        if refusal.free_in is not None and len(self._due) < MOST_WAITING:
            self._due[caller] = self._recorder.clock.monotonic() + refusal.free_in
            self._changed.set()
        self._recorder.publish(
            EventClass.QUOTA, "quota.denied", {"about": caller, "message": refusal.message}
        )

    async def run(self) -> None:
        """Report callers that may call again, each at its time."""
        clock = self._recorder.clock
        while True:
            self._changed = anyio.Event()
            with anyio.CancelScope() as pause:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._wait_for_change, pause)
                    await clock.sleep_until(min(self._due.values(), default=math.inf))
                    group.cancel_scope.cancel()
            for caller in [name for name, at in self._due.items() if at <= clock.monotonic()]:
                del self._due[caller]
                # Meanwhile the caller may have used what became free.
                again = self._quota.free_again(caller)
                if again is not None:
                    self._due[caller] = clock.monotonic() + again

    async def _wait_for_change(self, pause: anyio.CancelScope) -> None:
        await self._changed.wait()
        pause.cancel()
