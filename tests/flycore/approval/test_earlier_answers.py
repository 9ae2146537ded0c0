"""The index of earlier answers: which of them holds for a call, for how long, and for whom."""

from __future__ import annotations

import msgspec
import pytest

from flycore.approval.earlier_answers import (
    DENIALS_TO_PAUSE,
    MOST,
    PAUSE_SECONDS,
    PICK_UP_SECONDS,
    AnswerKind,
    Denial,
    EarlierAnswers,
    KeptAnswer,
    Pause,
    return_key,
    subject_key,
)
from flycore.approval.waiters import WaitingRequest
from flycore.model.approval import Answer, Ask
from flycore.model.enums import Choice, RequestState, Risk

LEFT_TICKETS = (AnswerKind.KEPT, AnswerKind.WAITING)


@pytest.fixture
def living() -> set[int]:
    return {4121, 4122}


@pytest.fixture
def answers(clock, living) -> EarlierAnswers:
    return EarlierAnswers(clock, lambda caller: caller.pid in living)


def agent(make_caller, pid: int = 4121):
    """A process of an agent that flytui knows, which may be started again."""
    return msgspec.structs.replace(make_caller(pid=pid), name="Claude Code")


def settled(request, state: RequestState = RequestState.APPROVED, minutes: int = 0) -> Ask:
    choice = Choice.APPROVE_ONCE if state is RequestState.APPROVED else Choice.DENY
    return Ask(request=request, state=state, answer=Answer(choice=choice, deny_minutes=minutes))


def deny(answers: EarlierAnswers, request, minutes: int = 0) -> None:
    answers.note_decision(settled(request, RequestState.DENIED, minutes))


def keep(answers: EarlierAnswers, request, calls: int = 1) -> None:
    answers.keep(settled(request), calls, subject_key(request), return_key(request))


def wait(answers: EarlierAnswers, request, tickets: int = 0) -> WaitingRequest:
    pending = WaitingRequest(
        id=request.id,
        key=subject_key(request),
        returns=return_key(request),
        caller=request.caller,
        tickets=tickets,
    )
    answers.put(pending)
    return pending


def test_a_refusal_counts_before_a_kept_approval_and_that_before_a_waiting_request(
    answers, clock, make_request
) -> None:
    request = make_request()
    assert answers.find(request) is None
    wait(answers, request)
    assert isinstance(answers.find(request), WaitingRequest)
    keep(answers, request)
    assert isinstance(answers.find(request), KeptAnswer)
    deny(answers, request, minutes=5)
    assert isinstance(answers.find(request), Denial)
    for _ in range(DENIALS_TO_PAUSE - 1):
        deny(answers, request)
    assert isinstance(answers.find(request), Pause)
    assert isinstance(answers.find(request, LEFT_TICKETS), KeptAnswer)
    for passed, kind in ((PAUSE_SECONDS, Denial), (240, KeptAnswer), (PICK_UP_SECONDS, WaitingRequest)):
        clock.advance(passed)
        assert isinstance(answers.find(request), kind)


@pytest.mark.parametrize("change", ["input", "risk", "caller"])
def test_an_answer_to_a_call_is_for_no_other_call(answers, make_request, make_caller, change: str) -> None:
    keep(answers, make_request())
    wait(answers, make_request("r2", input={"text": "other"}))
    others = {"input": {"text": "third"}, "risk": Risk.LOW, "caller": make_caller(pid=4122)}
    assert answers.find(make_request(**{change: others[change]})) is None


def test_a_denial_is_for_any_input_of_the_tool_and_a_pause_for_any_tool(
    answers, make_request, make_caller
) -> None:
    deny(answers, make_request(), minutes=5)
    assert isinstance(answers.find(make_request(input={"text": "other"})), Denial)
    assert answers.find(make_request(tool="web.fetch")) is None
    assert answers.find(make_request(caller=make_caller(pid=4122))) is None
    deny(answers, make_request())
    deny(answers, make_request())
    assert isinstance(answers.find(make_request(tool="web.fetch")), Pause)
    assert answers.find(make_request(caller=make_caller(pid=4122))) is None


def test_an_approval_starts_the_count_of_denials_anew_and_is_no_denial(answers, make_request) -> None:
    request = make_request()
    for _ in range(DENIALS_TO_PAUSE - 1):
        deny(answers, request)
    answers.note_decision(settled(request, minutes=5))
    deny(answers, request)
    assert answers.find(request) is None


