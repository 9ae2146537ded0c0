"""The file that keeps tickets over a restart of the kernel: requests that wait for callers that are away, and
answers that nobody has fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from flycore.approval.requests import check_request, new_confirmation_code
from flycore.approval.waiters import Ticket
from flycore.model.approval import Ask
from flycore.model.base import Value
from flycore.model.clock import Clock
from flycore.model.enums import RequestState
from flycore.model.json import JsonObject
from flycore.registry.paths import TICKETS_FILE
from flycore.store.json_store import Store

MAX_FILE_BYTES = 64 * 1024 * 1024
_STORED_STATES = (RequestState.WAITING, RequestState.APPROVED, RequestState.DENIED, RequestState.TIMED_OUT)


class _StoredTicket(Value, frozen=True, kw_only=True):
    asked: tuple[str, str]
    ask: Ask
    calls: int
    until: float
    returns: tuple[str, str] | None = None


def restored(tickets: Iterable[Ticket], clock: Clock) -> Iterator[tuple[Ticket, float]]:
    """Yield the tickets of an earlier kernel whose time is not over, each with its monotonic deadline."""
    # Monotonic time starts anew with the machine, so the file holds Unix time and is converted here. The
    # confirmation code is drawn again: the old one has been in a file.
    ahead = clock.monotonic() - clock.now()
    for ticket in tickets:
        ask, deadline = ticket.ask, ticket.until + ahead
        if deadline <= clock.monotonic():
            continue
        if ask.state is RequestState.WAITING:
            request = msgspec.structs.replace(ask.request, letter=new_confirmation_code(ask.request.risk))
            returns = ticket.returns is not None
            ask = msgspec.structs.replace(
                ask, request=request, count=ticket.calls, ticket=True, held=False, returns=returns
            )
        yield ticket._replace(ask=ask), deadline


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
