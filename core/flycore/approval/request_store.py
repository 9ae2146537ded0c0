"""The waiting requests and what became of the others: first in, first out, bounded, no waiting here.

`queue.py` is the asynchronous shell around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from flycore.approval.request_states import (
    DecisionContext,
    Transition,
    check_answer,
    new_confirmation_code,
    next_state,
)
from flycore.model.approval import Answer, ApprovalRequest, Ask, Outcome
from flycore.model.enums import Code, RequestState, Risk

First = Callable[[ApprovalRequest, Answer], str]
"""Does what an answer needs before it counts; the sentence says why it could not."""
RECENT = 50
RECENT_BYTES = 8 * 1024 * 1024
"""Of settled requests' inputs: the oldest go first, the newest stays whatever its size."""
DENIALS_TO_PAUSE = 3
PAUSE_SECONDS = 60.0
REMEMBERED_CALLERS = 1000
"""Callers whose denials are counted; the one longest without a decision is forgotten first."""
TIMEOUT_SECONDS = 600.0


class Limits(Protocol):
    """What is asked at each use, and may be another answer each time."""

    @property
    def per_caller(self) -> int:
        """Requests of one caller that may wait."""
        ...

    @property
    def total(self) -> int:
        """Requests that may wait."""
        ...

    def timeout(self, risk: Risk) -> float:
        """Seconds a request of that risk waits."""
        ...


class QueueLimits(NamedTuple):
    """Limits that stay; times in seconds."""

    per_caller: int = 5
    total: int = 20
    timeouts: tuple[tuple[Risk, float], ...] = ()
    """A risk that is not named waits `TIMEOUT_SECONDS`."""

    def timeout(self, risk: Risk) -> float:
        """How long a request of that risk waits."""
        return dict(self.timeouts).get(risk, TIMEOUT_SECONDS)


@dataclass(slots=True)
class _StoredRequest:
    ask: Ask
    deadline: float
    left: float = 0.0
    """Seconds that were left when it was put on hold."""


@dataclass(slots=True)
class _Denials:
    in_a_row: int = 0
    paused_until: float = float("-inf")


