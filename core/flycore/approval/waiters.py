"""The calls that wait for the answer to a request.

Identical calls of one caller share one request and its answer. A call waits inline, or holds a ticket and
comes back for the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio
import msgspec

from flycore.approval.earlier_answers import FOREVER, AnswerKey, AnswerKind, EarlierAnswer
from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.caller import Caller
from flycore.model.clock import Clock
from flycore.model.json import JsonObject

Revise = Callable[[JsonObject], Awaitable[ApprovalRequest | str]]
"""Prepares the request again with another input, or returns a sentence that says why it cannot."""


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


class WaitingRequest(EarlierAnswer):
    """A request that waits, with the calls it is for. Its key is that of the first call: an edit changes the
    request's digest, but identical calls still find it."""

    kind = AnswerKind.WAITING
    caller: Caller
    waiters: dict[str, Waiter] = msgspec.field(default_factory=dict)
    tickets: int = 0
    """Number of calls that left and may come back."""

    @property
    def away(self) -> Caller | None:
        """The caller, if only tickets wait for the answer. A caller that is known by a token only has no
        process, and may always come back."""
        left = self.tickets > 0 and not self.waiters
        return self.caller if left and self.caller.pid > 0 else None

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

    key: AnswerKey
    ask: Ask
    calls: int
    until: float
    """Unix time in seconds at which the waiting request times out, or the answer is forgotten."""
    returns: AnswerKey | None = None
    """As in `EarlierAnswer`."""


class WaiterRegistry:
    """Every call that waits inline and has not resumed with its answer yet."""

    def __init__(self) -> None:
        self._waiters: dict[str, Waiter] = {}

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
