"""The time in which a tool controls mouse and keyboard: until shortly after it, nobody can approve.

A tool that can press keys could press the approving ones, so they are dead in every console meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from flycore.model.clock import Clock
from flycore.model.events import Event, EventClass, Publish

AFTER_SECONDS = 2.0
"""Seconds after the end of a call: the desktop may deliver the keys of the tool after its process ended."""


def controls_desktop(tool: str) -> bool:
    """Return whether calls of the tool act on the desktop. The plan `computer.use` acts only through its
    steps, which are calls of their own."""
    return tool.startswith("computer.") and tool != "computer.use"


class DesktopControl:
    """Counts the running `computer.*` calls, and publishes when the desktop is under control and free
    again."""

    def __init__(self, clock: Clock, publish: Publish) -> None:
        self._clock = clock
        self._publish = publish
        self._running = 0
        self._until = float("-inf")
        self._published = False
        self._ended = anyio.Event()

    def active(self) -> bool:
        """Return whether such a call runs, or ended less than `AFTER_SECONDS` ago."""
        return self._running > 0 or self._clock.monotonic() < self._until

    @contextmanager
    def call_running(self) -> Iterator[None]:
        """Count one call as running for the block."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Note that a call begins."""
        self._running += 1
        self._publish_change(on=True)

    def leave(self) -> None:
        """Note that a call has ended, with all its processes."""
        self._running -= 1
        self._until = max(self._until, self._clock.monotonic() + AFTER_SECONDS)
        self._ended.set()

    async def run(self) -> None:
        """Publish when the desktop is free again. Runs until cancelled, in the kernel's task group."""
        while True:
            await self._ended.wait()
            self._ended = anyio.Event()
            await self._clock.sleep_until(self._until)
            # Another call may have begun or ended during the sleep; then a later round publishes.
            if not self.active():
                self._publish_change(on=False)

    def _publish_change(self, *, on: bool) -> None:
        if on is self._published:
            return
        self._published = on
        at = self._clock.now()
        self._publish(Event(cls=EventClass.APPROVAL, type="hands.changed", at=at, payload={"on": on}))
