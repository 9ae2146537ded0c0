"""What was answered before to a call, or to calls like it: one index of a kernel, asked once for each call.

    pause     the caller was denied too often in a row
    denial    a person denied this tool to the caller for some minutes
    kept      the same call was answered while its caller was away
    waiting   the same call waits for a person already
    lease     a person permitted further calls of the caller

An agent that ends and is started again in the same root may take the answer that a person gave to its call in
the meantime. Only agents that flytui knows are such clients, recognised by the path of their executable and
by their name. The answer is for the very same call, of the same root: everything but the process has to
agree, and the process that asked must have exited. Two processes that both run never share an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import ClassVar, TypeVar

import msgspec

from flycore.approval.caller_names import known_agents
from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.caller import Caller
from flycore.model.clock import Clock
from flycore.model.enums import RequestState
from flycore.model.large_values import is_large

FOREVER = float("inf")
DENIALS_TO_PAUSE = 3
PAUSE_SECONDS = 60.0
PICK_UP_SECONDS = 600.0
"""How long an answer is kept for a caller that is away."""


class AnswerKind(StrEnum):
    """The kinds of earlier answers."""

    PAUSE = "pause"
    DENIAL = "denial"
    KEPT = "kept"
    WAITING = "waiting"
    LEASE = "lease"


AnswerKey = tuple[str, str]
"""What an answer is bound to. For a request it is the subject digest and the risk: calls that agree in both
share one request and its answer. For a pause and a lease it is the caller, for a denial caller and tool."""
_KindKey = tuple[AnswerKind, str, str]
IsAlive = Callable[[Caller], bool]
"""Returns whether the caller's process still runs."""


# Denials come first: picking up a kept approval uses it up, and would carry a denied or paused caller past
# the denial. A lease is looked for before a card is made, among the answers to the caller (`to_caller`).
PRECEDENCE = (AnswerKind.PAUSE, AnswerKind.DENIAL, AnswerKind.KEPT, AnswerKind.WAITING)
MOST = {AnswerKind.PAUSE: 1_000, AnswerKind.DENIAL: 1_000, AnswerKind.KEPT: 100}
"""Answers of a kind that are remembered. Beyond, the oldest is forgotten, and a person is asked again."""


class EarlierAnswer(msgspec.Struct, kw_only=True, eq=False):
    """An answer to an earlier call."""

    kind: ClassVar[AnswerKind]
    id: str
    """Unique among the answers of its kind."""
    key: AnswerKey
    returns: AnswerKey | None = None
    """The key of the same call by the client started again; None if only the same process may come back."""
    until: float = FOREVER
    """Monotonic time in seconds at which the answer ends."""

    @property
    def away(self) -> Caller | None:
        """The caller that left without the answer; None while it waits for it."""
        return None


class Pause(EarlierAnswer):
    """The count of a caller's denials in a row. While `until` has not come, its calls are refused."""

    kind = AnswerKind.PAUSE
    in_a_row: int = 0


class Denial(EarlierAnswer):
    """A denial that holds for some minutes, so that a retrying agent does not ask the person again. The input
    does not count, because a denied agent often tries again with another one."""

    kind = AnswerKind.DENIAL
    ask: Ask
    """The request that the person denied."""


class KeptAnswer(EarlierAnswer):
    """A settled request whose callers were away. Each call that comes back uses it up once."""

    kind = AnswerKind.KEPT
    ask: Ask
    calls: int
    """The number of calls that it is kept for."""

    @property
    def away(self) -> Caller | None:
        """The caller that the answer is kept for."""
        return self.ask.request.caller


A = TypeVar("A", bound=EarlierAnswer)


