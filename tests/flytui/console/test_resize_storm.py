"""Terminals that change their size without end, under a flood: no frame is lost, and nothing is decided."""

from __future__ import annotations

import msgspec
import pytest
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot

from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import text_of
from kits.console import HandClock, console, frame, press, read_through, settle, still, until
from kits.fake_kernel import World, world
from kits.values import request_of, sample_activity

pytestmark = [pytest.mark.anyio, pytest.mark.suite, pytest.mark.long]

SIZES = ((120, 40), (60, 20), (200, 60), (20, 6), (1, 1))
PLACES = {
    "catalog": ("1",),
    "details": ("1", "enter"),
    "why": ("1", "w"),
    "filter": ("1", "slash", "a"),
    "jump": ("1", "colon"),
    "form": ("1", "t"),
    "approvals": ("2",),
    "activity": ("3",),
    "call": ("3", "down", "enter"),
    "grants": ("4",),
    "audit": ("5",),
    "packages": ("6",),
    "doctor": ("7",),
    "help": ("question_mark",),
}


async def storm(pilot: Pilot[None], place: World) -> None:
    """A size after another, none waited for, events in between; back at the first."""
    for width, height in (*SIZES, SIZES[0]):
        for _ in range(20):
            place.publish("call.progress")
        size = Size(width, height)
        pilot.app.post_message(events.Resize(size, size))
    await settle(pilot)


async def test_every_place_is_drawn_again_as_it_was() -> None:
    place = world(activity_value=sample_activity())
    async with console(place, HandClock(), SIZES[0]) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        for name, keys in PLACES.items():
            await press(pilot, *keys)
            before, screen = await still(pilot, app), app.screen
            await storm(pilot, place)
            await until(pilot, lambda before=before: frame(app) == before)
            assert app.screen is screen, name
            while app.screen is not app.screen_stack[0]:
                await press(pilot, "escape")
            await press(pilot, "escape")


async def test_the_cursor_keeps_its_row_and_stays_in_sight() -> None:
    place = world()
    async with console(place, HandClock(), SIZES[0]) as (app, pilot):
        await press(pilot, "end", "up")
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        at = rows.cursor
        name = text_of(rows._rows[at].draw(200)).split()[2]
        for width, height in ((60, 14), (120, 40), (80, 16)):
            await pilot.resize_terminal(width, height)
            assert rows.cursor == at
            await until(pilot, lambda: any("▌" in line and name in line for line in frame(app)))


async def test_a_card_that_is_drawn_anew_is_cold_again_and_approves_nothing() -> None:
    place, clock = world(), HandClock()
    request = request_of(input={"text": "word " * 200})
    async with console(place, clock, SIZES[0]) as (app, pilot):
        place.ask_for(request)
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.end_seen)
        card = app.screen
        assert isinstance(card, RequestScreen)
        clock.advance(5)
        assert card._arming.blocked_reason(clock()) == ""
        await storm(pilot, place)
        await pilot.resize_terminal(60, 16)
        await until(pilot, lambda: not card._arming.end_seen)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        assert place.decided == []
        await read_through(pilot, card._card)
        await press(pilot, "a")
        assert place.decided == []
        clock.advance(5)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: place.decided)
    assert [digest for _, digest, _ in place.decided] == [request.subject_digest]


async def test_a_flood_of_changed_calls_draws_the_last_one_while_the_size_changes() -> None:
    place = world(activity_value=sample_activity())
    async with console(place, HandClock(), SIZES[0]) as (app, pilot):
        await press(pilot, "3")
        first, *rest = sample_activity()
        for number in range(1_000):
            progress = msgspec.structs.replace(first.progress, progress=number, total=999)
            place.activity_value = (msgspec.structs.replace(first, progress=progress), *rest)
            place.publish("call.progress")
            if number % 50 == 0:
                await pilot.resize_terminal(*SIZES[number // 50 % len(SIZES)])
        await pilot.resize_terminal(*SIZES[0])
        await until(pilot, lambda: any("100%" in line for line in frame(app)))
