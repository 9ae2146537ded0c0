"""The palette finds tools, sidecars and calls, and draws their names as plain text."""

from __future__ import annotations

import msgspec
import pytest
from textual import events
from textual.command import CommandList

from flytui.console.activity.call_screen import CallScreen
from flytui.console.app import FlytuiApp
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.catalog.jump_screen import JumpScreen
from flytui.console.command_palette import NamesProvider, Palette
from kits.console import HandClock, console, frame, press, until
from kits.fake_kernel import World, world
from kits.values import request_of, sample_activity, sample_catalog, stability_of, tool_view

pytestmark = pytest.mark.anyio
HOSTILE = "evil.[bold]x[/nope]\x1b]0;owned\x07"


async def hits(app: FlytuiApp, query: str) -> list[str]:
    return [str(hit.text) async for hit in NamesProvider(app.screen).search(query)]


async def test_what_is_written_finds_tools_sidecars_and_calls() -> None:
    async with console(world(activity_value=sample_activity()), HandClock()) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        assert await hits(app, "") == []
        assert await hits(app, "computer.mo") == ["computer.mouse"]
        assert "computer.native" in await hits(app, "sidecar native")
        assert await hits(app, "call web.fetch") == ["c3"]
        assert await hits(app, "no such name") == []


async def test_enter_shows_what_was_found() -> None:
    async with console(world(activity_value=sample_activity()), HandClock(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        tools = app.screen.query_one(CatalogView).tool_list
        await press(pilot, "7", "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"computer.mo")
        await until(pilot, lambda: "tool  computer.mouse" in "".join(frame(app)))
        await pilot.press("enter")
        await until(pilot, lambda: tools.row is not None and tools.row.tool == "computer.mouse")
        app.call_later(app.open_found, "sidecar", "computer.native")
        await until(pilot, lambda: {row.sidecar for row in tools.shown} == {"computer.native"})
        app.call_later(app.open_found, "sidecar", "broken.one")
        await until(pilot, lambda: tools.row is not None and tools.row.name == "broken.one")
        app.call_later(app.open_found, "call", "c2")
        await until(pilot, lambda: isinstance(app.screen, CallScreen))
        app.call_later(app.open_found, "call", "gone")


async def test_a_name_from_outside_is_text_and_a_card_is_not_decided() -> None:
    catalog = sample_catalog()
    tools = (*catalog.capabilities, tool_view(HOSTILE, "mock.echo", stability_of()))
    place = World(catalog_value=msgspec.structs.replace(catalog, capabilities=tools))
    place.ask_for(request_of())
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"evil")
        await until(pilot, lambda: "[bold]x[/nope]" in "".join(frame(app)))
        assert "\x1b" not in "".join(frame(app))
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Palette))
    assert place.decided == []


async def test_two_keys_at_once_that_close_it_close_it_once() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        # What two keys do that reach the palette before it has gone.
        palette.dismiss()
        palette.dismiss()
        await until(pilot, lambda: not isinstance(app.screen, Palette))
        await press(pilot, "colon")
        await until(pilot, lambda: isinstance(app.screen, JumpScreen))


async def test_two_clicks_at_once_beside_the_themes_close_them_once() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        app.action_change_theme()
        await until(pilot, lambda: app.screen.query(CommandList))
        themes = app.screen
        # Below the list: both clicks reach it before it has gone.
        beside = {"x": 1, "y": app.size.height - 1, "delta_x": 0, "delta_y": 0, "button": 1}
        for _ in range(2):
            themes.post_message(
                events.Click(
                    themes, **beside, shift=False, meta=False, ctrl=False, screen_x=1, screen_y=beside["y"]
                )
            )
        await until(pilot, lambda: app.screen is not themes)
        await press(pilot, "colon")
        await until(pilot, lambda: isinstance(app.screen, JumpScreen))
        assert app.defect is None


async def test_a_search_that_begins_when_the_palette_has_gone_does_nothing() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        palette = app.screen
        assert isinstance(palette, Palette)
        await palette.query_one(CommandList).remove()
        search = palette._gather_commands("x")
        await until(pilot, lambda: search.is_finished)
        assert search.error is not None
        palette.dismiss()
        await until(pilot, lambda: not isinstance(app.screen, Palette))


async def test_a_page_key_does_nothing_where_its_list_has_no_room() -> None:
    async with console(world(), HandClock(), (20, 3)) as (app, pilot):
        await press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press("d")
        await until(pilot, lambda: app.screen.query_one(CommandList).option_count)
        await press(pilot, "pageup", "pagedown", "escape")
        await until(pilot, lambda: not isinstance(app.screen, Palette))
