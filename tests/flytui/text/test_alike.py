"""Which requests and calls are folded into one row, and which stay apart."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.approval import Ask
from flycore.model.call import Activity, CallError, ToolResult
from flycore.model.enums import Code, Phase, RequestState, Risk, Status
from flytui.text.alike import (
    MAX_GAP_S,
    alike_ask_key,
    alike_call_key,
    ask_time,
    call_time,
    fold_alike,
    toggled_fold,
)
from kits.values import CALLER, NOW, request_of

OTHER = msgspec.structs.replace(CALLER, pid=9)


def ask_of(
    id: str, state: RequestState = RequestState.WAITING, at: float | None = None, **more: object
) -> Ask:
    return Ask(request=request_of(id, **more), state=state, decided_at=at)


def call_of(
    id: str, status: Status | None = None, code: Code | None = None, *, at: float = NOW, **more: object
) -> Activity:
    error = CallError(code=code, message="") if code is not None else None
    result = ToolResult(status=status, tool="t", sidecar=None, call_id=id, error=error) if status else None
    phase = Phase.FINISHED if status else Phase.RUNNING
    made = Activity(
        call_id=id, tool="t", sidecar=None, caller=CALLER, phase=phase, started_at=at, result=result
    )
    return msgspec.structs.replace(made, **more)


def asks(*found: Ask) -> list[str]:
    groups = fold_alike(found, alike_ask_key, ask_time)
    return ["".join(ask.request.id for ask in group) for group in groups]


def calls(*found: Activity) -> list[str]:
    groups = fold_alike(found, alike_call_key, call_time)
    return ["".join(call.call_id for call in group) for group in groups]


def test_requests_of_one_caller_and_tool_fold_whatever_lies_between() -> None:
    assert asks(ask_of("a"), ask_of("b", tool="web.fetch"), ask_of("c", input={"text": "other"})) == [
        "ac",
        "b",
    ]


@pytest.mark.parametrize(
    "other",
    [
        ask_of("b", risk=Risk.MEDIUM),
        ask_of("b", caller=OTHER),
        ask_of("b", tool="web.fetch"),
        ask_of("b", RequestState.DENIED),
    ],
)
def test_requests_that_differ_stay_apart(other: Ask) -> None:
    assert asks(ask_of("a"), other) == ["a", "b"]


def test_what_ended_is_folded_only_with_what_ended_about_then() -> None:
    ended = [ask_of(str(n), RequestState.DENIED, NOW - n * MAX_GAP_S) for n in range(3)]
    late = ask_of("late", RequestState.DENIED, NOW - 4 * MAX_GAP_S)
    assert asks(*ended, late) == ["012", "late"]


def test_turned_away_calls_fold_and_successes_only_with_the_same_input() -> None:
    full = (Status.DENIED, Code.QUEUE_FULL)
    assert calls(*(call_of(str(n), *full, input_text=str(n)) for n in range(5))) == ["01234"]
    assert calls(call_of("a", *full), call_of("b", Status.DENIED, Code.DENIED)) == ["a", "b"]
    good = [call_of(name, Status.SUCCESS, input_text=given) for name, given in ("a1", "b2", "c1")]
    assert calls(*good) == ["ac", "b"]
    late = call_of("d", Status.SUCCESS, input_text="1", at=NOW - MAX_GAP_S - 1)
    assert calls(*good, late) == ["ac", "b", "d"]


def test_waiting_calls_fold_and_running_ones_with_another_input_do_not() -> None:
    waiting = [call_of(name, phase=Phase.WAITING_APPROVAL, input_text=name) for name in "ab"]
    assert calls(*waiting) == ["ab"]
    assert calls(call_of("a", input_text="1"), call_of("b", input_text="2"), call_of("c", caller=OTHER)) == [
        "a",
        "b",
        "c",
    ]


def test_a_group_is_unfolded_and_folded_again() -> None:
    opened = toggled_fold(frozenset({"x"}), ("a", "b"))
    assert opened == {"x", "a", "b"}
    assert toggled_fold(opened, ("b", "c")) == {"x", "a"}
