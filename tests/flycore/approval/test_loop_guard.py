"""The loop guard by itself: what counts, what resets, how a pause ends, and that memory stays bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from flycore.approval.loop_guard import (
    CONTINUE,
    END,
    MAX_CALLERS,
    MAX_CALLS,
    MAX_QUESTIONS,
    NEW_SECONDS,
    PAUSE_SECONDS,
    STOP,
    Attempt,
    LoopGuard,
)
from flycore.model.call import Caller
from flycore.model.enums import Code, Status
from flycore.model.question import Question

pytestmark = pytest.mark.anyio


@dataclass
class Bench:
    """A guard with time, presence and processes in the test's hand."""

    at: float = 100.0
    present: bool = True
    gone: set[int] = field(default_factory=set)
    asked: list[Question] = field(default_factory=list)
    ended: list[Question] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guard = LoopGuard(
            self,
            lambda: self.present,
            self.asked.append,
            self.ended.append,
            lambda who: who.pid not in self.gone,
        )

    def now(self) -> float:
        return 1_000_000.0 + self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep_until(self, monotonic: float) -> None:
        raise AssertionError("nothing here waits")

    def tries(self, count: int = 1, who: Caller | None = None, **more: object) -> None:
        """A call that ends as told, by default failed, so many times."""
        for _ in range(count):
            self.guard.record(attempt(who or caller(), **more))

    async def answers(self, option: str, text: str = "") -> None:
        [question] = self.guard.questions()
        assert (await self.guard.answer(question, option, text, "console")).accepted


def caller(pid: int = 7) -> Caller:
    return Caller(door="socket", program="agent", executable="/usr/bin/agent", pid=pid, started=1)


def attempt(who: Caller, **more: object) -> Attempt:
    fields: dict[str, object] = {
        "tool": "x.do",
        "input_digest": "d1",
        "input_text": '{"n":1}',
        "status": Status.FAILED,
        "code": Code.EXIT,
        "message": "it broke",
        **more,
    }
    return Attempt(caller=who, **fields)  # type: ignore[arg-type]  # a test's own fields


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_three_failures_of_one_call_pause_its_caller_alone(bench: Bench) -> None:
    bench.tries(2)
    assert bench.guard.refusal(caller().key) == ""
    bench.tries()
    assert "3 times" in bench.guard.refusal(caller().key)
    assert bench.guard.refusal(caller(8).key) == ""
    [question] = bench.asked
    assert question.about == caller().key
    assert [option.id for option in question.options if option.recommended] == [STOP]
    assert any('{"n":1}' in line for line in question.lines)
    assert any("it broke" in line for line in question.lines)


def test_success_of_the_call_starts_anew(bench: Bench) -> None:
    for _ in range(5):
        bench.tries(2)
        bench.tries(status=Status.SUCCESS, code="")
    assert bench.asked == []


def test_success_of_another_call_does_not(bench: Bench) -> None:
    bench.tries(2)
    bench.tries(status=Status.SUCCESS, code="", input_digest="d2")
    bench.tries()
    assert len(bench.asked) == 1


@pytest.mark.parametrize(
    ("status", "code", "counts"),
    [
        (Status.FAILED, Code.INVALID_INPUT, True),
        (Status.FAILED, Code.TIMEOUT, True),
        (Status.FAILED, Code.NOT_FOUND, True),
        (Status.FAILED, Code.CANCELLED, False),
        (Status.FAILED, Code.APPROVAL_TIMEOUT, False),
        (Status.FAILED, Code.PANIC, False),
        (Status.DENIED, Code.DENIED, False),
        (Status.UNAVAILABLE, "probe-unavailable", False),
        (Status.PENDING, Code.APPROVAL_PENDING, False),
    ],
)
def test_what_counts_as_failed(bench: Bench, status: Status, code: str, counts: bool) -> None:
    bench.tries(9, status=status, code=code)
    assert bool(bench.asked) is counts
    assert len(bench.asked) <= 1


def test_an_unknown_tool_counts_whatever_its_input_and_a_changed_input_does_not(bench: Bench) -> None:
    for number in range(9):
        bench.tries(input_digest=f"d{number}")
    assert bench.asked == []
    for number in range(3):
        bench.tries(tool="no.such", code=Code.NOT_FOUND, input_digest=f"d{number}")
    assert "does not exist" in bench.asked[0].title


