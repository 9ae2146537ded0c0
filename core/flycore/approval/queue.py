"""The approval queue, in which calls wait for a person's answer.

`ApprovalQueue` is the asynchronous shell: callers wait in `ask`, consoles answer with `decide`. The rules and
the bounded list of requests are in `requests`, the earlier answers in `earlier_answers`. Every way out of the
queue that is not an explicit approval is a refusal, or leaves the request waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
import msgspec

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.earlier_answers import (
    FOREVER,
    AnswerKey,
    AnswerKind,
    Denial,
    EarlierAnswers,
    IsAlive,
    KeptAnswer,
    Pause,
    return_key,
    subject_key,
)
from flycore.approval.grants import Grant, GrantStore
from flycore.approval.leases import LIVENESS_CHECK_SECONDS, LeaseChange, LeaseStore, OnLeaseChange
from flycore.approval.requests import Limits, RequestStore, Transition, check_request, rejected_decision
from flycore.approval.tickets import restored
from flycore.approval.waiters import Revise, Ticket, Waiter, WaiterRegistry, WaitingRequest, wait_until
from flycore.model.approval import Answer, ApprovalRequest, Ask, Lease, Outcome, Subject
from flycore.model.clock import Clock
from flycore.model.enums import Choice, Code, RequestState, Risk
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import JsonObject, canonical_json

REQUEST_DECIDED = "approval.decided"
CONFIRM_ANSWERED = "confirm.answered"
_TYPES = {
    RequestState.WAITING: "approval.asked",
    RequestState.APPROVED: REQUEST_DECIDED,
    RequestState.DENIED: REQUEST_DECIDED,
    RequestState.TIMED_OUT: "approval.timed-out",
    RequestState.WITHDRAWN: "approval.withdrawn",
}
REQUEST_CHANGED = "approval.changed"
"""Type of the event for a request that still waits: it was put on hold, is shared by more or fewer calls, or
has another input."""
REQUEST_TURNED_AWAY = "approval.turned-away"
"""Type of the event for a request that found the queue full. Nobody decides about it."""


CALLER_EXITED = "the program that asked has exited, and nobody can collect the result: it was withdrawn"


SaveTickets = Callable[[tuple[Ticket, ...]], None]
"""Writes the tickets to the file that a restarted kernel reads. Never raises."""
WriteStandingPermission = Callable[[ApprovalRequest, Answer, str], str]
"""Writes the rule or block that an answer asks for, with the name of who answered. Returns the sentence that
says why it could not be written, or an empty text."""
OnUnattended = Callable[[Ask], None]
"""Is called with each request that was settled while no call waited inline. Such a call would have written
the decision to the audit log."""


class ApprovalQueue:
    """The queue of one kernel, with the leases and grants that its answers make."""

    def __init__(
        self,
        clock: Clock,
        publish: Publish,
        limits: Limits,
        desktop_control: DesktopControl,
        *,
        write_permission: WriteStandingPermission = lambda request, answer, by: "",
        on_lease_change: OnLeaseChange = lambda move, lease, by: None,
        save_tickets: SaveTickets = lambda tickets: None,
        on_unattended: OnUnattended = lambda ask: None,
        is_alive: IsAlive = lambda caller: True,
    ) -> None:
        self._clock = clock
        self._publish = publish
        self._desktop_control = desktop_control
        self._write_permission = write_permission
        self._report_lease_change = on_lease_change
        self._save_tickets = save_tickets
        self._on_unattended = on_unattended
        self._is_alive = is_alive
        self._requests = RequestStore(limits)
        self._waiters = WaiterRegistry()
        self._answers = EarlierAnswers(clock, is_alive)
        self._changed = anyio.Event()
        self.leases = LeaseStore(clock, self._on_lease_change, answers=self._answers)
        self.grants = GrantStore(clock, self.leases.is_active)

    async def run(self) -> None:
        """End requests whose time is over, and forget answers that nobody fetched. Runs until cancelled, in
        the kernel's task group."""
        while True:
            # No await lies between reading the next deadline and making the event: a request that arrives
            # later sets this very event, so no deadline is missed.
            deadline = min(self._requests.next_deadline(), self._answers.next_end(), self._next_look())
            self._changed = anyio.Event()
            await wait_until(self._clock, self._changed, deadline)
            for request_id in self._requests.overdue(self._clock.monotonic()):
                self._finish(self._requests.expire(request_id, self._clock.now()))
            for pending in self._answers.all(WaitingRequest):
                if self._is_abandoned(pending):
                    self._withdraw_abandoned(pending)
            if self._answers.forget_ended():
                self._save()

    async def ask(
        self, request: ApprovalRequest, *, patience: float | None = None, revise: Revise | None = None
    ) -> Ask:
        """Wait until the request is settled, and return it with its state.

        Where it is approved, `grants` holds its grant under the request's id; else the ask's `code` says what
        the caller is told. A call that is identical to a waiting one shares its card and its answer. A call
        whose answer was kept gets that answer at once. After `patience` seconds the caller gets the ask in
        the state `waiting`, and a later identical call takes its place. Cancelling withdraws the request. The
        queue stamps the times and the confirmation code. Raises ValueError for a request whose digest, tool,
        caller or input differs from its subject's.
        """
        check_request(request)
        match self._answers.find(request):
            case Pause():
                return Ask(request=request, state=RequestState.DENIED, code=Code.PAUSED)
            case Denial(ask=denied):
                return msgspec.structs.replace(denied, request=request, count=1, ticket=False)
            case KeptAnswer() as kept:
                return self._pick_up(kept, request)
            case WaitingRequest() as pending:
                self._take_over(pending, request)
            case _:
                admitted = self._admit(request)
                if isinstance(admitted, Ask):
                    return admitted
                pending = admitted
        waiter = self._waiters.enter(pending, request.id, revise)
        self._store_waiters(pending)
        # A cancelled wait leaves `gone` true. An answer may have been given in the same moment; `_abandon`
        # then voids its grant, because nobody is left to use it.
        gone = True
        try:
            until = FOREVER if patience is None else self._clock.monotonic() + patience
            if not await wait_until(self._clock, waiter.settled, until):
                return self._with_ticket(pending, waiter)
            gone = False
        finally:
            self._waiters.leave(waiter)
            if gone:
                self._abandon(pending, waiter)
        return waiter.outcome or self._requests.waiting_request(pending.id)

    def decide(
        self, request_id: str, subject_digest: str, answer: Answer, *, by: str = "console", author: str = ""
    ) -> Outcome:
        """Settle a request by a person's answer, if the answer counts.

        `subject_digest` is that of the request the person saw. `by` names the console. `author`, by default
        the same, is recorded with the rule or block that the answer writes.
        """
        pending = self._answers.get(WaitingRequest, request_id)
        if pending is not None and self._is_abandoned(pending):
            # It may have exited after the last look. Nobody could collect the result of an approval.
            self._withdraw_abandoned(pending)
            return Outcome(accepted=False, why_not=CALLER_EXITED)
        outcome, ask = self._requests.decide(
            request_id,
            subject_digest,
            answer,
            by=by,
            now=self._clock.monotonic(),
            at=self._clock.now(),
            desktop_controlled=self._desktop_control.active(),
            before_settling=lambda request, given: self._write_permission(request, given, author or by),
        )
        if ask is not None:
            self._answers.note_decision(ask)
            self._finish(ask)
            if answer.choice == Choice.BLOCK:
                self._deny_blocked(ask, by)
        return outcome

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Replace the input of a waiting request by one that a person wrote. Nothing is decided by it."""
        pending = self._answers.get(WaitingRequest, request_id)
        outcome = await apply_edit(self._requests, pending, self._clock, request_id, subject_digest, input)
        if isinstance(outcome, Outcome):
            return outcome
        self._publish_change(outcome, REQUEST_CHANGED)
        self._save()
        return Outcome(accepted=True)

    def set_paused(self, request_id: str, paused: bool) -> bool:
        """Stop the time of a waiting request, or let it run on. Returns False where nothing changed."""
        ask = self._requests.set_paused(request_id, paused, self._clock.monotonic(), self._clock.now())
        self._publish_change(ask, REQUEST_CHANGED)
        self._changed.set()
        self._save()
        return ask is not None

    def approver_left(self, transition: Transition = Transition.LEAVE) -> None:
        """End the inline waits because no person is there to decide.

        Requests with a ticket wait on for the next console. With `Transition.PANIC` they end, too, and the
        answers that were kept are dropped.
        """
        if transition is Transition.PANIC:
            # Kept approvals go first and are written at once: a kernel that is killed in the middle of a
            # panic must not find them again when it restarts.
            self._answers.forget_kept()
            self._save()
        for pending in self._answers.all(WaitingRequest):
            if not pending.tickets or transition is Transition.PANIC:
                self._finish(self._requests.settle(pending.id, transition, self._clock.now()))
                continue
            no_approver = msgspec.structs.replace(
                self._requests.waiting_request(pending.id),
                state=RequestState.WITHDRAWN,
                code=Code.NO_APPROVER,
            )
            pending.release_all(no_approver)
            self._store_waiters(pending)

    def restore(self, tickets: Iterable[Ticket]) -> None:
        """Take over the tickets of an earlier kernel: requests that still wait, and answers that nobody has
        fetched."""
        for (key, ask, calls, _, returns), deadline in restored(tickets, self._clock):
            if ask.state is RequestState.WAITING:
                self._requests.restore(ask, deadline)
                self._open(ask.request, key, returns, calls)
            else:
                self._answers.keep(ask, calls, key, returns, deadline)
        self._changed.set()

    async def all_resumed(self) -> None:
        """Wait until every call whose request is settled has resumed."""
        await self._waiters.all_resumed()

    def use_lease(
        self, grant_id: str, subject: Subject, risk: Risk, group: str = "", surroundings: str = ""
    ) -> Grant | None:
        """Return a grant for one call, drawn from a lease that covers it; None where a person has to be
        asked. `group` and `surroundings` are as for `LeaseStore.match`."""
        lease = self.leases.match(subject, risk, group, surroundings)
        used = None if lease is None else self.leases.take(lease.id)
        return None if used is None else self.grants.issue(grant_id, subject.digest(), used.id)

    def asks(self) -> tuple[Ask, ...]:
        """Return the waiting requests in order of arrival, then the settled ones, newest first."""
        return self._requests.asks()

    def has_answer_for(self, request: ApprovalRequest) -> bool:
        """Return whether an identical call has left a ticket here, for a waiting request or for an answer."""
        found = self._answers.find(request, (AnswerKind.KEPT, AnswerKind.WAITING))
        return found is not None and not (isinstance(found, WaitingRequest) and not found.tickets)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a person."""
        return self._requests.waiting

    @property
    def turned_away(self) -> int:
        """The number of requests that found the queue full since a request last found it empty."""
        return self._requests.turned_away

    def _pick_up(self, kept: KeptAnswer, request: ApprovalRequest) -> Ask:
        ask = self._answers.pick_up(kept, request)
        self._save()
        if ask.state is RequestState.APPROVED:
            self.grants.issue(request.id, ask.request.subject_digest)
        return ask

    def _take_over(self, pending: WaitingRequest, request: ApprovalRequest) -> None:
        """Make the request of a client's exited process one of its new process, if `request` is of that."""
        if pending.key != subject_key(request):
            self._requests.rebind(pending.id, request)
            self._answers.rebind(pending, subject_key(request))
            pending.caller = request.caller

    def _open(
        self, request: ApprovalRequest, key: AnswerKey, returns: AnswerKey | None, tickets: int = 0
    ) -> WaitingRequest:
        pending = WaitingRequest(
            id=request.id, key=key, returns=returns, caller=request.caller, tickets=tickets
        )
        self._answers.put(pending)
        return pending

    def _next_look(self) -> float:
        """Return when to look whether callers that are away still run, in monotonic seconds; infinite where
        there is none."""
        waiting = self._answers.all(WaitingRequest)
        away = any(pending.tickets and not pending.waiters for pending in waiting)
        return self._clock.monotonic() + LIVENESS_CHECK_SECONDS if away else FOREVER

    def _is_abandoned(self, pending: WaitingRequest) -> bool:
        """Return whether nobody can come back for the answer: its caller is away, and is no client that may
        have been started again."""
        return pending.returns is None and pending.away is not None and not self._is_alive(pending.away)

    def _withdraw_abandoned(self, pending: WaitingRequest) -> None:
        pending.tickets = 0  # no answer is kept: nobody could pick it up
        ask = self._requests.withdraw(pending.id, self._clock.now())
        self._finish(ask)
        if ask is not None:
            self._on_unattended(ask)

    def _deny_blocked(self, ask: Ask, by: str) -> None:
        """Apply a block to what exists already: end the tool's leases and kept answers, and deny every other
        request for it."""
        tool = ask.request.tool
        self.leases.end_tool(tool)
        self._answers.forget_kept(tool)
        self._save()
        if ask.answer is not None:
            for other in self._requests.deny_tool(tool, ask.answer, by=by, at=self._clock.now()):
                self._finish(other)

    def _admit(self, request: ApprovalRequest) -> WaitingRequest | Ask:
        """Make a new request of the call; or return it as denied, if the queue is full."""
        ask = self._requests.admit(request, now=self._clock.monotonic(), at=self._clock.now())
        if ask.state is not RequestState.WAITING:
            self._publish_change(ask, REQUEST_TURNED_AWAY)
            return ask
        pending = self._open(request, subject_key(request), return_key(request))
        self._publish_change(ask)
        self._changed.set()
        return pending

    def _with_ticket(self, pending: WaitingRequest, waiter: Waiter) -> Ask:
        """Turn an inline wait whose patience is over into a ticket, and return the waiting ask."""
        pending.give_ticket(waiter, self._requests.waiting_request(pending.id))
        self._store_waiters(pending)
        return self._requests.waiting_request(pending.id)

    def _abandon(self, pending: WaitingRequest, waiter: Waiter) -> None:
        """Handle a caller that stopped waiting. Its request is withdrawn where no other call waits for the
        answer. A caller that had come back with a ticket keeps that ticket."""
        # The request may have been approved just before the wait was cancelled.
        self.grants.void(waiter.request_id)
        if not pending.remove_waiter(waiter):
            return
        if pending.count:
            self._store_waiters(pending)
        else:
            self._finish(self._requests.withdraw(pending.id, self._clock.now()))

    def _finish(self, ask: Ask | None) -> None:
        """Hand a settled request to every call that waits, and keep its answer for calls that come back."""
        pending = None if ask is None else self._answers.get(WaitingRequest, ask.request.id)
        if ask is None or pending is None:
            return
        self._answers.remove(pending)
        lease = self.leases.lease_from_request(ask)
        for position, waiter in enumerate(pending.waiters.values()):
            if ask.state is RequestState.APPROVED:
                if lease is not None and position:
                    # The lease counts the approved call itself; each further identical call takes one more.
                    self.leases.take(lease)
                # The grant exists before the waiter wakes, since the call redeems it at once.
                self.grants.issue(waiter.request_id, ask.request.subject_digest, lease)
            waiter.settle(ask)
        if pending.tickets:
            kept = msgspec.structs.replace(ask, ticket=True)
            self._answers.keep(kept, pending.tickets, pending.key, pending.returns)
            if not pending.waiters:
                self._on_unattended(ask)
        self._publish_change(ask)
        self._changed.set()
        self._save()

    def _store_waiters(self, pending: WaitingRequest) -> None:
        ticket = pending.tickets > 0 and not pending.waiters
        before = self._requests.find(pending.id)
        ask = self._requests.update(
            pending.id,
            count=pending.count,
            ticket=ticket,
            returns=ticket and pending.returns is not None,
        )
        if ask != before:
            self._changed.set()  # only now `run` may have to look whether the caller still runs
            self._publish_change(ask, REQUEST_CHANGED)
            self._save()

    def _save(self) -> None:
        ahead = self._clock.now() - self._clock.monotonic()
        tickets = [
            Ticket(pending.key, ask, pending.tickets, ask.request.expires_at, pending.returns)
            for pending in self._answers.all(WaitingRequest)
            if pending.tickets and (ask := self._requests.find(pending.id)) is not None
        ]
        tickets += [
            Ticket(kept.key, kept.ask, kept.calls, kept.until + ahead, kept.returns)
            for kept in self._answers.all(KeptAnswer)
        ]
        self._save_tickets(tuple(tickets))

    def _publish_change(self, ask: Ask | None, kind: str = "") -> None:
        if ask is not None:
            event = request_event(ask, self._clock.now(), kind)
            self._publish(event)
            if event.type == REQUEST_DECIDED:
                # Clients of Flyflor listen to this name.
                self._publish(request_event(ask, event.at, CONFIRM_ANSWERED))

    def _on_lease_change(self, move: LeaseChange, lease: Lease, by: str) -> None:
        self._report_lease_change(move, lease, by)
        self._publish(Event(cls=EventClass.APPROVAL, type="leases.changed", at=self._clock.now()))