class RequestStore:
    """All requests of one kernel. Times are monotonic seconds, `at` is Unix time for people."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[str, _StoredRequest] = {}
        self._recent: deque[Ask] = deque(maxlen=RECENT)
        self._denials: dict[str, _Denials] = {}

    def stamp(self, request: ApprovalRequest, at: float) -> ApprovalRequest:
        """The request with its time of asking, its expiry and freshly drawn letters."""
        return msgspec.structs.replace(
            request,
            asked_at=at,
            expires_at=at + self._limits.timeout(request.risk),
            letter=new_confirmation_code(request.risk),
        )

    def admit(self, request: ApprovalRequest, *, now: float, at: float) -> Ask:
        """The request as it waits, stamped, or as it is refused because of a full queue."""
        caller = request.caller.key
        mine = sum(item.ask.request.caller.key == caller for item in self._waiting.values())
        if mine >= self._limits.per_caller or len(self._waiting) >= self._limits.total:
            return Ask(request=request, state=RequestState.DENIED, code=Code.QUEUE_FULL)
        ask = Ask(request=self.stamp(request, at), state=RequestState.WAITING)
        self._waiting[request.id] = _StoredRequest(ask, now + self._limits.timeout(request.risk))
        return ask

    def decide(
        self,
        request_id: str,
        subject_digest: str,
        answer: Answer,
        *,
        by: str,
        now: float,
        at: float,
        hands: bool,
        first: First = lambda request, answer: "",
    ) -> tuple[Outcome, Ask | None]:
        """Judge an answer. The ask comes back, settled, only where the answer counted, and `first` had
        done what the answer needs."""
        item = self._waiting.get(request_id)
        ask = item.ask if item is not None else self.find(request_id)
        moment = DecisionContext(overdue=item is not None and now >= item.deadline, hands_on=hands)
        move = check_answer(ask, subject_digest, answer, moment)
        if isinstance(move, Outcome):
            return move, None
        why_not = first(item.ask.request, answer) if item is not None else ""
        if why_not:
            return Outcome(accepted=False, why_not=why_not), None
        settled = self._settle(request_id, move, at, answer=answer, by=by)
        if settled is None:
            return Outcome(accepted=False, why_not="there is no such request"), None
        self._count(settled.request.caller.key, move, now)
        return Outcome(accepted=True), settled

    def refuse(self, tool: str, answer: Answer, *, by: str, at: float) -> tuple[Ask, ...]:
        """Settle every waiting request for the tool as denied by an answer that was given to one of them."""
        ids = [key for key, item in self._waiting.items() if item.ask.request.tool == tool]
        settled = [self._settle(key, Transition.DENY, at, answer=answer, by=by) for key in ids]
        return tuple(ask for ask in settled if ask is not None)

    def expire(self, request_id: str, at: float) -> Ask | None:
        """Time is up; None where the request was settled before."""
        return self._settle(request_id, Transition.EXPIRE, at)

    def withdraw(self, request_id: str, at: float) -> Ask | None:
        """The caller is gone; None where the request was settled before."""
        return self._settle(request_id, Transition.WITHDRAW, at)

    def settle(self, request_id: str, move: Transition, at: float) -> Ask | None:
        """Settle by what is nobody's answer; None where the request was settled before."""
        return self._settle(request_id, move, at)

    def set_paused(self, request_id: str, held: bool, now: float, at: float) -> Ask | None:
        """Stop a request's time, or let it run on; None where that changes nothing."""
        item = self._waiting.get(request_id)
        if item is None or item.ask.held is held or (held and now >= item.deadline):
            return None
        if held:
            item.left, item.deadline = item.deadline - now, float("inf")
        else:
            item.deadline = now + item.left
        expires = at + item.left
        request = msgspec.structs.replace(item.ask.request, expires_at=expires)
        item.ask = msgspec.structs.replace(item.ask, request=request, held=held)
        return item.ask

    def update(self, request_id: str, *, count: int, ticket: bool) -> Ask | None:
        """Who waits for a request has changed."""
        item = self._waiting.get(request_id)
        if item is None:
            return None
        item.ask = msgspec.structs.replace(item.ask, count=count, ticket=ticket)
        return item.ask

    def replace(self, request: ApprovalRequest, shown: str) -> Ask | None:
        """Another card in the place of the one that waits under the same id, as long as that one; None
        where the one that was shown, by its digest, waits no longer."""
        item = self._waiting.get(request.id)
        if item is None or item.ask.request.subject_digest != shown:
            return None
        request = msgspec.structs.replace(request, expires_at=item.ask.request.expires_at)
        item.ask = msgspec.structs.replace(item.ask, request=request)
        return item.ask

    def restore(self, ask: Ask, deadline: float) -> None:
        """A request of an earlier kernel waits on; limits were kept when it was admitted."""
        self._waiting[ask.request.id] = _StoredRequest(ask, deadline)

    def overdue(self, now: float) -> tuple[str, ...]:
        """Requests whose time is up."""
        return tuple(key for key, item in self._waiting.items() if now >= item.deadline)

    def deadline(self, request_id: str) -> float | None:
        """When a waiting request expires, monotonic; infinite while it is held."""
        item = self._waiting.get(request_id)
        return None if item is None else item.deadline

    def next_deadline(self) -> float:
        """When the next request expires; infinite where none does."""
        return min((item.deadline for item in self._waiting.values()), default=float("inf"))

    def waits(self, request_id: str) -> Ask:
        """A request that waits. Raises LookupError where it does not."""
        return self._waiting[request_id].ask

    def find(self, request_id: str) -> Ask | None:
        """A request, waiting or recent."""
        return next((ask for ask in self.asks() if ask.request.id == request_id), None)

    def asks(self) -> tuple[Ask, ...]:
        """Waiting ones in order of arrival, then recent ones, newest first."""
        return (*(item.ask for item in self._waiting.values()), *reversed(self._recent))

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def paused(self, request: ApprovalRequest, now: float) -> Ask | None:
        """The request as it is refused because its caller was denied too often; None where it was not."""
        denials = self._denials.get(request.caller.key)
        if denials is None or now >= denials.paused_until:
            return None
        return Ask(request=request, state=RequestState.DENIED, code=Code.PAUSED)

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

    def _count(self, caller: str, move: Transition, now: float) -> None:
        """Three denials in a row pause a caller; an approval starts the count anew."""
        denials = self._denials.pop(caller, None) or _Denials()
        if move is Transition.APPROVE:
            return
        denials.in_a_row += 1
        if denials.in_a_row >= DENIALS_TO_PAUSE:
            denials.in_a_row = 0
            denials.paused_until = now + PAUSE_SECONDS
        self._denials[caller] = denials
        while len(self._denials) > REMEMBERED_CALLERS:
            del self._denials[next(iter(self._denials))]


def _size(ask: Ask) -> int:
    return len(ask.request.input_json)