class EarlierAnswers:
    """The earlier answers of one kernel, by what they are bound to. `is_alive` looks whether the caller of a
    kept or waiting request still runs."""

    def __init__(self, clock: Clock, is_alive: IsAlive) -> None:
        self._clock = clock
        self._is_alive = is_alive
        self._by_id: dict[AnswerKind, dict[str, EarlierAnswer]] = {kind: {} for kind in AnswerKind}
        self._by_key: dict[_KindKey, list[EarlierAnswer]] = {}

    def find(
        self, request: ApprovalRequest, kinds: tuple[AnswerKind, ...] = PRECEDENCE
    ) -> EarlierAnswer | None:
        """Return the first answer of these kinds that holds for the call; None if a person must be asked."""
        now = self._clock.monotonic()
        for key, again in _keys_of(request, kinds):
            for answer in self._by_key.get(key, ()):
                if now < answer.until and (not again or self._has_exited(answer)):
                    return answer
        return None

    def to_caller(self, kind: type[A], caller: str) -> tuple[A, ...]:
        """Return the answers of a kind that are bound to the caller alone (a `Caller.key`), oldest first."""
        found = self._by_key.get((kind.kind, caller, ""), ())
        return tuple(answer for answer in found if isinstance(answer, kind))

    def get(self, kind: type[A], id: str) -> A | None:
        """Return the answer with that id, also one that has ended."""
        found = self._by_id[kind.kind].get(id)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[A]) -> tuple[A, ...]:
        """Return the answers of a kind, oldest first."""
        return tuple(answer for answer in self._by_id[kind.kind].values() if isinstance(answer, kind))

    def put(self, answer: EarlierAnswer) -> None:
        """Remember the answer as the newest. It replaces an older one of its kind with the same id."""
        same_kind = self._by_id[answer.kind]
        if answer.id in same_kind:
            self.remove(same_kind[answer.id])
        same_kind[answer.id] = answer
        for key in _keys_of_answer(answer):
            self._list(key, answer)
        while len(same_kind) > MOST.get(answer.kind, len(same_kind)):
            self.remove(next(iter(same_kind.values())))

    def remove(self, answer: EarlierAnswer) -> None:
        """Forget an answer that `put` was called with."""
        del self._by_id[answer.kind][answer.id]
        for key in _keys_of_answer(answer):
            self._unlist(key, answer)

    def rebind(self, answer: EarlierAnswer, key: AnswerKey) -> None:
        """Bind the answer to another key. Its place among the others stays."""
        self._unlist((answer.kind, *answer.key), answer)
        answer.key = key
        self._list((answer.kind, *key), answer)

    def note_decision(self, ask: Ask) -> None:
        """Note a person's decision. Three denials in a row pause the caller, and an approval starts the count
        anew. A denial holds for the minutes that its answer names."""
        caller, now = ask.request.caller.key, self._clock.monotonic()
        pause = self.get(Pause, caller)
        if pause is not None:
            self.remove(pause)
        if ask.state is RequestState.APPROVED:
            return
        pause = pause or Pause(id=caller, key=(caller, ""), until=-FOREVER)
        pause.in_a_row += 1
        if pause.in_a_row >= DENIALS_TO_PAUSE:
            pause.in_a_row, pause.until = 0, now + PAUSE_SECONDS
        self.put(pause)
        if ask.answer is not None and ask.answer.deny_minutes > 0:
            key = (caller, ask.request.tool)
            until = now + ask.answer.deny_minutes * 60.0
            self.put(Denial(id="\0".join(key), key=key, until=until, ask=ask))

    def keep(
        self, ask: Ask, calls: int, key: AnswerKey, returns: AnswerKey | None, until: float = 0.0
    ) -> None:
        """Keep the settled request for that many calls of a caller that is away, until that monotonic second,
        or for `PICK_UP_SECONDS`."""
        until = until or self._clock.monotonic() + PICK_UP_SECONDS
        self.put(KeptAnswer(id="\0".join(key), key=key, returns=returns, until=until, ask=ask, calls=calls))

    def pick_up(self, kept: KeptAnswer, request: ApprovalRequest) -> Ask:
        """Use a kept answer up for one call, and return it."""
        kept.calls -= 1
        if kept.calls <= 0:
            self.remove(kept)
        return kept.ask if kept.key == subject_key(request) else rebound(kept.ask, request)

    def forget_kept(self, tool: str | None = None) -> None:
        """Forget the kept answers to calls of that tool; None stands for every tool."""
        for kept in self.all(KeptAnswer):
            if tool is None or kept.ask.request.tool == tool:
                self.remove(kept)

    def forget_ended(self) -> bool:
        """Forget the kept answers whose time is over. Returns whether there was any."""
        now = self._clock.monotonic()
        ended = [kept for kept in self.all(KeptAnswer) if now >= kept.until]
        for kept in ended:
            self.remove(kept)
        return bool(ended)

    def next_end(self) -> float:
        """Return when the next kept answer is forgotten, in monotonic seconds; infinite if there is none."""
        return min((kept.until for kept in self.all(KeptAnswer)), default=FOREVER)

    def _has_exited(self, answer: EarlierAnswer) -> bool:
        return answer.away is not None and not self._is_alive(answer.away)

    def _list(self, key: _KindKey, answer: EarlierAnswer) -> None:
        self._by_key.setdefault(key, []).append(answer)

    def _unlist(self, key: _KindKey, answer: EarlierAnswer) -> None:
        self._by_key[key].remove(answer)
        if not self._by_key[key]:
            del self._by_key[key]


def _keys_of_answer(answer: EarlierAnswer) -> Iterator[_KindKey]:
    yield answer.kind, *answer.key
    if answer.returns is not None:
        yield answer.kind, *answer.returns


def _keys_of(request: ApprovalRequest, kinds: tuple[AnswerKind, ...]) -> Iterator[tuple[_KindKey, bool]]:
    """Yield the keys under which answers to the call are found, and whether the key is that of a client that
    was started again."""
    again = return_key(request)
    for kind in kinds:
        match kind:
            case AnswerKind.PAUSE:
                yield (kind, request.caller.key, ""), False
            case AnswerKind.DENIAL:
                yield (kind, request.caller.key, request.tool), False
            case _:
                yield (kind, *subject_key(request)), False
                if again is not None:
                    yield (kind, *again), True


def subject_key(request: ApprovalRequest) -> AnswerKey:
    """Return the key that identical calls have in common."""
    # The digest covers the caller, so no caller shares another one's answer.
    return request.subject_digest, request.risk.value


def client_of(caller: Caller) -> str:
    """Return the client that the caller is, whatever its process; empty if it is none that may come back as
    another one."""
    known = caller.pid and caller.executable and caller.is_program
    if not known or caller.name not in {agent.name for agent in known_agents()}:
        return ""
    return f"{caller.door}:{caller.executable}:{caller.name}"


def return_key(request: ApprovalRequest) -> AnswerKey | None:
    """Return what the call has in common with the same call of the client when it is started again; None if
    it could not come back."""
    client = client_of(request.caller)
    # A large input takes long to digest, and this runs on the event loop.
    if not client or is_large(request.subject.input):
        return None
    return msgspec.structs.replace(request.subject, caller=client).digest(), request.risk.value


def rebound(ask: Ask, request: ApprovalRequest) -> Ask:
    """Return the ask as one of the caller of `request`, which is the client that was started again."""
    subject = msgspec.structs.replace(ask.request.subject, caller=request.caller.key)
    same = msgspec.structs.replace(
        ask.request,
        caller=request.caller,
        call_id=request.call_id,
        subject=subject,
        subject_digest=subject.digest(),
    )
    return msgspec.structs.replace(ask, request=same)
