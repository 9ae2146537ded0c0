"""A call's steps as MCP progress: numbers that only grow, and a beat while nothing happens, so that a client
that counts from the last progress does not time out while a person thinks."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from flycore.model.call import Progress
from flycore.model.enums import Phase
from flysafe.text import safe_text

HEARTBEAT_SECONDS = 2.0
MIN_INTERVAL_SECONDS = 0.1
"""Between two rounds: a tool that tells of a thousand steps a second is followed, not copied."""
MIN_INCREMENT = 1e-6
"""What a message without a number of its own adds."""
PHASE_TEXT = {
    Phase.CHECKING: "checking",
    Phase.WAITING_APPROVAL: "waiting for approval",
    Phase.WAITING_GROUP: "waiting for another call to leave",
    Phase.RUNNING: "running",
    Phase.FINISHED: "finished",
}

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Sends a number, what it is out of, and words."""


class ProgressReporter:
    """The steps of one call. `take` is handed to the kernel, `tell` sends until it is cancelled."""

    def __init__(self, report: Report, clock: Callable[[], float]) -> None:
        self._report, self._clock = report, clock
        self._waiting: dict[Phase, Progress] = {}
        self._arrived = anyio.Event()
        self._last = Progress(call_id="", phase=Phase.CHECKING)
        self._since = clock()
        self._number = 0.0

    def add(self, step: Progress) -> None:
        """A step has come. Of one phase only the newest is kept."""
        if step.phase is Phase.FINISHED:
            return
        self._waiting.pop(step.phase, None)
        self._waiting[step.phase] = step
        self._arrived.set()

    async def run(self) -> None:
        """Send what comes, and a beat when nothing has."""
        while True:
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                await self._arrived.wait()
            self._arrived = anyio.Event()
            if not await self.flush():
                await self._send_heartbeat(self._last)
            await anyio.sleep(MIN_INTERVAL_SECONDS)

    async def flush(self) -> bool:
        """Send the steps that have come; whether there were any."""
        any_came = bool(self._waiting)
        while self._waiting:
            await self._send(self._waiting.pop(next(iter(self._waiting))))
        return any_came

    async def _send(self, step: Progress) -> None:
        if step.phase is not self._last.phase:
            self._since = self._clock()
        self._last = step
        words = step.message if step.phase is Phase.RUNNING and step.message else PHASE_TEXT[step.phase]
        await self._report(self._next(step), step.total, safe_text(words))

    async def _send_heartbeat(self, last: Progress) -> None:
        lasted = self._clock() - self._since
        await self._report(self._next(last), last.total, f"{PHASE_TEXT[last.phase]}, {lasted:.0f} s")

    def _next(self, step: Progress) -> float:
        """The tool's own number where it is larger than all before, else the least that is."""
        least = max(round(self._number + MIN_INCREMENT, 6), math.nextafter(self._number, math.inf))
        said = step.progress if step.progress is not None else 0.0
        self._number = max(said, least)
        return self._number


@asynccontextmanager
async def report_progress(report: Report) -> AsyncIterator[Callable[[Progress], None]]:
    """Tell while the block runs; gives what takes the call's steps."""
    told = ProgressReporter(report, anyio.current_time)
    async with anyio.create_task_group() as group:
        group.start_soon(told.run)
        yield told.add
        group.cancel_scope.cancel()
    await told.flush()
