"""The widgets that draw lines: their tones in the colours of the theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from rich.style import Style
from textual.app import App
from textual.color import Color

from flytui.console.colour_depth import ColourDepth
from flytui.console.style import TONES, dim_style, ground_style, tone_style
from flytui.console.themes import THEME
from flytui.console.user_settings import ConsoleSettings
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import Tone
from kits.console import HandClock, console, settle
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio
VARIABLES: Mapping[str, str] = App().theme_variables


def test_each_tone_has_the_colours_of_the_theme() -> None:
    assert set(TONES) == set(Tone)
    assert tone_style(Tone.PLAIN, VARIABLES) == Style()
    assert tone_style(Tone.STRONG, VARIABLES) == Style(bold=True)
    warning = Color.parse(VARIABLES["warning"]).rich_color
    assert tone_style(Tone.BAD, VARIABLES) == Style(color=warning, bold=True)
    ground, error = (Color.parse(VARIABLES[name]).rich_color for name in ("background", "error"))
    assert tone_style(Tone.ALARM, VARIABLES) == Style(color=ground, bgcolor=error, bold=True)


def test_a_dim_text_is_between_the_text_and_its_ground_as_the_theme_says() -> None:
    black = Color.parse("#000000")
    for dim, shade in (("#ffffff 62%", 158), ("#9e9e9e", 158)):
        expected = Style.from_color(Color(shade, shade, shade).rich_color)
        assert dim_style(black, {**VARIABLES, "dim": dim}) == expected


def test_a_colour_that_lets_everything_through_is_none() -> None:
    variables = {**VARIABLES, "panel": "transparent"}
    assert tone_style(Tone.QUOTE, variables) == ground_style("panel", variables) == Style()


async def test_another_theme_draws_the_same_lines_in_its_colours() -> None:
    # Only that colour differs: nothing else makes Textual draw the lines again.
    other = replace(THEME, name="other", success="#ff00ff")
    own = msgspec.structs.replace(ConsoleSettings(), colours=ColourDepth.TRUE.value)
    async with console(world(), HandClock(), (80, 24), None, own) as (app, pilot):
        app.register_theme(other)
        for theme in (other, THEME):
            app.theme = theme.name
            await settle(pilot)
            await pilot.pause()
            drawn = [segment.style for strip in app.screen._compositor.render_strips() for segment in strip]
            colours = {style.color for style in drawn if style is not None}
            mine, theirs = (
                Color.parse(one.success or "").rich_color
                for one in (theme, THEME if theme is other else other)
            )
            assert mine in colours
            assert theirs not in colours


async def test_the_row_of_the_cursor_has_a_ground_of_its_own_with_and_without_the_focus() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        for focused, name in ((True, "panel"), (False, "surface")):
            app.screen.set_focus(rows if focused else None)
            await settle(pilot)
            line = rows.render_line(rows.cursor - rows.scroll_offset.y)
            ground = Color.parse(app.theme_variables[name]).rich_color
            assert {segment.style.bgcolor for segment in line if segment.style is not None} == {ground}
