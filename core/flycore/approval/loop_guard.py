"""The loop guard, which pauses a caller that repeats a failing call, and asks a person.

A call counts as repeated where caller, tool and canonical input are the same. Only failures count: a denial
is somebody's decision, and a cancelled call shows nothing.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.clock import Clock
from flycore.model.enums import Code, QuestionKind, Status
from flycore.model.question import Option, Question
from flysafe.procfs import read_process

MAX_FAILURES = 3
"""Failures of one call, or calls of one unknown tool, that pause the caller."""
PAUSE_SECONDS = 600.0
"""Seconds that `stop` lasts, and that a question waits while no console is open."""
NEW_SECONDS = 10.0
"""Seconds after a change of a tool in which calls do not count that do not find it."""
MAX_CHANGED = 1_000
"""Changed tools that are remembered, the latest ones."""
MAX_CALLERS = 4096
MAX_CALLS = 64
"""Different failing calls that are counted for one caller. Beyond, the one not tried for longest is
forgotten."""
MAX_QUESTIONS = 20
"""Questions that wait at once. A further caller is paused for `PAUSE_SECONDS` without a question."""
MAX_INPUT_CHARS = 2_000
MAX_MESSAGE_CHARS = 500

CONTINUE = "continue"
STOP = "stop"
END = "end"
_OPTIONS = (
    Option(id=STOP, words="stop: refuse its calls for 10 minutes", recommended=True),
    Option(id=CONTINUE, words="continue: allow its calls, and count failures anew"),
    Option(id=END, words="end: refuse its calls until its process has ended"),
)
_NO_FAILURE = (Code.CANCELLED, Code.APPROVAL_TIMEOUT, Code.PANIC)

IsAlive = Callable[[Caller], bool]
OnQuestion = Callable[[Question], None]


class Attempt(Value, frozen=True, kw_only=True):
    """A call that has ended. Its texts hold no secrets."""

    caller: Caller
    tool: str
    input_digest: str
    input_text: str
    status: Status
    code: str = ""
    message: str = ""
    machine_fault: bool = False
    """Whether the machine failed, not the call: the caller could not have called otherwise."""


class _LoopPause(msgspec.Struct, frozen=True):
    caller: Caller
    was_alive: bool
    """Whether the caller's process was seen when it was paused. For another caller, such as a remote one, the
    end of its process cannot be seen."""
    question: Question | None
    """The question that waits for a person; None once it is answered."""
    until: float | None
    """Monotonic time in seconds at which the pause ends; None for no end. A pause with a question ends then
    only while no console is open."""
    message: str
    """The error message for the caller."""


def is_alive(caller: Caller) -> bool:
    """Return whether the caller's own process still runs; its start time tells it from one that reuses the
    pid."""
    process = read_process(caller.pid) if caller.pid else None
    return process is not None and process.started == caller.started


class LoopGuard:
    """Counts the failures of each caller (`Caller.key`), of which every process is one. Memory is bounded."""

    def __init__(
        self,
        clock: Clock,
        console_open: Callable[[], bool],
        on_question: OnQuestion,
        on_question_end: OnQuestion,
        is_alive: IsAlive = is_alive,
    ) -> None:
        self._changed: OrderedDict[str, float] = OrderedDict()
        self._clock = clock
        self._console_open = console_open
        self._on_question = on_question
        self._on_question_end = on_question_end
        self._is_alive = is_alive
        self._counts: OrderedDict[str, OrderedDict[tuple[str, str], int]] = OrderedDict()
        self._pauses: OrderedDict[str, _LoopPause] = OrderedDict()

    def refusal(self, caller: str) -> str:
        """Return why this caller's calls are refused now; empty where they are not."""
        pause = self._pauses.get(caller)
        return "" if pause is None or self._resume(pause) else pause.message

    def note_change(self, tools: Iterable[str]) -> None:
        """Note that these tools have changed: a caller may not know yet that one is gone."""
        now = self._clock.monotonic()
        for tool in tools:
            self._changed.pop(tool, None)
            self._changed[tool] = now
            if len(self._changed) > MAX_CHANGED:
                self._changed.popitem(last=False)

    def record(self, attempt: Attempt) -> None:
        """Count a call that has ended, and pause its caller where it makes a loop."""
        key, unknown = attempt.caller.key, attempt.code == Code.NOT_FOUND
        call = (attempt.tool, "" if unknown else attempt.input_digest)
        if attempt.status is Status.SUCCESS:
            self._forget(key, call)
            return
        fails = attempt.status is Status.FAILED and attempt.code not in _NO_FAILURE
        changed = self._changed.get(attempt.tool)
        just_gone = unknown and changed is not None and self._clock.monotonic() < changed + NEW_SECONDS
        if attempt.machine_fault or just_gone:
            return
        if fails and key not in self._pauses and self._count_attempt(key, call) >= MAX_FAILURES:
            self._counts.pop(key, None)
            self._pause(attempt, unknown=unknown)

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that wait for a person, in order of arrival."""
        asking = [pause for pause in self._pauses.values() if pause.question is not None]
        return tuple(pause.question for pause in asking if pause.question and not self._resume(pause))

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Carry out a person's answer, if the question still waits."""
        pause = self._pauses.get(question.about)
        if pause is None or pause.question is None or pause.question.id != question.id:
            return Outcome(accepted=False, why_not="no such question waits")
        del self._pauses[question.about]
        reason = f": {text}" if text else ""
        if option == STOP:
            words = f"stopped by a person for 10 minutes{reason}"
            until: float | None = self._clock.monotonic() + PAUSE_SECONDS
            self._keep(_LoopPause(pause.caller, pause.was_alive, None, until, words))
        elif option == END:
            words = f"ended by a person: no call of this process is taken any more{reason}"
            self._keep(_LoopPause(pause.caller, pause.was_alive, None, None, words))
        return Outcome(accepted=True)

    def _pause(self, attempt: Attempt, *, unknown: bool) -> None:
        caller = attempt.caller
        what = f"{attempt.tool[:200]} is no tool" if unknown else f"the same call of {attempt.tool} failed"
        message = f"{what}, {MAX_FAILURES} times; calls of this caller are refused until a person decides"
        until = self._clock.monotonic() + PAUSE_SECONDS
        question = None
        if len(self.questions()) < MAX_QUESTIONS:
            question = _question(attempt, self._clock.now(), unknown=unknown)
        self._keep(_LoopPause(caller, self._is_alive(caller), question, until, message))
        if question is not None:
            self._on_question(question)

    def _keep(self, pause: _LoopPause) -> None:
        self._pauses[pause.caller.key] = pause
        if len(self._pauses) > MAX_CALLERS:
            for item in tuple(self._pauses.values()):
                self._resume(item)
        # A pause with a question is never dropped: the question is on a console. There are fewer questions
        # than pauses, so one without a question is always found.
        while len(self._pauses) > MAX_CALLERS:
            unasked = (key for key, item in self._pauses.items() if item.question is None)
            del self._pauses[next(unasked)]

    def _resume(self, pause: _LoopPause) -> bool:
        """Forget a pause that is over, because its time has passed or its process has ended. Returns whether
        it was over."""
        # While a console is open, a question waits for its person as long as it takes.
        waits = pause.question is not None and self._console_open()
        late = pause.until is not None and self._clock.monotonic() >= pause.until and not waits
        if not late and not (pause.was_alive and not self._is_alive(pause.caller)):
            return False
        del self._pauses[pause.caller.key]
        if pause.question is not None:
            self._on_question_end(pause.question)
        return True

    def _count_attempt(self, caller: str, call: tuple[str, str]) -> int:
        calls = self._counts.pop(caller, None) or OrderedDict()
        self._counts[caller] = calls
        calls[call] = calls.pop(call, 0) + 1
        if len(calls) > MAX_CALLS:
            calls.popitem(last=False)
        if len(self._counts) > MAX_CALLERS:
            self._counts.popitem(last=False)
        return calls[call]

    def _forget(self, caller: str, call: tuple[str, str]) -> None:
        calls = self._counts.get(caller)
        if calls is not None:
            calls.pop(call, None)
            calls.pop((call[0], ""), None)
            if not calls:
                del self._counts[caller]


def _question(attempt: Attempt, now: float, *, unknown: bool) -> Question:
    program = attempt.caller.program
    title = (
        f"{program} calls a tool that does not exist" if unknown else f"{program} repeats a call that fails"
    )
    text = attempt.input_text
    shown = text if len(text) <= MAX_INPUT_CHARS else f"{text[:MAX_INPUT_CHARS]}… ({len(text):,} characters)"
    lines = (
        f"caller  {attempt.caller}",
        f"tool    {attempt.tool[:200]}",
        f"input   {shown}",
        f"failed  {MAX_FAILURES} times, unchanged",
        f"error   {attempt.code}: {attempt.message[:MAX_MESSAGE_CHARS]}",
        "now     all calls of this caller are refused until you decide",
    )
    return Question(
        id=f"loop-{secrets.token_hex(8)}",
        kind=QuestionKind.LOOP,
        title=title,
        lines=lines,
        options=_OPTIONS,
        free_text=True,
        about=attempt.caller.key,
        asked_at=now,
    )
