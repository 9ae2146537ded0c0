"""The starter registry in the console: what works here, ticks, and the change that one armed key writes."""

from __future__ import annotations

import msgspec
import pytest
from textual.pilot import Pilot

from flytui.console.app import FlytuiApp
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.starter import StarterScreen
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import world
from kits.screens import STARTER, lacking, starter_entry, starter_world, works

pytestmark = pytest.mark.anyio
HOSTILE = "a\u202eb\x1b[2J[/x]"


async def opened(app: FlytuiApp, pilot: Pilot[None]) -> StarterScreen:
    await press(pilot, "i")
    screen = app.screen
    assert isinstance(screen, StarterScreen)
    await until(pilot, lambda: screen._offer is not None)
    return screen


async def shown(app: FlytuiApp, pilot: Pilot[None]) -> ConfirmActionScreen:
    await press(pilot, "enter")
    await until(pilot, lambda: isinstance(app.screen, ConfirmActionScreen))
    screen = app.screen
    assert isinstance(screen, ConfirmActionScreen)
    await until(pilot, lambda: screen._card.arming.shown_at is not None)
    return screen


async def test_what_is_ticked_is_shown_and_written_by_one_armed_key() -> None:
    clock, place = HandClock(), starter_world()
    async with console(place, clock) as (app, pilot):
        assert "Press i" in drawn(app, "#notes")
        await opened(app, pilot)
        rows = rows_drawn(app, "#starter-rows")
        assert "[x] utility.local" in rows
        assert "◐ 1 of 2" in rows
        assert "no search provider is configured" in rows
        await press(pilot, "down")
        assert "$ sudo apt-get install tesseract-ocr" in drawn(app, "#starter-entry")
        await press(pilot, "space")
        assert "[ ] media.local" in rows_drawn(app, "#starter-rows")
        await shown(app, pilot)
        assert '"utility.local"' in drawn(app, "#card")
        assert "media.local" not in drawn(app, "#card")
        await press(pilot, "a", "enter")
        assert place.written == []
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert place.written == [(("utility.local", "web.search"), "digest of utility.local, web.search")]
        assert "is written" in app.state.shared.notice


async def test_a_long_registry_is_written_only_once_seen_to_its_end() -> None:
    clock = HandClock()
    long = starter_entry("one", text="// line\n" * 60)
    place = starter_world(msgspec.structs.replace(STARTER, entries=(long,)))
    async with console(place, clock, size=(60, 20)) as (app, pilot):
        await opened(app, pilot)
        screen = await shown(app, pilot)
        clock.advance(1)
        await press(pilot, "a")
        assert place.started == 0
        await press(pilot, "end")
        await until(pilot, lambda: screen._card.arming.end_seen)
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: place.started == 1)


async def test_an_existing_registry_gets_what_it_lacks_as_a_difference() -> None:
    clock = HandClock()
    entries = (starter_entry("utility.local", works("file.hash"), present=True), *STARTER.entries[1:])
    place = world(starter_value=msgspec.structs.replace(STARTER, exists=True, entries=entries))
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot)
        assert "in the registry already" in rows_drawn(app, "#starter-rows")
        await press(pilot, "space")
        assert "already" in drawn(app, "#starter-titles")
        await shown(app, pilot)
        assert "+    // What it is for." in drawn(app, "#card")
        await press(pilot, "escape")
        await press(pilot, "down", "space", "down", "space", "enter")
        assert isinstance(app.screen, StarterScreen)
        assert "nothing is ticked" in drawn(app, "#starter-titles")
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        assert place.written == []


async def test_a_refusal_is_shown_and_text_from_outside_is_safe() -> None:
    clock = HandClock()
    bad = starter_entry(HOSTILE, lacking(HOSTILE, HOSTILE, HOSTILE, HOSTILE), text=HOSTILE)
    place = starter_world(msgspec.structs.replace(STARTER, file=HOSTILE, entries=(bad,)))
    place.refuse = HOSTILE
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot)
        texts = [
            rows_drawn(app, "#starter-rows"),
            drawn(app, "#starter-entry"),
            drawn(app, "#starter-titles"),
        ]
        await shown(app, pilot)
        texts.append(drawn(app, "#card"))
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: place.started == 1)
        await until(pilot, lambda: "not done" in drawn(app, "#card-keys"))
        texts.append(drawn(app, "#card-keys"))
        assert not any(sign in text for text in texts for sign in ("\u202e", "\x1b"))