def request_event(ask: Ask, at: float, kind: str = "") -> Event:
    """Return the event for the state of a request. `kind` is the event's type where the state does not imply
    it. The payload holds ids and states, never an input: every subscriber of the bus may read it."""
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


async def apply_edit(
    store: RequestStore,
    pending: WaitingRequest | None,
    clock: Clock,
    request_id: str,
    shown: str,
    input: JsonObject,
) -> Ask | Outcome:
    """Put another input into a waiting request. Nothing is decided by it: the result is another card.

    `shown` is the subject digest of the request that the person edited. A call that still waits inline
    prepares the request again with the new input. Returns the waiting ask, or why there is none.
    """
    ask = store.find(request_id)
    if pending is None or ask is None:
        return rejected_decision("there is no such request")
    if ask.request.subject_digest != shown:
        return rejected_decision("the request has changed since it was shown to you")
    if ask.request.input_json != canonical_json(ask.request.subject.input):
        return rejected_decision("an input with masked parts cannot be edited")
    if pending.revise is None:
        return rejected_decision("the caller is away: you can edit its input when it has come back")
    # The request may be answered or edited while this awaits; `store.replace` compares the digest again.
    revised = await pending.revise(input)
    if isinstance(revised, str):
        return rejected_decision(revised)
    check_request(revised)
    request = msgspec.structs.replace(store.stamp(revised, clock.now()), id=request_id, edited=True)
    return store.replace(request, shown) or rejected_decision("the request has changed meanwhile")
