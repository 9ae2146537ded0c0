"""The clock this room is handed, so that its tests need no sleeping."""

from __future__ import annotations

from typing import Protocol


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
