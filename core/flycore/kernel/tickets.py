"""The file in which tickets survive a restart: questions that wait, answers nobody has fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from flycore.approval.machine import check_request
from flycore.approval.pending import Ticket
from flycore.model.approval import Ask
from flycore.model.base import Value
from flycore.model.enums import RequestState
from flycore.model.json import JsonObject
from flycore.registry.places import TICKETS_FILE
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath

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
