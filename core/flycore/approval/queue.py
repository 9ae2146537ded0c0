"""The approval queue: calls wait here for a person.

Every way out that is not an explicit approval is a refusal or leaves the request waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import msgspec

from flycore.approval.book import First, Limits, RequestBook
from flycore.approval.clock import Clock
from flycore.approval.grants import Grant, GrantBook, Redemption
from flycore.approval.hands import HandsOn
from flycore.approval.leases import LeaseBook, LeaseMove, Told
from flycore.approval.letters import draw_letters
from flycore.approval.machine import check_request
from flycore.model.approval import Answer, ApprovalRequest, Ask, DecideOutcome, Lease, Subject
from flycore.model.canonical import JsonObject
from flycore.model.enums import Choice, RequestState, Risk
from flycore.model.events import Event, EventClass, Publish

_EVENTS = {
    RequestState.WAITING: "approval.asked",
    RequestState.APPROVED: "approval.decided",
    RequestState.DENIED: "approval.decided",
    RequestState.TIMED_OUT: "approval.timed-out",
    RequestState.WITHDRAWN: "approval.withdrawn",
}


@dataclass(slots=True)
class _Pending:
    ask: Ask
    settled: anyio.Event = field(default_factory=anyio.Event)
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set once the caller's side has gone on with it."""


class ApprovalQueue:
    """One kernel's queue, with the leases and grants its answers make."""

    def __init__(
        self,
        clock: Clock,
        publish: Publish,
        limits: Limits,
        hands: HandsOn,
        *,
        first: First = lambda request, answer: "",
        told: Told = lambda move, lease: None,
    ) -> None:
        self._clock = clock
        self._publish = publish
        self._limits = limits
        self._hands = hands
        self._first = first
        self._told = told
        self._book = RequestBook(limits)
        self._pending: dict[str, _Pending] = {}
        self.leases = LeaseBook(clock, self._lease_moved)
        self.grants = GrantBook(clock, self.leases.holds)

    def stamp(self, request: ApprovalRequest) -> ApprovalRequest:
        """The request with its time of asking, its expiry and freshly drawn letters."""
        now = self._clock.now()
        return msgspec.structs.replace(
            request,
            asked_at=now,
            expires_at=now + self._limits.timeout(request.risk),
            letter=draw_letters(request.risk),
        )

    async def ask(self, request: ApprovalRequest) -> Ask:
        """Wait until the request is settled. Approved, its grant lies in `grants` under the request's id;
        else `code` says what the caller is told.

        The request is stamped here (`stamp`). Cancelling withdraws it. Raises ValueError for a request
        whose digest, tool, caller or input is not its subject's.
        """
        check_request(request)
        stamped = self.stamp(request)
        now = self._clock.monotonic()
        deadline = now + self._limits.timeout(request.risk)
        ask = self._book.admit(stamped, deadline, now)
        if ask.state is not RequestState.WAITING:
            return ask
        pending = self._pending[request.id] = _Pending(ask)
        self._tell(ask)
        waited = False
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._expire_at, request.id, deadline)
                await pending.settled.wait()
                group.cancel_scope.cancel()
            waited = True
        finally:
            del self._pending[request.id]
            pending.taken.set()
            if not waited:
                self._abandon(request.id)
        return pending.ask

    def decide(
        self, request_id: str, subject_digest: str, answer: Answer, *, by: str = "console"
    ) -> DecideOutcome:
        """A person's answer; exactly one counts, and only for the very request that was shown."""
        outcome, ask = self._book.decide(
            request_id,
            subject_digest,
            answer,
            by=by,
            now=self._clock.monotonic(),
            at=self._clock.now(),
            hands=self._hands.active(),
            first=self._first,
        )
        if ask is None:
            return outcome
        if ask.state is RequestState.APPROVED:
            self._grant(ask)
        self._finish(ask)
        if answer.choice == Choice.BLOCK:
            self._blocked(ask, by)
        return outcome

    def leave(self) -> None:
        """The person is gone: whoever waits is told that nobody will decide."""
        for ask in self._book.leave(self._clock.now()):
            self._finish(ask)

    async def taken_up(self) -> None:
        """Wait until every settled request has been gone on with by its caller's side."""
        for pending in tuple(self._pending.values()):
            if pending.settled.is_set():
                await pending.taken.wait()

    def use_lease(self, grant_id: str, subject: Subject, risk: Risk, group: str = "") -> Grant | None:
        """A grant for one call drawn from a lease that covers it; None where a person has to be asked.
        `group` is the tool's exclusive one."""
        lease = self.leases.match(subject, risk, group)
        taken = None if lease is None else self.leases.take(lease.id)
        return None if taken is None else self.grants.mint(grant_id, subject.digest(), taken.id)

    def redeem(self, grant_id: str, subject_digest: str) -> Redemption:
        """Use a grant up, immediately before the spawn."""
        return self.grants.redeem(grant_id, subject_digest)

    def revoke(self, lease_id: str) -> bool:
        """End a lease; False when it no longer held."""
        return self.leases.revoke(lease_id)

    def asks(self) -> tuple[Ask, ...]:
        """Waiting ones in order of arrival, then recent ones, newest first."""
        return self._book.asks()

    def active_leases(self) -> tuple[Lease, ...]:
        """Leases that still cover a call."""
        return self.leases.active()

    @property
    def waiting(self) -> int:
        """How many requests wait for a person."""
        return self._book.waiting

    def _grant(self, ask: Ask) -> None:
        answer, request = ask.answer, ask.request
        lease = None
        if answer is not None and answer.choice == Choice.LEASE and answer.lease is not None:
            lease = self.leases.add(request, answer.lease).id
        self.grants.mint(request.id, request.subject_digest, lease)

    def _blocked(self, ask: Ask, by: str) -> None:
        """The tool is blocked for everybody: who else waits for it is refused, its leases end."""
        tool = ask.request.tool
        self.leases.end_tool(tool)
        if ask.answer is not None:
            for other in self._book.refuse(tool, ask.answer, by=by, at=self._clock.now()):
                self._finish(other)

    def _abandon(self, request_id: str) -> None:
        """The caller stopped waiting: a waiting request is withdrawn, an answer just given is void."""
        ask = self._book.withdraw(request_id, self._clock.now())
        if ask is not None:
            self._tell(ask)
        self.grants.void(request_id)

    async def _expire_at(self, request_id: str, deadline: float) -> None:
        await self._clock.sleep_until(deadline)
        ask = self._book.expire(request_id, self._clock.now())
        if ask is not None:
            self._finish(ask)

    def _finish(self, ask: Ask) -> None:
        self._tell(ask)
        pending = self._pending.get(ask.request.id)
        if pending is not None:
            pending.ask = ask
            pending.settled.set()

    def _tell(self, ask: Ask) -> None:
        request = ask.request
        payload: JsonObject = {
            "requestId": request.id,
            "callId": request.call_id,
            "tool": request.tool,
            "risk": str(request.risk),
            "state": str(ask.state),
            "by": ask.decided_by,
        }
        self._publish(
            Event(cls=EventClass.APPROVAL, type=_EVENTS[ask.state], at=self._clock.now(), payload=payload)
        )

    def _lease_moved(self, move: LeaseMove, lease: Lease) -> None:
        self._told(move, lease)
        self._publish(Event(cls=EventClass.APPROVAL, type="leases.changed", at=self._clock.now()))
