"""Hands on the machine: while a tool moves mouse or keyboard, and shortly after, nobody can approve.

A tool that can press keys could press the approving ones; so those are dead in every console.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from flycore.model.clock import Clock
from flycore.model.events import Event, EventClass, Publish

AFTER_SECONDS = 2.0
"""Keys may still be on their way when the call has ended."""


def controls_desktop(tool: str) -> bool:
    """Whether calls of the tool reach the desktop. The plan `computer.use` acts only through its steps."""
    return tool.startswith("computer.") and tool != "computer.use"


class DesktopControl:
    """Counts running `computer.*` calls; `run` tells the consoles when it is over."""

    def __init__(self, clock: Clock, publish: Publish) -> None:
        self._clock = clock
        self._publish = publish
        self._running = 0
        self._until = float("-inf")
        self._told = False
        self._left = anyio.Event()

    def active(self) -> bool:
        """Whether such a call runs, or ended less than two seconds ago."""
        return self._running > 0 or self._clock.monotonic() < self._until

    @contextmanager
    def call_running(self) -> Iterator[None]:
        """Around one running call."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """A call begins."""
        self._running += 1
        self._publish_change(on=True)

    def leave(self) -> None:
        """A call has ended, with all its processes."""
        self._running -= 1
        self._until = max(self._until, self._clock.monotonic() + AFTER_SECONDS)
        self._left.set()

    async def run(self) -> None:
        """Publish the end of each spell. Runs until cancelled, in the kernel's task group."""
        while True:
            await self._left.wait()
            self._left = anyio.Event()
            await self._clock.sleep_until(self._until)
            if not self.active():
                self._publish_change(on=False)

    def _publish_change(self, *, on: bool) -> None:
        if on is self._told:
            return
        self._told = on
        at = self._clock.now()
        self._publish(Event(cls=EventClass.APPROVAL, type="hands.changed", at=at, payload={"on": on}))
