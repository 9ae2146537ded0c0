"""Digits, `:` and `/` lead to the main screen from every screen on which nobody writes."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.catalog.jump_screen import JumpScreen
from flytui.console.forms.form_screen import FormScreen
from flytui.console.screens.main import MainScreen
from flytui.console.user_settings import ConsoleSettings, KeyBindings
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.values import request_of, sample_activity

pytestmark = pytest.mark.anyio
PLACES = {
    "details": ("1", "enter"),
    "why": ("1", "w"),
    "help": ("question_mark",),
    "sources": ("1", "K"),
    "problems": ("1", "p"),
    "call": ("3", "down", "enter"),
    "batch": ("2", "B"),
    "card": ("ctrl+o",),
    "why on a card": ("ctrl+o", "w"),
    "decided": ("ctrl+o", "d"),
}


async def opened(app: FlytuiApp, pilot: Pilot[None], place: World, keys: tuple[str, ...]) -> Screen[object]:
    """A screen over the main one, opened by keys."""
    if not any(ask.state.value == "waiting" for ask in place.asks_value):
        place.ask_for(request_of(f"r{len(place.asks_value)}"))
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
    for key in keys:
        await press(pilot, key)
        if isinstance(app.screen, RequestScreen):
            await read_through(pilot, app.screen._card)
    return app.screen


@pytest.mark.long
async def test_digits_filter_and_jump_lead_away_from_every_page() -> None:
    place, clock = world(activity_value=sample_activity()), HandClock()
    async with console(place, clock, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        for name, keys in PLACES.items():
            assert not isinstance(await opened(app, pilot, place, keys), MainScreen), name
            await press(pilot, "4")
            await until(pilot, lambda: isinstance(app.screen, MainScreen))
            assert " 4 Grants " in drawn(app, "#header"), name
            await opened(app, pilot, place, keys)
            await press(pilot, "colon")
            await until(pilot, lambda: isinstance(app.screen, JumpScreen))
            await press(pilot, "escape")
            await opened(app, pilot, place, keys)
            await press(pilot, "slash", "x")
            assert isinstance(app.screen, MainScreen), name
            assert getattr(app.focused, "value", None) == "x", name
            await press(pilot, "escape", "escape")
    assert {answer.choice.value for _, _, answer in place.decided} <= {"deny"}


async def test_a_form_keeps_its_digits_and_so_does_a_card_that_was_given_one() -> None:
    place, clock = world(), HandClock()
    settings = ConsoleSettings(KeyBindings({"card.hold": "3"}))
    async with console(place, clock, own=settings) as (app, pilot):
        await press(pilot, "1", "t")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        await press(pilot, "4")
        assert isinstance(app.screen, FormScreen)
        await press(pilot, "escape")
        place.ask_for(request_of())
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        clock.advance(5)
        await press(pilot, "3")
        await until(pilot, lambda: place.asks_value[0].held)
        assert isinstance(app.screen, RequestScreen)
    assert place.decided == []
