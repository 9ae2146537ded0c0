"""The clock this room is handed, so that its tests need no sleeping."""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Wall time for what people read, monotonic time for what expires."""

    def now(self) -> float:
        """Unix time, seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    async def sleep_until(self, monotonic: float, /) -> None:
        """Wait until `monotonic()` has reached the given value."""
        ...


# The real clock; tests hand in one of their own.


class SystemClock:
    """Wall time for people, monotonic time for waiting."""

    def now(self) -> float:
        """Unix time, seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        return time.monotonic()

    async def sleep_until(self, monotonic: float) -> None:
        """Wait until `monotonic()` has reached the given value."""
        await anyio.sleep_until(anyio.current_time() + monotonic - time.monotonic())
