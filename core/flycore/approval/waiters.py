"""The calls that wait for the answer to a request.

Identical calls of one caller share one request and its answer. A call waits inline, or holds a ticket and
comes back for the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import anyio
import msgspec

from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.clock import Clock
from flycore.model.json import JsonObject

Revise = Callable[[JsonObject], Awaitable[ApprovalRequest | str]]
"""Prepares the request again with another input, or returns a sentence that says why it cannot."""
FOREVER = float("inf")
DedupKey = tuple[str, str]
"""Subject digest and risk. Calls that agree in both share one request."""


def dedup_key(request: ApprovalRequest) -> DedupKey:
    """Return the key that identical calls have in common."""
    # The digest covers the caller, so no caller shares another one's answer.
    return request.subject_digest, request.risk.value


class Waiter(msgspec.Struct):
    """One call that waits inline. If it gets a grant, the grant has the id of the call's own request."""

    request_id: str
    revise: Revise | None
    had_ticket: bool
    """Whether the call came back with a ticket."""
    settled: anyio.Event = msgspec.field(default_factory=anyio.Event)
    resumed: anyio.Event = msgspec.field(default_factory=anyio.Event)
    """Set once the call has resumed with the answer."""
    outcome: Ask | None = None

    def settle(self, ask: Ask) -> None:
        """Hand over the answer. A second answer changes nothing."""
        if self.outcome is None:
            self.outcome = ask
            self.settled.set()


class WaitingRequest(msgspec.Struct):
    """A request that waits, with the calls it is for."""

    request_id: str
    key: DedupKey
    """That of the first call. An edit changes the request's digest, but identical calls still find it."""
    waiters: dict[str, Waiter] = msgspec.field(default_factory=dict)
    tickets: int = 0
    """Number of calls that left and may come back."""
    returns: DedupKey | None = None
    """The key of the same call by the client started again; None where only this process may come back."""

    def join(self, request_id: str, revise: Revise | None) -> Waiter:
        """Add a call that waits inline. Where a ticket is open, the call uses it up."""
        came_back = self.tickets > 0
        self.tickets -= came_back
        waiter = self.waiters[request_id] = Waiter(request_id, revise, came_back)
        return waiter

    def give_ticket(self, waiter: Waiter, ask: Ask) -> None:
        """Turn an inline wait into a ticket; the call receives `ask`, which still waits."""
        self.waiters.pop(waiter.request_id, None)
        self.tickets += 1
        waiter.settle(ask)

    def remove_waiter(self, waiter: Waiter) -> bool:
        """Remove a call whose caller stopped waiting, and give back the ticket it came with. Returns False
        where the call had received its answer before."""
        if self.waiters.pop(waiter.request_id, None) is None:
            return False
        self.tickets += waiter.had_ticket
        return True

    def release_all(self, ask: Ask) -> None:
        """Hand `ask` to every call that waits inline. The request waits on for the tickets."""
        for waiter in self.waiters.values():
            waiter.settle(ask)
        self.waiters.clear()

    @property
    def count(self) -> int:
        """The number of calls that the answer is for."""
        return len(self.waiters) + self.tickets

    @property
    def revise(self) -> Revise | None:
        """The function by which an inline call prepares the request again; None where no such call waits."""
        return next((waiter.revise for waiter in self.waiters.values() if waiter.revise), None)


class Ticket(NamedTuple):
    """A request that is kept for calls that come back: still waiting, or with its answer."""

    key: DedupKey
    ask: Ask
    calls: int
    until: float
    """Unix time in seconds at which the waiting request times out, or the answer is forgotten."""
    returns: DedupKey | None = None
    """As in `WaitingRequest`."""


class WaiterRegistry:
    """The requests that wait, and every call that has not resumed with its answer yet."""

    def __init__(self) -> None:
        self._pending: dict[str, WaitingRequest] = {}
        self._waiters: dict[str, Waiter] = {}

    def __iter__(self) -> Iterator[WaitingRequest]:
        return iter(tuple(self._pending.values()))

    def open(self, request_id: str, key: DedupKey, tickets: int = 0, returns: DedupKey | None = None) -> None:
        """Add a request that waits, with `tickets` calls that may come back for it."""
        self._pending[request_id] = WaitingRequest(request_id, key, tickets=tickets, returns=returns)

    def get(self, request_id: str) -> WaitingRequest | None:
        """Return the waiting request of that id."""
        return self._pending.get(request_id)

    def find_same(self, key: DedupKey) -> WaitingRequest | None:
        """Return the waiting request with that key."""
        return next((pending for pending in self._pending.values() if pending.key == key), None)

    def close(self, request_id: str) -> WaitingRequest:
        """Remove a request that is settled, and return it. Raises KeyError where it does not wait."""
        return self._pending.pop(request_id)

    def enter(self, pending: WaitingRequest, request_id: str, revise: Revise | None) -> Waiter:
        """Add an inline wait of a call to `pending`. Raises ValueError where the call waits already."""
        if request_id in self._waiters:
            raise ValueError(f"a request {request_id!r} is waiting")
        waiter = self._waiters[request_id] = pending.join(request_id, revise)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Note that the call has resumed, whatever its answer was."""
        del self._waiters[waiter.request_id]
        waiter.resumed.set()

    def tickets(self, find: Callable[[str], Ask | None]) -> Iterator[Ticket]:
        """Yield a ticket for each waiting request that calls may come back for."""
        for pending in self._pending.values():
            ask = find(pending.request_id)
            if pending.tickets and ask is not None:
                yield Ticket(pending.key, ask, pending.tickets, ask.request.expires_at, pending.returns)

    async def all_resumed(self) -> None:
        """Wait until every call whose request is settled has resumed."""
        # A copy: calls leave the dictionary while this waits.
        for waiter in tuple(self._waiters.values()):
            if waiter.settled.is_set():
                await waiter.resumed.wait()


async def wait_until(clock: Clock, event: anyio.Event, until: float) -> bool:
    """Wait for an event until the monotonic second `until` at most. Returns whether the event is set."""
    # The time limit goes through the clock that was handed in, not through `move_on_after`, so that tests can
    # move the time.
    async with anyio.create_task_group() as group:
        if until != FOREVER:
            group.start_soon(_cancel_at, clock, until, group.cancel_scope)
        await event.wait()
        group.cancel_scope.cancel()
    # Looked at once more: the event may have been set in the same step as the time limit.
    return event.is_set()


async def _cancel_at(clock: Clock, monotonic: float, scope: anyio.CancelScope) -> None:
    await clock.sleep_until(monotonic)
    scope.cancel()
