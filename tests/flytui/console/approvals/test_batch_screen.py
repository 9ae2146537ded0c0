"""Batch approve-once: nothing but what was on screen and ticked, once each, and nothing of high risk."""

from __future__ import annotations

import random

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.approval import Answer, ApprovalRequest
from flycore.model.call import Picture
from flycore.model.enums import Choice, RequestState, Risk
from flytui.console.app import FlytuiApp
from flytui.console.approvals.batch_screen import BatchScreen, exclusion_reason
from flytui.console.screens.main import MainScreen
from flytui.console.screens.text_prompt import TextPromptScreen
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.values import CALLER, request_of

pytestmark = pytest.mark.anyio
OTHER = msgspec.structs.replace(CALLER, program="codex", pid=9)
ONCE = Answer(choice=Choice.APPROVE_ONCE)


def quiet(id: str, **more: object) -> ApprovalRequest:
    """A request that a batch may hold."""
    return request_of(id, **{"risk": Risk.MEDIUM, "letter": "", "effect": f"do {id}", **more})


async def opened(app: FlytuiApp, pilot: Pilot[None], place: World, *requests: ApprovalRequest) -> BatchScreen:
    """The table over the Approvals list, painted."""
    await press(pilot, "2")
    place.ask_for(*requests)
    rows = app.screen.query_one("#ask-rows")
    await until(
        pilot, lambda: len(app.state.waiting) == len(requests) and rows.display and app.focused is rows
    )
    await press(pilot, "B")
    await until(pilot, lambda: isinstance(app.screen, BatchScreen) and app.screen._card.arming.shown_at)
    assert isinstance(app.screen, BatchScreen)
    return app.screen


async def tick(pilot: Pilot[None], screen: BatchScreen, clock: HandClock, *places: int) -> None:
    """Put the cursor on each of these rows, have all of it on screen, and tick it."""
    for at in places:
        await press(pilot, "home", *(["down"] * at))
        await until(pilot, lambda: screen._card.painted)
        for _ in range(len(screen._card.rows)):
            screen._card.note_painted()
            if screen._was_shown(screen._cursor):
                break
            await press(pilot, "pagedown")
            await until(pilot, lambda: screen._card.painted)
        clock.advance(1)
        before = len(screen._ticked)
        await press(pilot, "space")
        assert len(screen._ticked) == before + 1, screen._notice


async def ready(pilot: Pilot[None], screen: BatchScreen, clock: HandClock) -> None:
    """Open the summary, and have it read and armed."""
    await press(pilot, "A")
    assert screen._summary
    await read_through(pilot, screen._card)
    clock.advance(5)


async def test_exactly_what_was_ticked_is_approved_once_each() -> None:
    place, clock = world(), HandClock()
    requests = [quiet("r0"), request_of("r1"), quiet("r2", input={"text": "two"}), quiet("r3")]
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, *requests)
        assert "[x]" not in drawn(app, "#card")
        assert drawn(app, "#card").count("[ ]") == 3
        await tick(pilot, screen, clock, 0, 2)
        assert "│text  two" in drawn(app, "#card")
        place.ask_for(quiet("late"))
        await until(pilot, lambda: len(app.state.waiting) == 5 and "do late" in drawn(app, "#card"))
        await ready(pilot, screen, clock)
        assert "approve 2 requests once" in drawn(app, "#card-title")
        assert "highest risk MEDIUM" in drawn(app, "#card-title")
        assert "do r2" in drawn(app, "#card")
        assert "do r3" not in drawn(app, "#card")
        await press(pilot, "a")
        await until(pilot, lambda: "2 requests approved once" in drawn(app, "#card-keys"))
        clock.advance(5)
        await press(pilot, "a", "A", "enter", "escape")
        assert isinstance(app.screen, MainScreen)
    assert place.decided == [
        (request.id, request.subject_digest, ONCE) for request in (requests[0], requests[2])
    ]


async def test_nothing_is_ticked_at_first_and_nothing_unticked_is_approved() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, *(quiet(f"r{n}") for n in range(5)))
        for key in ("a", "enter", "A", "a", "A", "a"):
            clock.advance(5)
            await press(pilot, key)
        assert not screen._summary
        assert "nothing is ticked" in drawn(app, "#card-keys") or "A approves" in drawn(app, "#card-keys")
        await tick(pilot, screen, clock, 1)
        await press(pilot, "space")
        assert not screen._ticked
        clock.advance(5)
        await press(pilot, "A")
        assert not screen._summary
    assert place.decided == []


async def test_a_row_that_was_not_on_screen_cannot_be_ticked() -> None:
    place, clock = world(), HandClock()
    long = quiet("r0", input={"text": "word " * 300, "to": "mallory"})
    async with console(place, clock, (80, 20)) as (app, pilot):
        screen = await opened(app, pilot, place, long, quiet("r1"))
        clock.advance(5)
        await press(pilot, "space")
        assert not screen._ticked
        assert "not all of it was on screen" in drawn(app, "#card-keys")
        await tick(pilot, screen, clock, 0)


