"""Answers kept for callers that come back for them: one call each, for ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flycore.approval.request_states import check_request, new_confirmation_code
from flycore.approval.waiters import DedupKey, Ticket
from flycore.model.approval import Ask
from flycore.model.base import Value
from flycore.model.clock import Clock
from flycore.model.enums import RequestState
from flycore.model.json import JsonObject
from flycore.registry.paths import TICKETS_FILE
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath

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


# The file in which tickets survive a restart: questions that wait, answers nobody has fetched.


MOST_TICKETS_BYTES = 64 * 1024 * 1024
_STORED_STATES = (RequestState.WAITING, RequestState.APPROVED, RequestState.DENIED, RequestState.TIMED_OUT)


class _StoredTicket(Value, frozen=True, kw_only=True):
    asked: tuple[str, str]
    ask: Ask
    calls: int
    until: float


def load_tickets(state_dir: Path) -> tuple[Ticket, ...]:
    """What an earlier kernel left. A line that cannot be read, or whose request is not its digest's, is
    left out: its caller asks anew."""
    try:
        data = read_beneath(state_dir, TICKETS_FILE, MOST_TICKETS_BYTES)
    except OSError:
        return ()
    return tuple(ticket for line in data.splitlines() if (ticket := _read_ticket(line)) is not None)


def _read_ticket(line: bytes) -> Ticket | None:
    try:
        kept = msgspec.json.decode(line, type=_StoredTicket)
        check_request(kept.ask.request)
    except (msgspec.MsgspecError, ValueError):
        return None
    if kept.ask.state not in _STORED_STATES or kept.calls < 1:
        return None
    return Ticket(kept.asked, kept.ask, kept.calls, kept.until)


def _stored(ask: Ask) -> Ask:
    return msgspec.structs.replace(ask, request=ask.request.without_crops("it was taken before a restart"))


def ticket_writer(
    state_dir: Path, problem: Callable[[JsonObject], None]
) -> Callable[[tuple[Ticket, ...]], None]:
    """Writes the tickets whenever they are others. Where that fails they hold as long as this kernel
    does, and `problem` is told the path and the cause."""
    before: tuple[Ticket, ...] = ()

    def keep(tickets: tuple[Ticket, ...]) -> None:
        nonlocal before
        if tickets == before:
            return
        before = tickets
        lines = [
            msgspec.json.encode(_StoredTicket(asked=asked, ask=_stored(ask), calls=calls, until=until))
            for asked, ask, calls, until in tickets
        ]
        try:
            write_atomic(state_dir / TICKETS_FILE, b"".join(line + b"\n" for line in lines))
        except OSError as error:
            problem({"path": str(state_dir / TICKETS_FILE), "cause": error.strerror or str(error)})

    return keep
