"""The real clock; tests hand in one of their own."""

from __future__ import annotations

import time

import anyio


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
