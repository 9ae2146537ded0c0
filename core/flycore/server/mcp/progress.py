"""The progress of a call as MCP progress notifications."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from flycore.model.call import Progress
from flycore.model.enums import Phase
from flysafe.text import safe_block

HEARTBEAT_SECONDS = 10.0
"""A notification is sent after this time without one: many clients end a call that reports nothing, and a
person may need minutes to decide."""
MIN_INTERVAL_SECONDS = 0.1
"""Time between two rounds of notifications, so that a tool with 1,000 reports a second does not flood the
client."""
MIN_INCREMENT = 1e-6
"""What a notification adds to the number where the step has no number of its own. MCP requires that the
number grows."""
PHASE_TEXT = {
    Phase.CHECKING: "checking",
    Phase.WAITING_APPROVAL: "waiting for approval",
    Phase.WAITING_GROUP: "waiting for another call to end",
    Phase.RUNNING: "running",
    Phase.FINISHED: "finished",
}

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Sends the progress, the total (None where it is not known) and a message."""


class ProgressReporter:
    """Reports the steps of one call. The kernel calls `add`; `run` sends until it is cancelled."""

    def __init__(self, report: Report, clock: Callable[[], float]) -> None:
        self._report, self._clock = report, clock
        self._waiting: dict[Phase, Progress] = {}
        self._arrived = anyio.Event()
        self._last = Progress(call_id="", phase=Phase.CHECKING)
        self._since = clock()
        self._number = 0.0

    def add(self, step: Progress) -> None:
        """Take one step. Of each phase, only the newest step that was not sent yet is kept."""
        if step.phase is Phase.FINISHED:
            return
        self._waiting.pop(step.phase, None)  # so that the new step goes to the end of the order
        self._waiting[step.phase] = step
        self._arrived.set()

    async def run(self) -> None:
        """Send the steps as they arrive, and a heartbeat when none arrived for a while."""
        while True:
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                await self._arrived.wait()
            # The event is replaced before the steps are sent: a step that arrives meanwhile sets the new one.
            self._arrived = anyio.Event()
            if not await self.flush():
                await self._send_heartbeat(self._last)
            await anyio.sleep(MIN_INTERVAL_SECONDS)

    async def flush(self) -> bool:
        """Send the waiting steps. Return whether there were any."""
        any_waiting = bool(self._waiting)
        while self._waiting:
            await self._send(self._waiting.pop(next(iter(self._waiting))))
        return any_waiting

    async def _send(self, step: Progress) -> None:
        if step.phase is not self._last.phase:
            self._since = self._clock()
        self._last = step
        text = step.message if step.phase is Phase.RUNNING and step.message else PHASE_TEXT[step.phase]
        await self._report(self._next(step), step.total, safe_block(text))

    async def _send_heartbeat(self, last: Progress) -> None:
        lasted = self._clock() - self._since
        await self._report(self._next(last), last.total, f"{PHASE_TEXT[last.phase]}, {lasted:.0f} s")

    def _next(self, step: Progress) -> float:
        """Return the number of the step where it is larger than all before, else the next larger number."""
        # MIN_INCREMENT is lost when it is added to a very large float; `nextafter` always gives a larger one.
        least = max(round(self._number + MIN_INCREMENT, 6), math.nextafter(self._number, math.inf))
        reported = step.progress if step.progress is not None else 0.0
        self._number = max(reported, least)
        return self._number


@asynccontextmanager
async def report_progress(report: Report) -> AsyncIterator[Callable[[Progress], None]]:
    """Send progress notifications while the block runs. Gives the function that takes the call's steps."""
    reporter = ProgressReporter(report, anyio.current_time)
    async with anyio.create_task_group() as group:
        group.start_soon(reporter.run)
        yield reporter.add
        group.cancel_scope.cancel()
    await reporter.flush()  # steps that arrived since the last round, before the result is sent