async def test_a_key_that_was_pressed_before_the_table_was_painted_ticks_nothing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"), quiet("r1"))
        await until(pilot, lambda: screen._was_shown(screen._cursor))
        screen._card.cover()
        await press(pilot, "space")
        assert not screen._ticked


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"risk": Risk.HIGH, "letter": "k"}, "high risk"),
        ({"risk": Risk.CRITICAL, "letter": "kkkk"}, "critical risk"),
        ({"masked": ("/text",)}, "masked fields"),
        ({"crop": Picture(width=1, height=1, rgb=b"   ")}, "place on the screen"),
    ],
)
async def test_what_needs_its_own_card_is_listed_and_never_ticked(more: dict[str, object], why: str) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0", **more))
        assert "1 not in a batch" in drawn(app, "#card-title")
        await until(pilot, lambda: screen._was_shown(screen._cursor))
        for key in ("space", "A", "a", "k", "enter"):
            clock.advance(5)
            await press(pilot, key)
        assert why in exclusion_reason(quiet("r0", **more))
        assert why in drawn(app, "#card")
    assert place.decided == []


async def test_the_summary_arms_only_when_its_last_line_was_on_screen() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (80, 20)) as (app, pilot):
        screen = await opened(app, pilot, place, *(quiet(f"r{n}") for n in range(9)))
        await tick(pilot, screen, clock, *range(9))
        await press(pilot, "A")
        clock.advance(5)
        await press(pilot, "a", "A", "enter")
        assert place.decided == []
        await read_through(pilot, screen._card)
        await press(pilot, "a")
        assert place.decided == []
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: len(place.decided) == 9)


@pytest.mark.parametrize("change", ["withdrawn", "another"])
async def test_what_changed_meanwhile_leaves_the_summary_which_is_read_anew(change: str) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"), quiet("r1"))
        await tick(pilot, screen, clock, 0, 1)
        await ready(pilot, screen, clock)
        first, second = place.asks_value
        other = msgspec.structs.replace(first, request=quiet("r0", input={"text": "rm"}))
        gone = msgspec.structs.replace(first, state=RequestState.WITHDRAWN)
        place.asks_value = (other if change == "another" else gone, second)
        place.publish("approval.asked")
        await until(pilot, lambda: len(screen._summary) == 1)
        await press(pilot, "a")
        assert place.decided == []
        assert len(screen._ticked) == 1
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
        await pilot.pause()
    assert [request_id for request_id, _, _ in place.decided] == ["r1"]


async def test_what_did_not_count_is_said_of_each() -> None:
    place, clock = world(refuse="the request has timed out"), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"), quiet("r1"))
        await tick(pilot, screen, clock, 0, 1)
        await ready(pilot, screen, clock)
        await press(pilot, "a")
        await until(pilot, lambda: "0 requests approved once" in drawn(app, "#card-keys"))
        assert drawn(app, "#card-keys").count("the request has timed out") == 2


async def test_all_of_a_caller_are_denied_with_one_reason_and_nobody_else() -> None:
    place, clock = world(), HandClock()
    requests = [quiet("r0"), quiet("o0", caller=OTHER), request_of("r1"), quiet("o1", caller=OTHER)]
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, *requests)
        clock.advance(5)
        await press(pilot, "down", "D")
        await until(pilot, lambda: isinstance(app.screen, TextPromptScreen))
        place.ask_for(quiet("o2", caller=OTHER))
        await until(pilot, lambda: len(app.state.waiting) == 5)
        await press(pilot, *"stop", "enter")
        await until(pilot, lambda: len(place.decided) == 2)
        await until(pilot, lambda: "2 requests denied" in drawn(app, "#card-keys"))
    answer = Answer(choice=Choice.DENY, reason="stop")
    assert [(request_id, given) for request_id, _, given in place.decided] == [("o0", answer), ("o1", answer)]


async def test_leaving_the_reason_denies_nobody() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet("r0"))
        clock.advance(5)
        await press(pilot, "D")
        await until(pilot, lambda: isinstance(app.screen, TextPromptScreen))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
    assert place.decided == []


async def test_hands_on_the_machine_kill_a_batch() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"))
        await tick(pilot, screen, clock, 0)
        await ready(pilot, screen, clock)
        place.hands_on = True
        place.publish("hands.changed", on=True)
        await until(pilot, lambda: "hands on the machine" in drawn(app, "#card-keys"))
        await press(pilot, "a")
        await pilot.pause()
    assert place.decided == []


@pytest.mark.suite
async def test_a_typist_with_short_gaps_approves_no_batch() -> None:
    chance = random.Random(3)
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet("r0"), quiet("r1"))
        clock.advance(5)
        await press(pilot, "end")
        for _ in range(60):
            clock.advance(chance.uniform(0.01, 0.49))
            key = chance.choice(["a", "A", "a", "enter", "space", "up", "down", "k", "B"])
            await press(pilot, key, patience=60)
    assert place.decided == []
