"""Approval requests: their states and transitions, the check of an answer, and the bounded list of them.

    waiting ── approve, lease, rule ──▶ approved
       ├────── deny, block, panic ────▶ denied
       ├────── time ──────────────────▶ timed-out
       └────── caller or person left ─▶ withdrawn

All of it is functions of values. Only `waiting` has transitions, so exactly one answer counts.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from flycore.approval.earlier_answers import rebound
from flycore.approval.leases import lease_fault, lease_obstacle
from flycore.model.approval import LETTERS, Answer, ApprovalRequest, Ask, Outcome, QueueFull
from flycore.model.enums import Choice, Code, Decision, RequestState, Risk
from flycore.model.json import MASK, MASK_ESCAPED, canonical_json
from flycore.policy.rule_file import rule_fault

CODE_LENGTH = 4


MAX_DENY_MINUTES = 24 * 60


class Transition(StrEnum):
    """What can happen to a waiting request."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    LEAVE = "leave"
    """The last console has left, so nobody is there to decide."""
    PANIC = "panic"
    """A person stopped everything."""


_NEXT_STATES = {
    Transition.APPROVE: (RequestState.APPROVED, None),
    Transition.DENY: (RequestState.DENIED, Code.DENIED),
    Transition.EXPIRE: (RequestState.TIMED_OUT, Code.APPROVAL_TIMEOUT),
    Transition.WITHDRAW: (RequestState.WITHDRAWN, Code.WITHDRAWN),
    Transition.LEAVE: (RequestState.WITHDRAWN, Code.NO_APPROVER),
    Transition.PANIC: (RequestState.DENIED, Code.PANIC),
}
_TRANSITION_OF = {
    Choice.APPROVE_ONCE: Transition.APPROVE,
    Choice.LEASE: Transition.APPROVE,
    Choice.DENY: Transition.DENY,
    Choice.BLOCK: Transition.DENY,
}
_BY_RULE = {Decision.ALLOW: Transition.APPROVE, Decision.DENY: Transition.DENY}
_ENDED = {
    RequestState.APPROVED: "already approved",
    RequestState.DENIED: "already denied",
    RequestState.TIMED_OUT: "the request has timed out",
    RequestState.WITHDRAWN: "the caller has withdrawn the request",
}


def next_state(state: RequestState, transition: Transition) -> tuple[RequestState, Code | None] | None:
    """Return the state that a transition leads to and the code for the caller; None for a settled request."""
    return _NEXT_STATES[transition] if state is RequestState.WAITING else None


class DecisionContext(NamedTuple):
    """What an answer is checked against besides the request itself."""

    overdue: bool
    desktop_controlled: bool


def check_answer(
    ask: Ask | None, subject_digest: str, answer: Answer, context: DecisionContext
) -> Transition | Outcome:
    """Return the transition that an answer makes, or why it makes none. `subject_digest` is that of the
    request the person saw. An answer that is not understood decides nothing."""
    if ask is None:
        return rejected_decision("there is no such request")
    if ask.state is not RequestState.WAITING:
        by = f" by {ask.decided_by}" if ask.decided_by else ""
        return rejected_decision(f"{_ENDED[ask.state]}{by}")
    # The deadline counts, not the task that ends overdue requests: it may run a moment later.
    if context.overdue:
        return rejected_decision(_ENDED[RequestState.TIMED_OUT])
    if subject_digest != ask.request.subject_digest:
        return rejected_decision("the request has changed since it was shown to you")
    transition = _transition_for(answer)
    if transition is None or answer.choice not in choices(ask.request):
        return rejected_decision("this choice is not offered for this request")
    fault = _terms_fault(ask.request, answer)
    if fault:
        return rejected_decision(fault)
    if not 0 <= answer.deny_minutes <= MAX_DENY_MINUTES:
        return rejected_decision(f"a denial lasts {MAX_DENY_MINUTES} minutes at most")
    # A tool that moves mouse and keyboard could press the approving keys itself. Denials always count.
    if transition is Transition.APPROVE and context.desktop_controlled:
        return rejected_decision("a tool has its hands on the machine: wait until it has ended")
    return transition


