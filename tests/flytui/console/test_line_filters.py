"""Colours: ours can be read in dark and light, and with NO_COLOR there are none."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from flytui.console.themes import LIGHT, THEME
from flytui.console.widgets.lines import ThemedWidget
from kits.console import HandClock, console, until
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio
LEAST = 4.5
"""WCAG AA for text."""


def luminance(color: Color) -> float:
    """WCAG's relative luminance, 0 to 1."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Color, other: Color) -> float:
    """WCAG's contrast, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [THEME, LIGHT], ids=lambda theme: theme.name)
def test_every_tone_can_be_read_on_every_ground(theme: Theme) -> None:
    grounds = [Color.parse(name) for name in (theme.background, theme.surface, theme.panel) if name]
    plain = Color.parse(theme.foreground or "")
    for ground in grounds:
        dim = ground.blend(plain, 0.62)
        tones = [
            Color.parse(name) for name in (theme.success, theme.warning, theme.error, theme.accent) if name
        ]
        for tone in (plain, dim, *tones):
            ratio = contrast(tone, ground)
            assert ratio >= (LEAST if ground is not grounds[-1] else 3.9), (theme.name, tone.hex, ground.hex)
    for loud in (theme.accent, theme.error):
        assert contrast(Color.parse(loud or ""), grounds[0]) >= LEAST


async def test_without_colour_no_line_has_one_and_what_is_loud_is_reversed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console(world(), HandClock(), (100, 30)) as (app, pilot):
        await until(pilot, lambda: app.screen.query(ThemedWidget))
        reversed_texts = []
        for strip in app.screen._compositor.render_strips():  # as the driver is handed them
            for one in app.get_line_filters():
                strip = strip.apply_filter(one, Color.parse("#12161c"))
            for text, style, _ in strip:
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
                if style is not None and style.reverse:
                    reversed_texts.append(text)
        assert any("Catalog" in text for text in reversed_texts)
