"""Tickets: answers that are kept for callers that come back for them, and the file that keeps tickets over a
restart of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from flycore.approval.leases import IsAlive
from flycore.approval.requests import check_request, new_confirmation_code
from flycore.approval.waiters import DedupKey, Ticket
from flycore.model.approval import Ask
from flycore.model.base import Value
from flycore.model.clock import Clock
from flycore.model.enums import RequestState
from flycore.model.json import JsonObject
from flycore.registry.paths import TICKETS_FILE
from flycore.store.json_store import Store

PICK_UP_SECONDS = 600.0
"""How long an answer is kept."""
MAX_ANSWERS = 100
"""Answers that are kept. Beyond, the oldest is forgotten, and its caller's next call is a new request."""


class _KeptAnswer(msgspec.Struct):
    ask: Ask
    count: int
    until: float
    """Monotonic time in seconds."""
    returns: DedupKey | None


class TicketStore:
    """The settled requests whose callers were away, by the key of identical calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[DedupKey, _KeptAnswer] = {}

    def keep(
        self,
        key: DedupKey,
        ask: Ask,
        count: int,
        seconds: float = PICK_UP_SECONDS,
        returns: DedupKey | None = None,
    ) -> None:
        """Keep an answer for `count` calls; it replaces an older one with the same key. `returns` is as in
        `WaitingRequest`."""
        self._answers.pop(key, None)
        self._answers[key] = _KeptAnswer(ask, count, self._clock.monotonic() + seconds, returns)
        while len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def pick_up(self, key: DedupKey) -> Ask | None:
        """Return the answer for one call, and use it up for that call; None where none is kept."""
        if not self.has(key):
            return None
        kept = self._answers[key]
        kept.count -= 1
        if kept.count <= 0:
            del self._answers[key]
        return kept.ask

    def find_returned(self, returns: DedupKey, is_alive: IsAlive) -> DedupKey | None:
        """Return the key of an answer that is kept for that client, whose process has exited."""
        return next(
            (
                key
                for key, kept in self._answers.items()
                if kept.returns == returns and self.has(key) and not is_alive(kept.ask.request.caller)
            ),
            None,
        )

    def has(self, key: DedupKey) -> bool:
        """Return whether an answer is kept for such a call."""
        kept = self._answers.get(key)
        return kept is not None and self._clock.monotonic() < kept.until

    def drop_tool(self, tool: str) -> None:
        """Forget the answers to calls of that tool."""
        self._answers = {key: kept for key, kept in self._answers.items() if kept.ask.request.tool != tool}

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()

    def sweep(self) -> bool:
        """Forget the answers whose time is over. Returns whether there was any."""
        now = self._clock.monotonic()
        over = [key for key, kept in self._answers.items() if now >= kept.until]
        for key in over:
            del self._answers[key]
        return bool(over)

    def next_end(self) -> float:
        """Return when the next answer is forgotten, in monotonic seconds; infinite where there is none."""
        return min((kept.until for kept in self._answers.values()), default=float("inf"))

    def read_restored(self, tickets: Iterable[Ticket]) -> Iterator[tuple[Ticket, float]]:
        """Keep the answers among `tickets`, and yield each request that still waits with its monotonic
        deadline. Tickets whose time is over are left out."""
        # Monotonic time starts anew with the machine, so the file holds Unix time and is converted here. The
        # confirmation code is drawn again: the old one has been in a file.
        ahead = self._clock.monotonic() - self._clock.now()
        for ticket in tickets:
            key, ask, calls, until, returns = ticket
            deadline = until + ahead
            left = deadline - self._clock.monotonic()
            if left > 0 and ask.state is RequestState.WAITING:
                request = msgspec.structs.replace(ask.request, letter=new_confirmation_code(ask.request.risk))
                again = msgspec.structs.replace(ask, request=request, count=calls, ticket=True, held=False)
                again = msgspec.structs.replace(again, returns=returns is not None)
                yield ticket._replace(ask=again), deadline
            elif left > 0:
                self.keep(key, ask, calls, left, returns)

    def all(self) -> tuple[Ticket, ...]:
        """Return a ticket for each answer, with Unix times, for the file."""
        ahead = self._clock.now() - self._clock.monotonic()
        return tuple(
            Ticket(key, kept.ask, kept.count, kept.until + ahead, kept.returns)
            for key, kept in self._answers.items()
        )


MAX_FILE_BYTES = 64 * 1024 * 1024
_STORED_STATES = (RequestState.WAITING, RequestState.APPROVED, RequestState.DENIED, RequestState.TIMED_OUT)


class _StoredTicket(Value, frozen=True, kw_only=True):
    asked: tuple[str, str]
    ask: Ask
    calls: int
    until: float
    returns: tuple[str, str] | None = None


def load_tickets(state_dir: Path) -> tuple[Ticket, ...]:
    """Return the tickets that an earlier kernel wrote. One that cannot be read, or whose request does not
    match its digest, is left out: its caller's next call is a new request."""
    stored = _store(state_dir).value
    return tuple(ticket for text in stored if (ticket := _read_ticket(text)) is not None)


def _store(state_dir: Path) -> Store[tuple[msgspec.Raw, ...]]:
    # Each ticket is decoded by itself, so that one that cannot be read does not take the others with it.
    path = state_dir / TICKETS_FILE
    return Store[tuple[msgspec.Raw, ...]](path, tuple[msgspec.Raw, ...], (), MAX_FILE_BYTES)


def _read_ticket(text: msgspec.Raw) -> Ticket | None:
    try:
        kept = msgspec.json.decode(text, type=_StoredTicket)
        check_request(kept.ask.request)
    except (msgspec.MsgspecError, ValueError):
        return None
    if kept.ask.state not in _STORED_STATES or kept.calls < 1:
        return None
    return Ticket(kept.asked, kept.ask, kept.calls, kept.until, kept.returns)


def _stored(ask: Ask) -> Ask:
    # Pictures of the screen and lines of files are for the person alone, so they are not written to disk.
    return msgspec.structs.replace(ask, request=ask.request.without_crops("it was taken before a restart"))


def ticket_writer(
    state_dir: Path, report_problem: Callable[[JsonObject], None]
) -> Callable[[tuple[Ticket, ...]], None]:
    """Return the function that writes the tickets to their file whenever they have changed.

    Where that fails, the tickets last as long as this kernel, and `report_problem` is called with the path
    and the cause.
    """
    store = _store(state_dir)
    before: tuple[Ticket, ...] = ()

    def keep(tickets: tuple[Ticket, ...]) -> None:
        nonlocal before
        if tickets == before:
            return
        before = tickets
        stored = [
            _StoredTicket(
                asked=ticket.key,
                ask=_stored(ticket.ask),
                calls=ticket.calls,
                until=ticket.until,
                returns=ticket.returns,
            )
            for ticket in tickets
        ]
        if why := store.replace(tuple(msgspec.Raw(msgspec.json.encode(one)) for one in stored)):
            report_problem({"path": str(store.path), "cause": why})

    return keep