def choices(request: ApprovalRequest) -> tuple[Choice, ...]:
    """Return the choices that the card offers."""
    # A call of critical risk is decided each time: no lease and no rule may allow the next one.
    if request.risk is Risk.CRITICAL:
        return (Choice.APPROVE_ONCE, Choice.DENY, Choice.BLOCK)
    lease = () if lease_obstacle(request) else (Choice.LEASE,)
    return (Choice.APPROVE_ONCE, *lease, Choice.RULE, Choice.DENY, Choice.BLOCK)


def check_request(request: ApprovalRequest) -> None:
    """Check that a request shows what it approves. Raises ValueError where its digest, tool, caller or input
    differs from its subject's: such a card would show one thing and approve another."""
    if request.subject.digest() != request.subject_digest:
        raise ValueError("the request's digest is not its subject's")
    if request.tool != request.subject.tool or request.caller.key != request.subject.caller:
        raise ValueError("the request names another tool or caller than its subject")
    if not _has_masks(request) and request.input_json != canonical_json(request.subject.input):
        raise ValueError("the request shows another input than its subject's")


def new_confirmation_code(risk: Risk) -> str:
    """Return the letters that confirm an approval: one for high risk, four for critical, none below."""
    # They are drawn for each request, so that no sequence of keys approves one before it was seen.
    count = {Risk.HIGH: 1, Risk.CRITICAL: CODE_LENGTH}.get(risk, 0)
    return "".join(secrets.choice(LETTERS) for _ in range(count))


def rejected_decision(why_not: str) -> Outcome:
    """Return the outcome of an answer or edit that does not count, with the sentence that says why."""
    return Outcome(accepted=False, why_not=why_not)


def _has_masks(request: ApprovalRequest) -> bool:
    return bool(request.masked) or MASK in request.input_json or MASK_ESCAPED in request.input_json


def _transition_for(answer: Answer) -> Transition | None:
    """Return the transition of an answer, if it counts. A rule decides this call as it says; a rule that asks
    decides nothing."""
    if answer.choice == Choice.RULE:
        return None if answer.rule is None else _BY_RULE.get(answer.rule.decision)
    return _TRANSITION_OF.get(answer.choice)


def _terms_fault(request: ApprovalRequest, answer: Answer) -> str:
    """Return what is wrong with the terms of a lease or rule; empty where nothing is."""
    if answer.choice == Choice.LEASE:
        return lease_fault(request, answer.lease)
    if answer.choice == Choice.RULE and answer.rule is not None:
        return rule_fault(request, answer.rule)
    return ""


# The bounded list of approval requests: those that wait, in order of arrival, and the last settled ones.
#
# Nothing here waits. `queue` is the asynchronous shell around it.


BeforeSettling = Callable[[ApprovalRequest, Answer], str]
"""Does what an answer needs before it counts, such as writing a rule. Returns the sentence that says why it
could not, or an empty text."""
RECENT = 50
"""Settled requests that are kept for lists."""
RECENT_BYTES = 8 * 1024 * 1024
"""Characters of canonical input that settled requests may hold together. The oldest are dropped first; the
newest stays whatever its size."""
TIMEOUT_SECONDS = 600.0
"""How long a request waits where the settings name no other time for its risk."""


class Limits(Protocol):
    """The limits of the queue. They are read at each use, because the settings may change meanwhile."""

    @property
    def per_caller(self) -> int:
        """The number of requests of one caller that may wait."""
        ...

    @property
    def total(self) -> int:
        """The number of requests that may wait in all."""
        ...

    def timeout(self, risk: Risk) -> float:
        """Return how many seconds a request of that risk waits."""
        ...


class QueueLimits(NamedTuple):
    """Limits that do not change. Times are in seconds."""

    per_caller: int = 5
    total: int = 20
    timeouts: tuple[tuple[Risk, float], ...] = ()
    """Seconds for each risk; a risk that is not named waits `TIMEOUT_SECONDS`."""

    def timeout(self, risk: Risk) -> float:
        """Return how many seconds a request of that risk waits."""
        return dict(self.timeouts).get(risk, TIMEOUT_SECONDS)


class _StoredRequest(msgspec.Struct):
    ask: Ask
    deadline: float
    seconds_left: float = 0.0
    """Seconds that were left until the deadline when the request was put on hold."""


