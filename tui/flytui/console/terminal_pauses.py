"""When the console or its terminal stood still, and what the terminal has taken: the facts from which it
follows whether a person could have seen a card before they pressed a key.

A stopped process, a busy event loop, a suspended machine and a terminal that does not read look alike from
here: a time that should have passed in small steps passed in one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

TICK_S = 0.05
"""Seconds between two beats of the event loop, and of the thread that reads the terminal."""
IDLE_TICK_S = 3.0
"""The same while no screen decides anything and nobody types: a console that waits for something to happen
leaves the processor alone. When such a screen opens, a pause until then is taken for granted."""
GAP_S = 0.25
"""The longest time between two beats that is no pause, where they follow one another within `TICK_S`."""
RECEIPT_EVERY_S = 0.5
"""Seconds between two questions to the terminal while a decision is on screen."""
STALL_S = 2.0
"""Seconds without an answer after which a terminal that answers is taken for one that stands still. The way
to a terminal and back may take a second over a slow line."""
LOST_S = 10.0
"""Seconds after which an answer that did not come is taken for lost."""


def boot_time() -> float:
    """Seconds since the machine started, those in which it was suspended included where the system counts
    them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Heartbeat:
    """A row of moments that should follow one another within `TICK_S`, or another time."""

    def __init__(self, clock: Callable[[], float] = boot_time) -> None:
        self._clock = clock
        self._at: float | None = None

    def beat(self, step: float = TICK_S) -> bool:
        """Note that this moment was reached, which should follow the last one within `step` seconds. Return
        whether there was a pause before it."""
        before, self._at = self._at, self._clock()
        return before is not None and self._at - before > GAP_S - TICK_S + step


class Receipts:
    """The questions to a terminal whether it has read everything, and its answers, which come in the same
    order. A terminal that has never answered is not asked again."""

    def __init__(self, ask: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked = 0
        self._answered = 0
        self._waiting: deque[tuple[int, float]] = deque()
        """The questions without an answer, each with the time at which it was asked."""

    @property
    def known(self) -> bool:
        """Whether the terminal answers such questions."""
        return self._answered > 0

    @property
    def stalled(self) -> bool:
        """Whether a terminal that answers has left a question without an answer for too long."""
        return self.known and bool(self._waiting) and self._clock() - self._waiting[0][1] > STALL_S

    def request(self) -> int:
        """Ask the terminal, and return the number of the question."""
        if self._asked and not self.known:
            return self._asked
        self._asked += 1
        self._waiting.append((self._asked, self._clock()))
        self._ask()
        return self._asked

    def request_if_due(self) -> None:
        """Ask the terminal where the last question is old enough."""
        if not self.known:
            return
        if not self._waiting or self._clock() - self._waiting[-1][1] >= RECEIPT_EVERY_S:
            self.request()

    def take_answer(self) -> None:
        """Note an answer. One that nobody asked for is not one."""
        if self._waiting:
            self._answered, _ = self._waiting.popleft()
        # A line may lose an answer. Without this every later one would count for the question before its own.
        while self._waiting and self._clock() - self._waiting[0][1] > LOST_S:
            self._waiting.popleft()

    def has(self, number: int) -> bool:
        """Whether the terminal has read all that was written before that question."""
        return not self.known or self._answered >= number
