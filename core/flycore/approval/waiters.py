"""Who waits for one answer: identical calls of one caller share a card, and some come back for it later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.clock import Clock
from flycore.model.json import JsonObject

Revise = Callable[[JsonObject], Awaitable[ApprovalRequest | str]]
"""Makes the request anew with another input, or says why that cannot be asked."""
FOREVER = float("inf")
DedupKey = tuple[str, str]
"""Subject digest and risk: calls that agree in both are one question."""


def dedup_key(request: ApprovalRequest) -> DedupKey:
    """What identical calls agree in. The subject names the caller, so nobody shares another's answer."""
    return request.subject_digest, request.risk.value


@dataclass(slots=True)
class Waiter:
    """One call that waits inline. Its grant, if it gets one, has the id of its own request."""

    request_id: str
    revise: Revise | None
    came_back: bool
    """It held a ticket before."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set once the caller's side has gone on with the answer."""
    outcome: Ask | None = None

    def settle(self, ask: Ask) -> None:
        """Hand over the answer; the first one stands."""
        if self.outcome is None:
            self.outcome = ask
            self.settled.set()


@dataclass(slots=True)
class WaitingRequest:
    """A card that waits, found by what was asked first: an edit changes its digest, not who waits."""

    request_id: str
    asked: DedupKey
    waiters: dict[str, Waiter] = field(default_factory=dict)
    tickets: int = 0
    """Callers that left and will come back."""

    def join(self, request_id: str, revise: Revise | None) -> Waiter:
        """A further call; one that held a ticket takes its place again."""
        came_back = self.tickets > 0
        self.tickets -= came_back
        waiter = self.waiters[request_id] = Waiter(request_id, revise, came_back)
        return waiter

    def give_ticket(self, waiter: Waiter, ask: Ask) -> None:
        """The call waits inline no longer, and will come back."""
        self.waiters.pop(waiter.request_id, None)
        self.tickets += 1
        waiter.settle(ask)

    def remove_waiter(self, waiter: Waiter) -> bool:
        """The call has gone, but keeps a ticket it had; False where it had its answer before."""
        if self.waiters.pop(waiter.request_id, None) is None:
            return False
        self.tickets += waiter.came_back
        return True

    def release_all(self, told: Ask) -> None:
        """Those who wait inline are told so; the card waits for who has a ticket."""
        for waiter in self.waiters.values():
            waiter.settle(told)
        self.waiters.clear()

    @property
    def count(self) -> int:
        """How many calls the answer is for."""
        return len(self.waiters) + self.tickets

    @property
    def revise(self) -> Revise | None:
        """Of a call that is still there; None where all will come back later."""
        return next((waiter.revise for waiter in self.waiters.values() if waiter.revise), None)


class Ticket(NamedTuple):
    """What is kept for callers that will come back: the question, or its answer."""

    asked: DedupKey
    ask: Ask
    calls: int
    until: float
    """Unix time, seconds: how long a question waits, or how long an answer is kept."""


class WaiterRegistry:
    """All cards that wait, and every call that has not gone on with its answer yet."""

    def __init__(self) -> None:
        self._pending: dict[str, WaitingRequest] = {}
        self._waiters: dict[str, Waiter] = {}

    def __iter__(self) -> Iterator[WaitingRequest]:
        return iter(tuple(self._pending.values()))

    def open(self, request_id: str, asked: DedupKey, tickets: int = 0) -> None:
        """A card that waits from now on."""
        self._pending[request_id] = WaitingRequest(request_id, asked, tickets=tickets)

    def get(self, request_id: str) -> WaitingRequest | None:
        """The card of that id."""
        return self._pending.get(request_id)

    def find_same(self, asked: DedupKey) -> WaitingRequest | None:
        """The card that asks just that."""
        return next((pending for pending in self._pending.values() if pending.asked == asked), None)

    def close(self, request_id: str) -> WaitingRequest:
        """The card waits no longer."""
        return self._pending.pop(request_id)

    def enter(self, pending: WaitingRequest, request_id: str, revise: Revise | None) -> Waiter:
        """A call waits inline from now on. Raises ValueError for one that does already."""
        if request_id in self._waiters:
            raise ValueError(f"a request {request_id!r} is waiting")
        waiter = self._waiters[request_id] = pending.join(request_id, revise)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """The call goes on, whatever it was told."""
        del self._waiters[waiter.request_id]
        waiter.taken.set()

    def tickets(self, find: Callable[[str], Ask | None]) -> Iterator[Ticket]:
        """The questions that callers will come back for."""
        for pending in self._pending.values():
            ask = find(pending.request_id)
            if pending.tickets and ask is not None:
                yield Ticket(pending.asked, ask, pending.tickets, ask.request.expires_at)

    async def all_resumed(self) -> None:
        """Wait until every settled call has gone on."""
        for waiter in tuple(self._waiters.values()):
            if waiter.settled.is_set():
                await waiter.taken.wait()


async def wait_until(clock: Clock, event: anyio.Event, until: float) -> bool:
    """Wait for an event, at most until that monotonic second; whether it came."""
    async with anyio.create_task_group() as group:
        if until != FOREVER:
            group.start_soon(_cancel_at, clock, until, group.cancel_scope)
        await event.wait()
        group.cancel_scope.cancel()
    return event.is_set()


async def _cancel_at(clock: Clock, monotonic: float, scope: anyio.CancelScope) -> None:
    await clock.sleep_until(monotonic)
    scope.cancel()