class RequestStore:
    """The approval requests of one kernel.

    `now` and deadlines are monotonic seconds; `at` is Unix time in seconds, for people.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[str, _StoredRequest] = {}
        self._recent: deque[Ask] = deque(maxlen=RECENT)
        self._turned_away = 0

    def stamp(self, request: ApprovalRequest, at: float) -> ApprovalRequest:
        """Return the request with its time of asking, its expiry and a new confirmation code."""
        return msgspec.structs.replace(
            request,
            asked_at=at,
            expires_at=at + self._limits.timeout(request.risk),
            letter=new_confirmation_code(request.risk),
        )

    def admit(self, request: ApprovalRequest, *, now: float, at: float) -> Ask:
        """Add a request, and return it stamped and waiting; denied with `queue-full` where the caller's share
        or the whole queue is full."""
        full = self._full_for(request.caller.key, now)
        if full is not None:
            self._turned_away += 1
            return Ask(request=request, state=RequestState.DENIED, code=Code.QUEUE_FULL, full=full)
        if not self._waiting:
            self._turned_away = 0
        ask = Ask(request=self.stamp(request, at), state=RequestState.WAITING)
        self._waiting[request.id] = _StoredRequest(ask, now + self._limits.timeout(request.risk))
        return ask

    def _full_for(self, caller: str, now: float) -> QueueFull | None:
        """Return why no further request of the caller may wait; None where one may."""
        mine = [item for item in self._waiting.values() if item.ask.request.caller.key == caller]
        of_caller = len(mine) >= self._limits.per_caller
        if not of_caller and len(self._waiting) < self._limits.total:
            return None
        filling = mine if of_caller else list(self._waiting.values())
        # The deadline of a request on hold is infinite.
        first = min((item.deadline for item in filling), default=float("inf"))
        frees_in = max(0.0, first - now) if first < float("inf") else None
        return QueueFull(waiting=len(filling), of_caller=of_caller, frees_in=frees_in)

    def decide(
        self,
        request_id: str,
        subject_digest: str,
        answer: Answer,
        *,
        by: str,
        now: float,
        at: float,
        desktop_controlled: bool,
        before_settling: BeforeSettling = lambda request, answer: "",
    ) -> tuple[Outcome, Ask | None]:
        """Settle a request by an answer, if the answer counts.

        Returns the outcome and, only where the answer counts, the settled ask. `before_settling` does what
        the answer needs first; where it fails, nothing is decided.
        """
        item = self._waiting.get(request_id)
        ask = item.ask if item is not None else self.find(request_id)
        context = DecisionContext(
            overdue=item is not None and now >= item.deadline, desktop_controlled=desktop_controlled
        )
        move = check_answer(ask, subject_digest, answer, context)
        if isinstance(move, Outcome):
            return move, None
        why_not = before_settling(item.ask.request, answer) if item is not None else ""
        if why_not:
            return Outcome(accepted=False, why_not=why_not), None
        settled = self._settle(request_id, move, at, answer=answer, by=by)
        if settled is None:
            return Outcome(accepted=False, why_not="there is no such request"), None
        return Outcome(accepted=True), settled

    def deny_tool(self, tool: str, answer: Answer, *, by: str, at: float) -> tuple[Ask, ...]:
        """Deny every waiting request for the tool by an answer that was given to one of them. Returns the
        settled asks."""
        ids = [key for key, item in self._waiting.items() if item.ask.request.tool == tool]
        settled = [self._settle(key, Transition.DENY, at, answer=answer, by=by) for key in ids]
        return tuple(ask for ask in settled if ask is not None)

    def expire(self, request_id: str, at: float) -> Ask | None:
        """Settle a request as timed out. Returns None where it was settled before."""
        return self._settle(request_id, Transition.EXPIRE, at)

    def withdraw(self, request_id: str, at: float) -> Ask | None:
        """Settle a request whose caller is gone. Returns None where it was settled before."""
        return self._settle(request_id, Transition.WITHDRAW, at)

    def settle(self, request_id: str, transition: Transition, at: float) -> Ask | None:
        """Settle a request by a transition that is no answer. Returns None where it was settled before."""
        return self._settle(request_id, transition, at)

    def set_paused(self, request_id: str, paused: bool, now: float, at: float) -> Ask | None:
        """Stop the time of a request, or let it run on. Returns None where nothing changed."""
        item = self._waiting.get(request_id)
        # An overdue request cannot be put on hold: the task that ends it may only be a moment late.
        if item is None or item.ask.held is paused or (paused and now >= item.deadline):
            return None
        if paused:
            item.seconds_left, item.deadline = item.deadline - now, float("inf")
        else:
            item.deadline = now + item.seconds_left
        expires = at + item.seconds_left
        request = msgspec.structs.replace(item.ask.request, expires_at=expires)
        item.ask = msgspec.structs.replace(item.ask, request=request, held=paused)
        return item.ask

    def update(self, request_id: str, *, count: int, ticket: bool, returns: bool) -> Ask | None:
        """Note how many calls wait for a request, whether all of them hold tickets, and whether the client
        may come back for it as another process. Returns None where the request does not wait."""
        item = self._waiting.get(request_id)
        if item is None:
            return None
        item.ask = msgspec.structs.replace(item.ask, count=count, ticket=ticket, returns=returns)
        return item.ask

    def replace(self, request: ApprovalRequest, shown: str) -> Ask | None:
        """Put another request in the place of the waiting one with the same id. `shown` is the subject digest
        of the one that was edited. Returns None where that one does not wait any more."""
        item = self._waiting.get(request.id)
        if item is None or item.ask.request.subject_digest != shown:
            return None
        # An edit does not prolong the wait: the deadline stays, and so does the expiry that is shown.
        request = msgspec.structs.replace(request, expires_at=item.ask.request.expires_at)
        item.ask = msgspec.structs.replace(item.ask, request=request)
        return item.ask

    def rebind(self, request_id: str, request: ApprovalRequest) -> None:
        """Make a waiting request one of the caller of `request`: the client that was started again. Its time
        runs on."""
        item = self._waiting[request_id]
        item.ask = rebound(item.ask, request)

    def restore(self, ask: Ask, deadline: float) -> None:
        """Add a request that waited in an earlier kernel. The limits were checked when it was admitted."""
        self._waiting[ask.request.id] = _StoredRequest(ask, deadline)

    def overdue(self, now: float) -> tuple[str, ...]:
        """Return the ids of the requests whose deadline has passed."""
        return tuple(key for key, item in self._waiting.items() if now >= item.deadline)

    def deadline(self, request_id: str) -> float | None:
        """Return when a waiting request expires, in monotonic seconds; infinite while it is on hold, None
        where it does not wait."""
        item = self._waiting.get(request_id)
        return None if item is None else item.deadline

    def next_deadline(self) -> float:
        """Return when the next request expires, in monotonic seconds; infinite where none does."""
        return min((item.deadline for item in self._waiting.values()), default=float("inf"))

    def waiting_request(self, request_id: str) -> Ask:
        """Return a request that waits. Raises LookupError where it does not."""
        return self._waiting[request_id].ask

    def find(self, request_id: str) -> Ask | None:
        """Return a waiting or recently settled request."""
        return next((ask for ask in self.asks() if ask.request.id == request_id), None)

    def asks(self) -> tuple[Ask, ...]:
        """Return the waiting requests in order of arrival, then the settled ones, newest first."""
        return (*(item.ask for item in self._waiting.values()), *reversed(self._recent))

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    @property
    def turned_away(self) -> int:
        """The number of requests that found the queue full since a request last found it empty."""
        return self._turned_away

    def _settle(
        self, request_id: str, move: Transition, at: float, *, answer: Answer | None = None, by: str = ""
    ) -> Ask | None:
        item = self._waiting.get(request_id)
        outcome = None if item is None else next_state(item.ask.state, move)
        if item is None or outcome is None:
            return None
        del self._waiting[request_id]
        state, code = outcome
        ask = msgspec.structs.replace(
            item.ask, state=state, code=code, answer=answer, decided_by=by, decided_at=at
        )
        self._recent.append(ask)
        while len(self._recent) > 1 and sum(map(_size, self._recent)) > RECENT_BYTES:
            self._recent.popleft()
        return ask


def _size(ask: Ask) -> int:
    return len(ask.request.input_json)
