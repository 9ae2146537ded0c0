"""The queue: one answer counts, and every other way out is a refusal."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import msgspec
import pytest

from flycore.approval.desktop_control import AFTER_SECONDS, DesktopControl, controls_desktop
from flycore.approval.earlier_answers import PAUSE_SECONDS
from flycore.approval.queue import ApprovalQueue
from flycore.approval.requests import (
    QueueLimits,
    check_request,
    choices,
    new_confirmation_code,
)
from flycore.model.approval import LETTERS, Answer, LeaseTerms, QueueFull
from flycore.model.enums import Choice, Code, RequestState, Risk, SealKind
from flycore.model.json import MASK
from flycore.model.program import Seal, SealedDelegate

PASSES = 20
"""More passes of the event loop than any settling here takes."""
APPROVE = Answer(choice=Choice.APPROVE_ONCE)
DENY = Answer(choice=Choice.DENY, reason="not now")
LEASE = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=3))


class Desk:
    """A queue with what it tells, and the asks that callers got back."""

    def __init__(self, clock, limits: QueueLimits) -> None:
        self.events = []
        self.clock = clock
        self.hands = DesktopControl(clock, self.events.append)
        self.queue = ApprovalQueue(clock, self.events.append, limits, self.hands)
        self.answers = {}
        self.scopes = {}
        self.group = None

    async def put(self, *requests) -> None:
        for request in requests:
            self.scopes[request.id] = anyio.CancelScope()
            self.group.start_soon(self._ask, request)
            await self.settle()

    async def _ask(self, request) -> None:
        with self.scopes[request.id]:
            self.answers[request.id] = await self.queue.ask(request)

    async def settle(self) -> None:
        """Let every task that can run do so until it waits: each pass of the loop is one step of each."""
        for _ in range(PASSES):
            await anyio.lowlevel.checkpoint()

    def told(self) -> list[str]:
        return [event.type for event in self.events]


@asynccontextmanager
async def desk_at(clock, limits=None):
    desk = Desk(clock, limits or QueueLimits())
    async with anyio.create_task_group() as group:
        desk.group = group
        group.start_soon(desk.queue.run)
        yield desk
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_approved_once_is_redeemed_once(clock, make_request) -> None:
    request = make_request()
    async with desk_at(clock) as desk:
        await desk.put(request)
        waiting = desk.queue.asks()[0]
        assert waiting.state is RequestState.WAITING
        assert waiting.request.letter in LETTERS
        assert waiting.request.expires_at - waiting.request.asked_at == 600
        assert desk.queue.decide(request.id, request.subject_digest, APPROVE).accepted
        await desk.settle()
        assert desk.answers["r1"].state is RequestState.APPROVED
        assert desk.answers["r1"].code is None
        assert desk.queue.grants.redeem("r1", request.subject_digest).accepted
        assert not desk.queue.grants.redeem("r1", request.subject_digest).accepted
        assert desk.told() == ["approval.asked", "approval.decided", "confirm.answered"]


@pytest.mark.anyio
async def test_a_denial_reaches_the_caller_with_its_reason(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        request = make_request()
        await desk.put(request)
        assert desk.queue.decide("r1", request.subject_digest, DENY).accepted
        await desk.settle()
        ask = desk.answers["r1"]
        assert (ask.state, ask.code, ask.answer.reason) == (RequestState.DENIED, Code.DENIED, "not now")
        assert not desk.queue.grants.redeem("r1", request.subject_digest).accepted


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("request_id", "digest", "answer"),
    [
        ("r2", None, APPROVE),
        ("", None, APPROVE),
        ("call-r1", None, APPROVE),
        ("r1", "", APPROVE),
        ("r1", "0" * 64, APPROVE),
        ("r1", "0" * 64, DENY),
        ("r1", None, Answer(choice="approve")),
        ("r1", None, Answer(choice="always")),
        ("r1", None, Answer(choice=None)),
        ("r1", None, Answer(choice=Choice.LEASE)),
        ("r1", None, Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=6, calls=1))),
        ("r1", None, Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=0))),
        ("r1", None, Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=101))),
    ],
)
async def test_forged_answers_decide_nothing(clock, make_request, request_id, digest, answer) -> None:
    async with desk_at(clock) as desk:
        request = make_request()
        await desk.put(request)
        shown = request.subject_digest if digest is None else digest
        outcome = desk.queue.decide(request_id, shown, answer)
        assert not outcome.accepted
        assert outcome.why_not
        assert desk.queue.asks()[0].state is RequestState.WAITING
        assert desk.told() == ["approval.asked"]
        assert not desk.queue.grants.redeem("r1", request.subject_digest).accepted
        assert desk.queue.leases.active() == ()


@pytest.mark.anyio
@pytest.mark.parametrize("first", [APPROVE, DENY, LEASE])
@pytest.mark.parametrize("second", [APPROVE, DENY, LEASE])
async def test_exactly_one_answer_counts(clock, make_request, first, second) -> None:
    async with desk_at(clock) as desk:
        request = make_request()
        await desk.put(request)
        assert desk.queue.decide("r1", request.subject_digest, first, by="console 1").accepted
        late = desk.queue.decide("r1", request.subject_digest, second, by="console 2")
        assert not late.accepted
        assert "console 1" in late.why_not
        await desk.settle()
        assert desk.answers["r1"].answer == first


@pytest.mark.anyio
async def test_time_runs_out_per_risk_and_is_no_refusal(clock, make_request) -> None:
    limits = QueueLimits(timeouts=((Risk.HIGH, 30.0), (Risk.LOW, 300.0)))
    async with desk_at(clock, limits) as desk:
        high, low = make_request("r1"), make_request("r2", risk=Risk.LOW)
        await desk.put(high, low)
        clock.advance(29.9)
        await desk.settle()
        assert desk.queue.waiting == 2
        clock.advance(0.1)
        late = desk.queue.decide("r1", high.subject_digest, APPROVE)
        assert not late.accepted
        await desk.settle()
        assert (desk.answers["r1"].state, desk.answers["r1"].code) == (
            RequestState.TIMED_OUT,
            Code.APPROVAL_TIMEOUT,
        )
        assert desk.queue.waiting == 1
        assert desk.told()[-1] == "approval.timed-out"


@pytest.mark.anyio
async def test_a_caller_that_goes_away_withdraws(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        request = make_request()
        await desk.put(request)
        desk.scopes["r1"].cancel()
        await desk.settle()
        assert "r1" not in desk.answers
        assert desk.queue.asks()[0].state is RequestState.WITHDRAWN
        assert desk.told()[-1] == "approval.withdrawn"
        assert not desk.queue.decide("r1", request.subject_digest, APPROVE).accepted


@pytest.mark.anyio
async def test_an_answer_to_a_caller_that_goes_away_is_void(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        request = make_request()
        await desk.put(request)
        desk.scopes["r1"].cancel()
        outcome = desk.queue.decide("r1", request.subject_digest, APPROVE)
        await desk.settle()
        assert outcome.accepted
        assert "r1" not in desk.answers
        assert not desk.queue.grants.redeem("r1", request.subject_digest).accepted


@pytest.mark.anyio
async def test_first_in_first_out_and_bounded(clock, make_request, make_caller) -> None:
    limits = QueueLimits(per_caller=2, total=3)
    async with desk_at(clock, limits) as desk:
        first, second, third = (make_caller(name) for name in ("one", "two", "three"))
        await desk.put(*(make_request(f"a{i}", caller=first) for i in range(4)))
        assert [desk.answers[key].code for key in ("a2", "a3")] == [Code.QUEUE_FULL] * 2
        await desk.put(make_request("b", caller=second), make_request("c", caller=third))
        assert desk.answers["c"].code is Code.QUEUE_FULL
        assert desk.answers["c"].state is RequestState.DENIED
        assert [ask.request.id for ask in desk.queue.asks()] == ["a0", "a1", "b"]
        assert not desk.queue.grants.redeem("c", make_request("c", caller=third).subject_digest).accepted


@pytest.mark.anyio
async def test_a_full_queue_says_how_many_wait_and_when_a_place_is_free(
    clock, make_request, make_caller
) -> None:
    limits = QueueLimits(per_caller=2, total=3, timeouts=((Risk.HIGH, 100.0),))
    async with desk_at(clock, limits) as desk:
        await desk.put(make_request("a0"))
        clock.advance(30)
        await desk.put(make_request("a1"), make_request("a2"))
        assert desk.answers["a2"].full == QueueFull(waiting=2, of_caller=True, frees_in=70.0)
        desk.queue.set_paused("a0", True)
        await desk.put(make_request("a3"))
        assert desk.answers["a3"].full == QueueFull(waiting=2, of_caller=True, frees_in=100.0)
        await desk.put(make_request("b", caller=make_caller("two", 7)))
        await desk.put(make_request("c", caller=make_caller("three", 8)))
        assert desk.answers["c"].full == QueueFull(waiting=3, of_caller=False, frees_in=100.0)
        for held in ("a1", "b"):
            desk.queue.set_paused(held, True)
        await desk.put(make_request("d", caller=make_caller("four", 9)))
        assert desk.answers["d"].full == QueueFull(waiting=3, of_caller=False)
        assert desk.queue.turned_away == 4
        assert desk.told().count("approval.turned-away") == 4


@pytest.mark.anyio
async def test_what_was_turned_away_is_counted_anew_after_the_queue_was_empty(clock, make_request) -> None:
    async with desk_at(clock, QueueLimits(per_caller=1)) as desk:
        await desk.put(make_request("1"), make_request("2"))
        desk.queue.decide("1", desk.queue.asks()[0].request.subject_digest, DENY)
        await desk.settle()
        assert (desk.queue.waiting, desk.queue.turned_away) == (0, 1)
        await desk.put(make_request("3"))
        assert desk.queue.turned_away == 0


@pytest.mark.anyio
async def test_a_flood_leaves_room_for_another_caller(clock, make_request, make_caller) -> None:
    async with desk_at(clock) as desk:
        flood = [make_request(f"f{i}") for i in range(200)]
        for request in flood:
            desk.scopes[request.id] = anyio.CancelScope()
            desk.group.start_soon(desk._ask, request)
        await desk.settle()
        await desk.put(make_request("other", caller=make_caller("codex", 9)))
        assert desk.queue.waiting == 6
        assert len(desk.answers) == 195


@pytest.mark.anyio
async def test_three_denials_in_a_row_pause_that_caller(clock, make_request, make_caller) -> None:
    async with desk_at(clock) as desk:

        async def answer(key: str, answer: Answer) -> None:
            request = make_request(key)
            await desk.put(request)
            assert desk.queue.decide(key, request.subject_digest, answer).accepted
            await desk.settle()

        for key, given in (("1", DENY), ("2", DENY), ("3", APPROVE), ("4", DENY), ("5", DENY)):
            await answer(key, given)
        await answer("6", DENY)
        await desk.put(make_request("7"), make_request("8", caller=make_caller("codex", 9)))
        assert desk.answers["7"].code is Code.PAUSED
        assert desk.queue.waiting == 1
        clock.advance(PAUSE_SECONDS)
        await desk.put(make_request("9"))
        assert desk.queue.waiting == 2


@pytest.mark.anyio
async def test_hands_on_the_machine_cannot_approve_but_deny(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        one, two, three = (make_request(key) for key in ("1", "2", "3"))
        await desk.put(one, two, three)
        with desk.hands.call_running():
            for answer in (APPROVE, LEASE):
                assert "hands" in desk.queue.decide("1", one.subject_digest, answer).why_not
            assert desk.queue.decide("2", two.subject_digest, DENY).accepted
        clock.advance(AFTER_SECONDS - 0.01)
        assert not desk.queue.decide("1", one.subject_digest, APPROVE).accepted
        clock.advance(0.02)
        assert desk.queue.decide("1", one.subject_digest, APPROVE).accepted


@pytest.mark.anyio
async def test_hands_are_told_once_each_way(clock) -> None:
    async with desk_at(clock) as desk:
        desk.group.start_soon(desk.hands.run)
        await desk.settle()
        with desk.hands.call_running():
            with desk.hands.call_running():
                await desk.settle()
            clock.advance(5)
            await desk.settle()
            assert desk.hands.active()
        clock.advance(1)
        with desk.hands.call_running():
            await desk.settle()
        clock.advance(1.5)
        await desk.settle()
        assert desk.hands.active()
        clock.advance(0.5)
        await desk.settle()
        assert not desk.hands.active()
        assert [event.payload["on"] for event in desk.events] == [True, False]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("computer.mouse", True), ("computer.window", True), ("computer.use", False), ("computerx", False)],
)
def test_which_tools_use_hands(tool: str, expected: bool) -> None:
    assert controls_desktop(tool) is expected


@pytest.mark.anyio
async def test_the_same_id_twice_is_the_programmer_s_fault(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        await desk.put(make_request())
        with pytest.raises(ValueError, match="r1"):
            await desk.queue.ask(make_request())
        assert desk.queue.waiting == 1


@pytest.mark.anyio
async def test_recent_ones_are_bounded_and_newest_first(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        for number in range(60):
            request = make_request(str(number))
            await desk.put(request)
            desk.queue.decide(str(number), request.subject_digest, APPROVE)
            await desk.settle()
        assert [ask.request.id for ask in desk.queue.asks()] == [str(n) for n in range(59, 9, -1)]


@pytest.mark.parametrize(
    "change",
    [
        {"subject_digest": "0" * 64},
        {"tool": "file.hash"},
        {"input_json": "{}"},
        {"input_json": '{"action": "type","text":"hello"}'},
    ],
)
def test_a_card_that_shows_one_thing_and_approves_another_is_refused(make_request, change) -> None:
    with pytest.raises(ValueError, match="request"):
        check_request(msgspec.structs.replace(make_request(), **change))


def test_masked_input_differs_from_the_subject_s(make_request, make_caller) -> None:
    check_request(make_request(input_json=f'{{"text":"{MASK}"}}'))
    check_request(make_request(input_json='{"text":"\\u2022\\u2022\\u2022"}'))
    with pytest.raises(ValueError, match="caller"):
        check_request(msgspec.structs.replace(make_request(), caller=make_caller("evil", 3)))


@pytest.mark.parametrize("risk", list(Risk))
@pytest.mark.parametrize("leasable", [True, False])
@pytest.mark.parametrize("delegate_leasable", [True, False, None])
def test_leases_are_offered_only_for_what_can_be_held_still(
    make_request, risk, leasable, delegate_leasable
) -> None:
    def seal(leasable: bool) -> Seal:
        return Seal(kind=SealKind.FILE, digest="cd" * 32, program="/srv/x", leasable=leasable)

    delegates = (
        ()
        if delegate_leasable is None
        else (SealedDelegate(name="keyboard", argv=("/x",), seal=seal(delegate_leasable)),)
    )
    request = make_request(risk=risk, seal=seal(leasable), delegates=delegates)
    expected = leasable and delegate_leasable is not False and risk is not Risk.CRITICAL
    assert (Choice.LEASE in choices(request)) is expected
    assert Choice.DENY in choices(request)


@pytest.mark.anyio
async def test_a_lease_that_is_not_offered_is_refused(clock, make_request) -> None:
    async with desk_at(clock) as desk:
        request = make_request(risk=Risk.CRITICAL)
        await desk.put(request)
        assert not desk.queue.decide("r1", request.subject_digest, LEASE).accepted
        assert len(desk.queue.asks()[0].request.letter) == 4


def test_letters_are_drawn_anew_from_keys_the_card_does_not_have() -> None:
    drawn = {new_confirmation_code(Risk.HIGH) for _ in range(2000)}
    assert drawn == set(LETTERS)
    assert {len(new_confirmation_code(Risk.CRITICAL)) for _ in range(10)} == {4}
    assert new_confirmation_code(Risk.LOW) == new_confirmation_code(Risk.MEDIUM) == ""
    assert not set(LETTERS) & set("alderwvhntbup")
