"""Answers kept for callers that come back for them: one call each, for ten minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from flycore.approval.clock import Clock
from flycore.approval.letters import new_confirmation_code
from flycore.approval.pending import DedupKey, Ticket
from flycore.model.approval import Ask
from flycore.model.enums import RequestState

PICK_UP_SECONDS = 600.0
MOST_KEPT = 100
"""Answers kept; the oldest goes first, and its caller is asked for anew."""


@dataclass(slots=True)
class _KeptAnswer:
    ask: Ask
    count: int
    until: float
    """Monotonic seconds."""


class TicketStore:
    """Settled requests whose callers were away, by what they had asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[DedupKey, _KeptAnswer] = {}

    def keep(self, asked: DedupKey, ask: Ask, count: int, seconds: float = PICK_UP_SECONDS) -> None:
        """Keep an answer for `count` calls."""
        self._kept.pop(asked, None)
        self._kept[asked] = _KeptAnswer(ask, count, self._clock.monotonic() + seconds)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def pick_up(self, asked: DedupKey) -> Ask | None:
        """The answer for one call, which is then used up."""
        if not self.has(asked):
            return None
        kept = self._kept[asked]
        kept.count -= 1
        if kept.count <= 0:
            del self._kept[asked]
        return kept.ask

    def has(self, asked: DedupKey) -> bool:
        """Whether an answer is kept for such a call."""
        kept = self._kept.get(asked)
        return kept is not None and self._clock.monotonic() < kept.until

    def drop_tool(self, tool: str) -> None:
        """Forget the answers to calls of that tool."""
        self._kept = {asked: kept for asked, kept in self._kept.items() if kept.ask.request.tool != tool}

    def clear(self) -> None:
        """Nothing that was answered counts any more."""
        self._kept.clear()

    def sweep(self) -> bool:
        """Forget what nobody came for; whether there was any."""
        now = self._clock.monotonic()
        over = [asked for asked, kept in self._kept.items() if now >= kept.until]
        for asked in over:
            del self._kept[asked]
        return bool(over)

    def next_end(self) -> float:
        """When the next answer is forgotten, monotonic; infinite where there is none."""
        return min((kept.until for kept in self._kept.values()), default=float("inf"))

    def read_restored(self, tickets: Iterable[Ticket]) -> Iterator[tuple[DedupKey, Ask, int, float]]:
        """Keep the answers among `tickets` and give the questions: with fresh letters, what was asked, for
        how many calls, and until when, monotonic. What is over is left out."""
        ahead = self._clock.monotonic() - self._clock.now()
        for asked, ask, calls, until in tickets:
            deadline = until + ahead
            left = deadline - self._clock.monotonic()
            if left > 0 and ask.state is RequestState.WAITING:
                request = msgspec.structs.replace(ask.request, letter=new_confirmation_code(ask.request.risk))
                again = msgspec.structs.replace(ask, request=request, count=calls, ticket=True, held=False)
                yield asked, again, calls, deadline
            elif left > 0:
                self.keep(asked, ask, calls, left)

    def all(self) -> tuple[Ticket, ...]:
        """For the file that survives a restart."""
        ahead = self._clock.now() - self._clock.monotonic()
        return tuple(
            Ticket(asked, kept.ask, kept.count, kept.until + ahead) for asked, kept in self._kept.items()
        )