def test_a_kept_answer_is_used_up_by_as_many_calls_as_it_is_kept_for(answers, make_request) -> None:
    request = make_request()
    keep(answers, request, calls=2)
    for _ in range(2):
        kept = answers.find(request)
        assert answers.pick_up(kept, request).state is RequestState.APPROVED
    assert answers.find(request) is None


def test_a_kept_answer_is_forgotten_in_time_with_its_tool_or_with_all(answers, clock, make_request) -> None:
    requests = [make_request("0", tool="a.one"), make_request("1", tool="a.two")]
    keep(answers, requests[0])
    clock.advance(1)
    keep(answers, requests[1])
    assert answers.next_end() == clock.monotonic() + PICK_UP_SECONDS - 1
    assert not answers.forget_ended()
    clock.advance(PICK_UP_SECONDS - 1)
    assert answers.find(requests[0]) is None
    assert answers.forget_ended()
    assert [kept.ask.request.id for kept in answers.all(KeptAnswer)] == ["1"]
    keep(answers, requests[0])
    answers.forget_kept("a.two")
    assert [kept.ask.request.id for kept in answers.all(KeptAnswer)] == ["0"]
    answers.forget_kept()
    assert (answers.all(KeptAnswer), answers.next_end()) == ((), float("inf"))


@pytest.mark.parametrize("kind", [KeptAnswer, WaitingRequest])
def test_a_client_that_is_started_again_gets_the_answer_once_its_first_process_has_exited(
    answers, living, make_request, make_caller, kind
) -> None:
    first, second = (make_request("r", caller=agent(make_caller, pid)) for pid in (4121, 4122))
    if kind is KeptAnswer:
        keep(answers, first)
    else:
        wait(answers, first, tickets=1)
    assert answers.find(second) is None
    living.discard(4121)
    assert isinstance(answers.find(second), kind)
    stranger = msgspec.structs.replace(second.caller, name="my-agent")
    assert answers.find(make_request("r", caller=stranger)) is None
    other = make_request("r", caller=second.caller, input={"text": "other"})
    assert answers.find(other) is None


def test_what_an_exited_process_is_told_names_the_process_that_came_back(
    answers, living, make_request, make_caller
) -> None:
    first, second = (make_request("r", caller=agent(make_caller, pid)) for pid in (4121, 4122))
    keep(answers, first)
    living.discard(4121)
    told = answers.pick_up(answers.find(second), second).request
    assert (told.caller, told.subject_digest) == (second.caller, second.subject_digest)
    assert answers.find(second) is None


def test_a_request_that_waits_inline_is_not_taken_over(answers, living, make_request, make_caller) -> None:
    first, second = (make_request("r", caller=agent(make_caller, pid)) for pid in (4121, 4122))
    pending = wait(answers, first, tickets=1)
    waiter = pending.join("r", None)
    living.discard(4121)
    assert answers.find(second) is None
    pending.remove_waiter(waiter)
    assert answers.find(second) is pending


def test_a_request_that_was_taken_over_is_the_new_process_s_and_keeps_its_place(
    answers, living, make_request, make_caller
) -> None:
    first, second = (make_request("r1", caller=agent(make_caller, pid)) for pid in (4121, 4122))
    pending, later = wait(answers, first, tickets=1), wait(answers, make_request("r2"))
    answers.rebind(pending, subject_key(second))
    pending.caller = second.caller
    living.discard(4121)
    assert answers.find(second) is pending
    assert answers.find(first) is None
    assert answers.all(WaitingRequest) == (pending, later)
    answers.remove(pending)
    assert answers.find(second) is None


@pytest.mark.parametrize("kind", [Pause, Denial, KeptAnswer])
def test_the_oldest_answer_of_a_kind_makes_room_and_no_other_kind_does(
    answers, make_request, make_caller, kind
) -> None:
    most = MOST[kind.kind]
    requests = [make_request("r", caller=make_caller(pid=number)) for number in range(most + 1)]
    waiting = [wait(answers, make_request(f"w{number}")) for number in range(3)]
    for request in requests:
        if kind is KeptAnswer:
            keep(answers, request)
        else:
            deny(answers, request, minutes=5)
    held = answers.all(kind)
    assert len(held) == most
    assert held[-1].id.startswith(requests[-1].caller.key if kind is not KeptAnswer else "")
    assert answers.find(requests[0]) is None
    assert answers.find(requests[-1]) is not None
    assert list(answers.all(WaitingRequest)) == waiting


def test_an_answer_with_the_same_key_replaces_the_older_one(answers, make_request) -> None:
    request = make_request()
    keep(answers, request, calls=3)
    keep(answers, request)
    answers.pick_up(answers.find(request), request)
    assert answers.find(request) is None
