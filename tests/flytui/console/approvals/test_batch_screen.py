"""Batch approve-once: exactly what was on screen, once each, and nothing of high risk."""

from __future__ import annotations

import random

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.approval import Answer, ApprovalRequest
from flycore.model.enums import Choice, RequestState, Risk
from flytui.console.app import FlytuiApp
from flytui.console.approvals.batch_screen import BatchScreen
from flytui.console.screens.main import MainScreen
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.values import request_of

pytestmark = pytest.mark.anyio


def quiet(id: str, **more: object) -> ApprovalRequest:
    """A request that a batch may hold."""
    return request_of(id, **{"risk": Risk.MEDIUM, "letter": "", **more})


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


async def test_exactly_the_requests_that_were_shown_are_approved_once_each() -> None:
    place, clock = world(), HandClock()
    requests = [
        quiet("r0"),
        request_of("r1"),
        quiet("r2", input={"text": "two"}),
        quiet("r3", masked=("/text",)),
    ]
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, *requests)
        place.ask_for(quiet("late"))
        await until(pilot, lambda: len(app.state.waiting) == 5)
        text = drawn(app, "#card")
        assert '{"text":"two"}' in text
        assert "high risk is decided on its own card" in text
        assert "has masked fields" in text
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: "2 requests approved once" in drawn(app, "#card-keys"))
        clock.advance(5)
        await press(pilot, "a", "a", "escape")
        assert isinstance(app.screen, MainScreen)
    once = Answer(choice=Choice.APPROVE_ONCE)
    assert place.decided == [
        (request.id, request.subject_digest, once) for request in (requests[0], requests[2])
    ]


async def test_it_arms_only_when_the_last_line_was_on_screen() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (80, 20)) as (app, pilot):
        screen = await opened(app, pilot, place, *(quiet(f"r{n}") for n in range(5)))
        clock.advance(5)
        await press(pilot, "a", "enter", "space")
        assert place.decided == []
        assert "more pages before a" in drawn(app, "#card-keys")
        await read_through(pilot, screen._card)
        await press(pilot, "a")
        assert place.decided == []
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: len(place.decided) == 5)


@pytest.mark.parametrize("change", ["withdrawn", "another"])
async def test_what_changed_meanwhile_leaves_the_table_which_is_read_anew(change: str) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"), quiet("r1"))
        await read_through(pilot, screen._card)
        clock.advance(5)
        first, second = place.asks_value
        other = msgspec.structs.replace(first, request=quiet("r0", input={"text": "rm"}))
        gone = msgspec.structs.replace(first, state=RequestState.WITHDRAWN)
        place.asks_value = (other if change == "another" else gone, second)
        place.publish("approval.asked")
        await until(pilot, lambda: len(screen._asks) == 1)
        await press(pilot, "a")
        assert place.decided == []
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
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: "0 requests approved once" in drawn(app, "#card-keys"))
        assert drawn(app, "#card-keys").count("the request has timed out") == 2


async def test_without_any_below_high_risk_no_key_approves() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of("r0"))
        clock.advance(5)
        assert "approve" not in drawn(app, "#card-keys")
        await press(pilot, "a", "k", "enter")
        await pilot.pause()
    assert place.decided == []


async def test_hands_on_the_machine_kill_a_batch() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot, place, quiet("r0"))
        await read_through(pilot, screen._card)
        clock.advance(5)
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
            await press(pilot, chance.choice(["a", "a", "enter", "space", "up", "down", "k", "B"]))
    assert place.decided == []
