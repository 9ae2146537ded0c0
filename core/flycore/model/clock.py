"""The clock that is handed to everything that waits or expires, so that tests can move the time."""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Wall time for people, and monotonic time for everything that waits or expires."""

    def now(self) -> float:
        """Unix time, seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    async def sleep_until(self, monotonic: float, /) -> None:
        """Wait until `monotonic()` has reached the given value."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Unix time, seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        return time.monotonic()

    async def sleep_until(self, monotonic: float) -> None:
        """Wait until `monotonic()` has reached the given value."""
        await anyio.sleep_until(anyio.current_time() + monotonic - time.monotonic())
