"""What the queue tells whoever listens: ids and states, never an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
import msgspec

from flycore.approval.denials import DenialCache
from flycore.approval.desktop_control import DesktopControl
from flycore.approval.grants import Grant, GrantStore
from flycore.approval.leases import LeaseChange, LeaseStore, OnLeaseChange
from flycore.approval.request_states import Transition, check_request, rejected_decision
from flycore.approval.request_store import Limits, RequestStore
from flycore.approval.tickets import TicketStore
from flycore.approval.waiters import (
    FOREVER,
    Revise,
    Ticket,
    Waiter,
    WaiterRegistry,
    WaitingRequest,
    dedup_key,
    wait_until,
)
from flycore.model.approval import Answer, ApprovalRequest, Ask, Lease, Outcome, Subject
from flycore.model.clock import Clock
from flycore.model.enums import Choice, Code, RequestState, Risk
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import JsonObject, canonical_json

_TYPES = {
    RequestState.WAITING: "approval.asked",
    RequestState.APPROVED: "approval.decided",
    RequestState.DENIED: "approval.decided",
    RequestState.TIMED_OUT: "approval.timed-out",
    RequestState.WITHDRAWN: "approval.withdrawn",
}
CHANGED = "approval.changed"
"""A waiting request is held, shared by more or fewer calls, or has another input."""


def request_event(ask: Ask, at: float, kind: str = "") -> Event:
    """What became of a request; `kind` where its state does not say it."""
    request = ask.request
    payload: JsonObject = {
        "requestId": request.id,
        "callId": request.call_id,
        "tool": request.tool,
        "risk": str(request.risk),
        "state": str(ask.state),
        "by": ask.decided_by,
    }
    return Event(cls=EventClass.APPROVAL, type=kind or _TYPES[ask.state], at=at, payload=payload)


# Another input in a waiting request's place. Nothing is decided by this: the card is another one.


async def apply_edit(
    book: RequestStore, pending: WaiterRegistry, clock: Clock, request_id: str, shown: str, input: JsonObject
) -> Ask | Outcome:
    """The ask as it waits with that input, made anew by a call that is still there; or why not."""
    waits, ask = pending.get(request_id), book.find(request_id)
    if waits is None or ask is None:
        return rejected_decision("there is no such request")
    if ask.request.subject_digest != shown:
        return rejected_decision("the request is not the one that was shown")
    if ask.request.input_json != canonical_json(ask.request.subject.input):
        return rejected_decision("an input with masked parts cannot be edited")
    if waits.revise is None:
        return rejected_decision("the caller is not there: it can be edited when it has come back")
    fresh = await waits.revise(input)
    if isinstance(fresh, str):
        return rejected_decision(fresh)
    check_request(fresh)
    request = msgspec.structs.replace(book.stamp(fresh, clock.now()), id=request_id, edited=True)
    return book.replace(request, shown) or rejected_decision("the request has changed meanwhile")


# The approval queue: calls wait here for a person.
#
# Every way out that is not an explicit approval is a refusal or leaves the request waiting.


SaveTickets = Callable[[tuple[Ticket, ...]], None]
"""Writes the tickets where a restart finds them; never raises."""
WriteStandingPermission = Callable[[ApprovalRequest, Answer, str], str]
"""Writes the rule or block that an answer stands on, and who did it; why it could not, in words."""
OnUnattended = Callable[[Ask], None]
"""Told of requests that were settled while nobody waited inline, who would have written it down."""


class ApprovalQueue:
    """One kernel's queue, with the leases and grants its answers make."""

    def __init__(
        self,
        clock: Clock,
        publish: Publish,
        limits: Limits,
        hands: DesktopControl,
        *,
        first: WriteStandingPermission = lambda request, answer, by: "",
        told: OnLeaseChange = lambda move, lease, by: None,
        keep: SaveTickets = lambda tickets: None,
        unattended: OnUnattended = lambda ask: None,
    ) -> None:
        self._clock = clock
        self._publish = publish
        self._hands = hands
        self._first = first
        self._told = told
        self._keep = keep
        self._unattended = unattended
        self._book = RequestStore(limits)
        self._pending = WaiterRegistry()
        self._refusals = DenialCache(clock)
        self._tickets = TicketStore(clock)
        self._moved = anyio.Event()
        self.leases = LeaseStore(clock, self._on_lease_change)
        self.grants = GrantStore(clock, self.leases.is_active)

    async def run(self) -> None:
        """Time requests out. Runs until cancelled, in the kernel's task group."""
        while True:
            moment = min(self._book.next_deadline(), self._tickets.next_end())
            self._moved = anyio.Event()
            await wait_until(self._clock, self._moved, moment)
            for request_id in self._book.overdue(self._clock.monotonic()):
                self._finish(self._book.expire(request_id, self._clock.now()))
            if self._tickets.sweep():
                self._save()

    async def ask(
        self, request: ApprovalRequest, *, patience: float | None = None, revise: Revise | None = None
    ) -> Ask:
        """Wait until the request is settled. Approved, its grant lies in `grants` under the request's id;
        else `code` says what the caller is told.

        A call identical to one that waits shares its card and its answer; one whose answer was kept gets
        that. After `patience` seconds the caller is given up on, and gets an Ask that still waits: asking
        again takes its place. It is stamped here. Cancelling withdraws it. Raises
        ValueError for a request whose digest, tool, caller or input is not its subject's.
        """
        check_request(request)
        answered = self._earlier_answer(request)
        if answered is not None:
            return answered
        pending = self._pending.find_same(dedup_key(request))
        if pending is None:
            ask = self._admit(request)
            pending = self._pending.get(request.id)
            if pending is None:
                return ask
        waiter = self._pending.enter(pending, request.id, revise)
        self._store_waiters(pending)
        gone = True
        try:
            until = FOREVER if patience is None else self._clock.monotonic() + patience
            if not await wait_until(self._clock, waiter.settled, until):
                return self._with_ticket(pending, waiter)
            gone = False
        finally:
            self._pending.leave(waiter)
            if gone:
                self._abandon(pending, waiter)
        return waiter.outcome or self._book.waits(pending.request_id)

    def decide(
        self, request_id: str, subject_digest: str, answer: Answer, *, by: str = "console", hand: str = ""
    ) -> Outcome:
        """A person's answer, once, for the very request shown; `hand`, else `by`, wrote its rule or block."""
        outcome, ask = self._book.decide(
            request_id,
            subject_digest,
            answer,
            by=by,
            now=self._clock.monotonic(),
            at=self._clock.now(),
            hands=self._hands.active(),
            first=lambda request, given: self._first(request, given, hand or by),
        )
        if ask is not None:
            self._refusals.remember(ask)
            self._finish(ask)
            if answer.choice == Choice.BLOCK:
                self._deny_blocked(ask, by)
        return outcome

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Put another input in a waiting request's place; see `editing`."""
        outcome = await apply_edit(self._book, self._pending, self._clock, request_id, subject_digest, input)
        if isinstance(outcome, Outcome):
            return outcome
        self._publish_change(outcome, CHANGED)
        self._save()
        return Outcome(accepted=True)

    def set_paused(self, request_id: str, held: bool) -> bool:
        """Stop a waiting request's time, or let it run on; False where that changes nothing."""
        ask = self._book.set_paused(request_id, held, self._clock.monotonic(), self._clock.now())
        self._publish_change(ask, CHANGED)
        self._moved.set()
        self._save()
        return ask is not None

    def approver_left(self, move: Transition = Transition.LEAVE) -> None:
        """The person is gone: whoever waits is told that nobody will decide. Tickets wait on, but not when
        everything is stopped: then no answer that was kept counts either."""
        if move is Transition.PANIC:
            self._tickets.clear()
            self._save()
        for pending in self._pending:
            if not pending.tickets or move is Transition.PANIC:
                self._finish(self._book.settle(pending.request_id, move, self._clock.now()))
                continue
            told = msgspec.structs.replace(
                self._book.waits(pending.request_id), state=RequestState.WITHDRAWN, code=Code.NO_APPROVER
            )
            pending.release_all(told)
            self._store_waiters(pending)

    def restore(self, tickets: Iterable[Ticket]) -> None:
        """Take over what an earlier kernel left: questions that wait on, answers nobody has fetched."""
        for asked, ask, calls, deadline in self._tickets.read_restored(tickets):
            self._book.restore(ask, deadline)
            self._pending.open(ask.request.id, asked, calls)
        self._moved.set()

    async def all_resumed(self) -> None:
        """Wait until every settled request has been gone on with by its caller's side."""
        await self._pending.all_resumed()

    def use_lease(self, grant_id: str, subject: Subject, risk: Risk, group: str = "") -> Grant | None:
        """A grant for one call drawn from a lease that covers it; None where a person has to be asked.
        `group` is the tool's exclusive one."""
        lease = self.leases.match(subject, risk, group)
        taken = None if lease is None else self.leases.take(lease.id)
        return None if taken is None else self.grants.issue(grant_id, subject.digest(), taken.id)

    def asks(self) -> tuple[Ask, ...]:
        """Waiting ones in order of arrival, then recent ones, newest first."""
        return self._book.asks()

    def has_answer_for(self, request: ApprovalRequest) -> bool:
        """Whether such a call has left a question or an answer here that it may come back for."""
        asked = dedup_key(request)
        pending = self._pending.find_same(asked)
        return self._tickets.has(asked) or (pending is not None and pending.tickets > 0)

    @property
    def waiting(self) -> int:
        """How many requests wait for a person."""
        return self._book.waiting

    def _earlier_answer(self, request: ApprovalRequest) -> Ask | None:
        """An answer that is there already: a refusal that lasts, or one that was kept for the caller."""
        paused = self._book.paused(request, self._clock.monotonic())
        lasting = paused or self._refusals.answer(request)
        if lasting is not None:
            return lasting
        kept = self._tickets.pick_up(dedup_key(request))
        if kept is None:
            return None
        self._save()
        if kept.state is RequestState.APPROVED:
            self.grants.issue(request.id, kept.request.subject_digest)
        return kept

    def _deny_blocked(self, ask: Ask, by: str) -> None:
        """Nobody calls the tool: who waits for it is refused, leases and unfetched approvals of it end."""
        tool = ask.request.tool
        self.leases.end_tool(tool)
        self._tickets.drop_tool(tool)
        self._save()
        if ask.answer is not None:
            for other in self._book.refuse(tool, ask.answer, by=by, at=self._clock.now()):
                self._finish(other)

    def _admit(self, request: ApprovalRequest) -> Ask:
        ask = self._book.admit(request, now=self._clock.monotonic(), at=self._clock.now())
        if ask.state is RequestState.WAITING:
            self._pending.open(request.id, dedup_key(request))
            self._publish_change(ask)
            self._moved.set()
        return ask

    def _with_ticket(self, pending: WaitingRequest, waiter: Waiter) -> Ask:
        """The caller's patience is over; its place is kept."""
        pending.give_ticket(waiter, self._book.waits(pending.request_id))
        self._store_waiters(pending)
        return self._book.waits(pending.request_id)

    def _abandon(self, pending: WaitingRequest, waiter: Waiter) -> None:
        """The caller stopped waiting: its request is withdrawn where nobody else waits for the answer, an
        answer just given is void. One that had come back for its answer keeps its ticket."""
        self.grants.void(waiter.request_id)
        if not pending.remove_waiter(waiter):
            return
        if pending.count:
            self._store_waiters(pending)
        else:
            self._finish(self._book.withdraw(pending.request_id, self._clock.now()))

    def _finish(self, ask: Ask | None) -> None:
        """A request is settled: everybody who waited is told, and answers are kept for who is away."""
        if ask is None:
            return
        pending = self._pending.close(ask.request.id)
        lease = self.leases.lease_from_request(ask)
        for place, waiter in enumerate(pending.waiters.values()):
            if ask.state is RequestState.APPROVED:
                if lease is not None and place:
                    self.leases.take(lease)  # the lease has counted one of the identical calls
                self.grants.issue(waiter.request_id, ask.request.subject_digest, lease)
            waiter.settle(ask)
        if pending.tickets:
            self._tickets.keep(pending.asked, msgspec.structs.replace(ask, ticket=True), pending.tickets)
            if not pending.waiters:
                self._unattended(ask)
        self._publish_change(ask)
        self._moved.set()
        self._save()

    def _store_waiters(self, pending: WaitingRequest) -> None:
        ticket = pending.tickets > 0 and not pending.waiters
        before = self._book.find(pending.request_id)
        ask = self._book.update(pending.request_id, count=pending.count, ticket=ticket)
        if ask != before:
            self._publish_change(ask, CHANGED)
            self._save()

    def _save(self) -> None:
        self._keep((*self._pending.tickets(self._book.find), *self._tickets.all()))

    def _publish_change(self, ask: Ask | None, kind: str = "") -> None:
        if ask is not None:
            self._publish(request_event(ask, self._clock.now(), kind))

    def _on_lease_change(self, move: LeaseChange, lease: Lease, by: str) -> None:
        self._told(move, lease, by)
        self._publish(Event(cls=EventClass.APPROVAL, type="leases.changed", at=self._clock.now()))
