"""The consoles that are open on one kernel: where a person is, and what no tool may touch."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import anyio

from flycore.executive.preview import Seat


class Seats:
    """Who sits there. `moved` is told whenever that is another."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._taken: dict[Hashable, Seat] = {}
        self._arrived = anyio.Event()

    def take(self, console: Hashable, seat: Seat) -> bool:
        """A console is open; where it was already, that is its seat now, and this gives False."""
        opened = console not in self._taken
        self._taken[console] = seat
        self._arrived.set()
        self._moved()
        return opened

    def leave(self, console: Hashable) -> bool:
        """A console is gone; False where it was none."""
        if self._taken.pop(console, None) is None:
            return False
        if not self._taken:
            self._arrived = anyio.Event()
        self._moved()
        return True

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def seat(self) -> Seat:
        """Windows and processes of all of them."""
        taken = self._taken.values()
        return Seat(
            window_ids=tuple(window for seat in taken for window in seat.window_ids),
            pids=tuple(pid for seat in taken for pid in seat.pids),
        )

    async def arrives_within(self, seconds: float) -> bool:
        """Wait so long for a console; whether one is there."""
        with anyio.move_on_after(seconds):
            await self._arrived.wait()
        return bool(self._taken)