async def test_continue_starts_anew(bench: Bench) -> None:
    bench.tries(3)
    await bench.answers(CONTINUE)
    bench.tries(2)
    assert bench.guard.refusal(caller().key) == ""
    bench.tries()
    assert len(bench.asked) == 2


async def test_stop_holds_for_ten_minutes_and_tells_the_reason(bench: Bench) -> None:
    bench.tries(3)
    await bench.answers(STOP, "look at the log first")
    bench.at += PAUSE_SECONDS - 1
    assert "look at the log first" in bench.guard.refusal(caller().key)
    bench.at += 1
    assert bench.guard.refusal(caller().key) == ""


async def test_end_holds_until_the_process_has_gone(bench: Bench) -> None:
    bench.tries(3)
    await bench.answers(END)
    bench.at += 100 * PAUSE_SECONDS
    assert bench.guard.refusal(caller().key)
    bench.gone.add(7)
    assert bench.guard.refusal(caller().key) == ""


def test_without_a_console_the_pause_ends_by_itself_with_one_it_waits(bench: Bench) -> None:
    bench.tries(3)
    bench.at += PAUSE_SECONDS
    assert bench.guard.refusal(caller().key)
    bench.present = False
    assert bench.guard.refusal(caller().key) == ""
    assert bench.guard.questions() == ()
    assert bench.ended == bench.asked


def test_the_question_of_a_caller_that_has_gone_is_withdrawn(bench: Bench) -> None:
    bench.tries(3)
    bench.gone.add(7)
    assert bench.guard.questions() == ()
    assert bench.ended == bench.asked


async def test_an_answer_to_another_question_decides_nothing(bench: Bench) -> None:
    bench.tries(3)
    first = bench.asked[0]
    await bench.answers(CONTINUE)
    bench.tries(3)
    assert not (await bench.guard.answer(first, CONTINUE, "", "console")).accepted
    assert bench.guard.refusal(caller().key)
    assert len(bench.guard.questions()) == 1


def test_memory_is_bounded(bench: Bench) -> None:
    for number in range(MAX_CALLS * 3):
        bench.tries(2, input_digest=f"d{number}")
    assert max(map(len, bench.guard._counts.values())) == MAX_CALLS
    for pid in range(100, 100 + MAX_CALLERS + 50):
        bench.tries(3, caller(pid))
        bench.tries(1, caller(pid + 100_000))
    assert len(bench.guard._counts) <= MAX_CALLERS
    assert len(bench.guard._pauses) == MAX_CALLERS
    assert len(bench.asked) == len(bench.guard.questions()) == MAX_QUESTIONS
    assert bench.guard.refusal(caller(100 + MAX_CALLERS).key)


def test_a_long_input_is_cut_and_says_so(bench: Bench) -> None:
    bench.tries(3, input_text="x" * 50_000, message="y" * 50_000)
    assert sum(map(len, bench.asked[0].lines)) < 5_000
    assert any("50,000 characters" in line for line in bench.asked[0].lines)


def test_faults_of_the_machine_are_nobody_s_loop(bench: Bench) -> None:
    bench.tries(10, code=Code.SPAWN, machine_fault=True)
    assert bench.asked == []
    bench.tries(3, code=Code.SPAWN)
    assert len(bench.asked) == 1


def test_a_tool_that_has_just_gone_is_no_unknown_tool(bench: Bench) -> None:
    bench.guard.note_change(["x.do", "sidecar:x"])
    bench.tries(10, code=Code.NOT_FOUND)
    assert bench.asked == []
    bench.tries(3, code=Code.NOT_FOUND, tool="never.was")
    assert len(bench.asked) == 1
    bench.at += NEW_SECONDS
    bench.tries(3, who=caller(8), code=Code.NOT_FOUND)
    assert len(bench.asked) == 2


def test_changed_tools_are_bounded(bench: Bench) -> None:
    bench.guard.note_change(str(number) for number in range(5_000))
    assert len(bench.guard._changed) == 1_000
