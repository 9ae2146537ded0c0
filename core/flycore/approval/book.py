"""The waiting requests and what became of the others: first in, first out, bounded, no waiting here.

`queue.py` is the asynchronous shell around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from flycore.approval.machine import Moment, Move, judge, step
from flycore.model.approval import Answer, ApprovalRequest, Ask, DecideOutcome
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
class _Waiting:
    ask: Ask
    deadline: float


@dataclass(slots=True)
class _Denials:
    in_a_row: int = 0
    paused_until: float = float("-inf")


class RequestBook:
    """All requests of one kernel. Times are monotonic seconds, `at` is Unix time for people."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[str, _Waiting] = {}
        self._recent: deque[Ask] = deque(maxlen=RECENT)
        self._denials: dict[str, _Denials] = {}

    def admit(self, request: ApprovalRequest, deadline: float, now: float) -> Ask:
        """The request as it waits, or as it is refused because of a pause or a full queue."""
        caller = request.caller.key
        if request.id in self._waiting:
            raise ValueError(f"a request {request.id!r} is waiting")
        if self.pause_left(caller, now) > 0:
            return Ask(request=request, state=RequestState.DENIED, code=Code.PAUSED)
        mine = sum(item.ask.request.caller.key == caller for item in self._waiting.values())
        if mine >= self._limits.per_caller or len(self._waiting) >= self._limits.total:
            return Ask(request=request, state=RequestState.DENIED, code=Code.QUEUE_FULL)
        ask = Ask(request=request, state=RequestState.WAITING)
        self._waiting[request.id] = _Waiting(ask, deadline)
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
    ) -> tuple[DecideOutcome, Ask | None]:
        """Judge an answer. The ask comes back, settled, only where the answer counted, and `first` had
        done what the answer needs."""
        item = self._waiting.get(request_id)
        ask = item.ask if item is not None else self.find(request_id)
        moment = Moment(overdue=item is not None and now >= item.deadline, hands_on=hands)
        move = judge(ask, subject_digest, answer, moment)
        if isinstance(move, DecideOutcome):
            return move, None
        why_not = first(item.ask.request, answer) if item is not None else ""
        if why_not:
            return DecideOutcome(accepted=False, why_not=why_not), None
        settled = self._settle(request_id, move, at, answer=answer, by=by)
        if settled is None:
            return DecideOutcome(accepted=False, why_not="there is no such request"), None
        self._count(settled.request.caller.key, move, now)
        return DecideOutcome(accepted=True), settled

    def refuse(self, tool: str, answer: Answer, *, by: str, at: float) -> tuple[Ask, ...]:
        """Settle every waiting request for the tool as denied by an answer that was given to one of them."""
        ids = [key for key, item in self._waiting.items() if item.ask.request.tool == tool]
        settled = [self._settle(key, Move.DENY, at, answer=answer, by=by) for key in ids]
        return tuple(ask for ask in settled if ask is not None)

    def expire(self, request_id: str, at: float) -> Ask | None:
        """Time is up; None where the request was settled before."""
        return self._settle(request_id, Move.EXPIRE, at)

    def withdraw(self, request_id: str, at: float) -> Ask | None:
        """The caller is gone; None where the request was settled before."""
        return self._settle(request_id, Move.WITHDRAW, at)

    def leave(self, at: float) -> tuple[Ask, ...]:
        """The person is gone: every request that waited, settled as a refusal."""
        left = [self._settle(request_id, Move.LEAVE, at) for request_id in tuple(self._waiting)]
        return tuple(ask for ask in left if ask is not None)

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

    def pause_left(self, caller: str, now: float) -> float:
        """Seconds for which the caller's requests are refused, 0 where they are not."""
        denials = self._denials.get(caller)
        return 0.0 if denials is None else max(0.0, denials.paused_until - now)

    def _settle(
        self, request_id: str, move: Move, at: float, *, answer: Answer | None = None, by: str = ""
    ) -> Ask | None:
        item = self._waiting.get(request_id)
        outcome = None if item is None else step(item.ask.state, move)
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

    def _count(self, caller: str, move: Move, now: float) -> None:
        """Three denials in a row pause a caller; an approval starts the count anew."""
        denials = self._denials.pop(caller, None) or _Denials()
        if move is Move.APPROVE:
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
