"""Colours at every depth: what the terminal promises, and whether each text can be read on what it is drawn
on, in the console's two themes and in every screen."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from rich._palettes import EIGHT_BIT_PALETTE
from rich.color import Color, ColorType
from rich.segment import Segment
from textual.pilot import Pilot

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import AuditReader
from flycore.model.approval import Lease
from flycore.model.call import Activity
from flycore.model.diagnostics import Check, CheckState
from flycore.model.enums import Risk
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.colour_depth import (
    LEAST_CONTRAST,
    LINUX_CONSOLE,
    TANGO,
    XTERM,
    AnsiPalette,
    ColourDepth,
    Rgb,
    colour_depth,
    contrast,
    luminance,
    readable_text,
    usual_palettes,
)
from flytui.console.screens.trust import TrustScreen
from flytui.console.themes import DARK_NAME, LIGHT_NAME, theme_names, themes
from flytui.console.user_settings import ConsoleSettings
from kits.console import HandClock, console, press, settle, until
from kits.fake_kernel import World, world
from kits.screen_grid import use_variant
from kits.tables import each_row
from kits.values import CALLER, NOW, request_of, sample_activity, trust_items

pytestmark = pytest.mark.anyio


@each_row(
    ("environ", "setting", "depth"),
    [
        ({"TERM": "xterm-256color"}, "", ColourDepth.INDEXED),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "auto", ColourDepth.TRUE),
        ({"TERM": "tmux-256color", "COLORTERM": "24bit"}, "", ColourDepth.TRUE),
        ({"TERM": "xterm-direct"}, "", ColourDepth.TRUE),
        ({"TERM": "xterm-kitty"}, "", ColourDepth.TRUE),
        ({"TERM": "xterm"}, "", ColourDepth.ANSI),
        ({"TERM": "xterm-16color"}, "", ColourDepth.ANSI),
        ({"TERM": "linux"}, "", ColourDepth.ANSI),
        ({"TERM": "screen", "COLORTERM": "yes"}, "", ColourDepth.ANSI),
        ({}, "", ColourDepth.ANSI),
        ({"TERM": "linux"}, "256", ColourDepth.INDEXED),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "16", ColourDepth.ANSI),
        ({"TERM": "linux"}, "24-bit", ColourDepth.TRUE),
    ],
)
def test_the_depth_is_what_the_terminal_says_or_a_setting_forces(
    environ: dict[str, str], setting: str, depth: ColourDepth
) -> None:
    assert colour_depth(environ, setting) is depth


def test_contrast_is_the_one_of_wcag() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((0x77, 0x77, 0x77), (255, 255, 255)) == pytest.approx(4.48, abs=0.005)
    assert contrast((0x76, 0x76, 0x76), (255, 255, 255)) == pytest.approx(4.54, abs=0.005)


def test_text_in_sixteen_colours_can_be_read_on_every_ground() -> None:
    for palettes in ((XTERM, TANGO), (LINUX_CONSOLE,)):
        for ground in (0, 1, 4, 7, 15):
            for text in range(16):
                for bold in (False, True):
                    found, strong = readable_text(text, ground, bold, palettes)
                    for one in palettes:
                        shown = contrast(one.text(found, bold=strong), one.ground(ground))
                        assert shown >= LEAST_CONTRAST, (text, ground, one.name)
    # What can be read stays, and bold goes first where it makes another colour of it.
    assert readable_text(10, 0, True, (XTERM, TANGO)) == (10, True)
    assert readable_text(1, 15, True, (XTERM, TANGO)) == (1, False)
    assert readable_text(1, 15, False, (LINUX_CONSOLE,)) == (0, False)
    assert usual_palettes({"TERM": "linux-16color"}) == (LINUX_CONSOLE,)


@pytest.mark.parametrize("depth", list(ColourDepth))
def test_every_theme_can_be_chosen_at_every_depth_and_names_colours_that_are_there(
    depth: ColourDepth,
) -> None:
    there = {
        ColourDepth.INDEXED: {EIGHT_BIT_PALETTE[number].hex for number in range(16, 256)},
        ColourDepth.ANSI: {EIGHT_BIT_PALETTE[number].hex for number in range(16)},
    }
    found = {theme.name: theme for theme in themes(depth)}
    assert set(found) <= theme_names()
    for theme in found.values() if depth in there else ():
        named = (theme.foreground, theme.background, theme.surface, theme.panel, theme.accent, theme.primary)
        tones = (theme.success, theme.warning, theme.error, theme.secondary, *theme.variables.values())
        assert {*named, *tones} <= there[depth], theme.name


Step = Callable[[FlytuiApp, Pilot[None]], Awaitable[None]]


@dataclass(frozen=True)
class Scene:
    """A screen of the console: the world that it shows, and how to get there."""

    name: str
    place: Callable[[], World]
    show: Step
    again: tuple[str, ...] = ()
    """Keys that show it again in another theme."""


def _keys(*keys: str) -> Step:
    async def show(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await press(pilot, *keys)

    return show


def _card(risk: Risk) -> Step:
    async def show(app: FlytuiApp, pilot: Pilot[None]) -> None:
        assert isinstance(app.state.client, World)
        letter = "k" if risk is Risk.HIGH else ""
        app.state.client.ask_for(request_of("r1", risk=risk, letter=letter), request_of("r2"))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))

    return show


async def _trust(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: isinstance(app.screen, TrustScreen))


async def _approvals(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await _card(Risk.HIGH)(app, pilot)
    await press(pilot, "escape", "2")


async def _call_page(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: bool(app.state.activity))
    await press(pilot, "3", "enter")


def _lease() -> Lease:
    return Lease(
        id="l1",
        caller=CALLER,
        tool="computer.mouse",
        scope_digest="d",
        from_request="r17",
        calls_left=7,
        expires_at=NOW + 250,
        created_at=NOW - 50,
        used=3,
        last_used=NOW - 12,
    )


def _activity() -> tuple[Activity, ...]:
    return sample_activity()


_CHECKS = tuple(
    Check(name=f"a check that is {state.value}", state=state, message="a message", fix="a remedy")
    for state in CheckState
)
SCENES = (
    Scene("catalog", world, _keys("down")),
    Scene("approvals", world, _approvals),
    Scene("activity", lambda: world(activity_value=_activity()), _keys("3")),
    Scene("grants", lambda: world(leases_value=(_lease(),)), _keys("4")),
    Scene("audit", world, _keys("5")),
    Scene("doctor", lambda: world(checks_value=_CHECKS), _keys("7")),
    Scene("card of high risk", world, _card(Risk.HIGH)),
    Scene("trust", lambda: world(trust_value=trust_items(3)), _trust),
    Scene("help", world, _keys("question_mark")),
    Scene("a call", lambda: world(activity_value=_activity()), _call_page),
    Scene("an empty filter", world, _keys("slash")),
    Scene("palette", world, _keys("ctrl+p"), ("escape", "ctrl+p")),
    Scene("stopped", lambda: world(stopped=True, policy_ok=False), _keys("2")),
)


# Each follows one of another depth: a console takes on the palettes of its terminal with the depth.
TERMS = (
    (ColourDepth.TRUE, "xterm-256color"),
    (ColourDepth.ANSI, "xterm"),
    (ColourDepth.INDEXED, "xterm-256color"),
    (ColourDepth.ANSI, "linux"),
)


@dataclass(frozen=True)
class Drawn:
    """A text on the screen and its colours."""

    text: str
    fore: Color
    back: Color
    bold: bool


def _drawn(app: FlytuiApp) -> Iterator[Drawn]:
    """Every text that is sent to the terminal, after all filters. What shows behind a box is not for
    reading."""
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        x = 0
        for segment in strip:
            at, x = x, x + segment.cell_length
            if _is_read(segment) and app.screen.get_widget_at(at, y)[0] is not app.screen:
                style = segment.style
                assert style is not None, segment
                assert style.color is not None, segment
                assert style.bgcolor is not None, segment
                fore, back = style.color, style.bgcolor
                if style.reverse:
                    fore, back = back, fore
                assert not style.dim, segment
                yield Drawn(segment.text, fore, back, bool(style.bold))


def _is_read(segment: Segment) -> bool:
    """Whether there is text in the segment, and not only lines, blocks, blanks and emoji, which have colours
    of their own."""
    return any(
        not sign.isspace() and not 0x2500 <= ord(sign) <= 0x259F and unicodedata.category(sign) != "So"
        for sign in segment.text
        if sign not in "●○◐"
    )


def _contrasts(one: Drawn, depth: ColourDepth, palettes: tuple[AnsiPalette, ...]) -> Iterator[float]:
    fore, back = one.fore, one.back
    if depth is ColourDepth.ANSI:
        assert fore.type is ColorType.STANDARD, one
        assert back.type is ColorType.STANDARD, one
        assert fore.number is not None
        assert back.number is not None
        for palette in palettes:
            yield contrast(palette.text(fore.number, bold=one.bold), palette.ground(back.number))
        return
    kind = ColorType.EIGHT_BIT if depth is ColourDepth.INDEXED else ColorType.TRUECOLOR
    assert fore.type is back.type is kind, one
    yield contrast(_rgb(fore), _rgb(back))


def _is_light(app: FlytuiApp) -> bool:
    """Whether most texts are drawn on a light ground."""
    light = [luminance(one.back.get_truecolor()) > 0.4 for one in _drawn(app)]
    return sum(light) * 2 > len(light)


def _rgb(colour: Color) -> Rgb:
    if colour.number is not None:
        assert colour.number >= 16, "the first 16 are the person's own"
    red, green, blue = colour.get_truecolor()
    return red, green, blue


@asynccontextmanager
async def _shown(
    scene: Scene, own: ConsoleSettings, folder: Path
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    log = AuditLog.open(folder / "audit", folder / "anchors.jsonl", clock=lambda: NOW, monotonic=lambda: 1.0)
    log.append("TOOL_CALLED", {"callId": "c1", "tool": "file.hash", "caller": "claude"})
    log.append("TOOL_EXECUTED", {"callId": "c1", "tool": "file.hash", "status": "failed"})
    reader = AuditReader(folder / "audit", folder / "anchors.jsonl")
    async with console(scene.place(), HandClock(), (100, 36), reader, own) as (app, pilot):
        await scene.show(app, pilot)
        await settle(pilot)
        yield app, pilot
    log.close()


def _unreadable(
    app: FlytuiApp, depth: ColourDepth, palettes: tuple[AnsiPalette, ...]
) -> Iterator[tuple[str, float]]:
    """Texts whose contrast is too small with one of the palettes, and one text at least that is not."""
    texts = list(_drawn(app))
    assert texts, "nothing is drawn"
    for one in texts:
        least = min(_contrasts(one, depth, palettes))
        if least < LEAST_CONTRAST:
            yield f"{one.text!r} in {one.fore} on {one.back}", least


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_each_text_can_be_read_on_what_it_is_drawn_on(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 16 colours with the palettes of xterm, of a light terminal (Tango) and of the Linux console."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", TERMS[0][1])
    own = msgspec.structs.replace(ConsoleSettings(), colours=TERMS[0][0].value)
    faults: dict[str, float] = {}
    async with _shown(scene, own, tmp_path) as (app, pilot):
        for (depth, term), theme in itertools.product(TERMS, (DARK_NAME, LIGHT_NAME)):
            monkeypatch.setenv("TERM", term)
            palettes = (LINUX_CONSOLE,) if term == "linux" else (XTERM, TANGO)
            await use_variant(app, pilot, depth, theme)
            await press(pilot, *scene.again)
            await until(pilot, lambda light=theme == LIGHT_NAME: _is_light(app) is light)
            for words, least in _unreadable(app, depth, palettes):
                faults.setdefault(f"{term}, {depth}, {theme}: {words}", least)
    assert not faults, "\n".join(f"{words}: {least:.2f}" for words, least in faults.items())


async def test_another_theme_of_textual_is_drawn_in_ours_where_there_are_few_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, ours in (("nord", DARK_NAME), ("solarized-light", LIGHT_NAME)):
        own = msgspec.structs.replace(ConsoleSettings(), theme=name, colours="16")
        async with console(world(), HandClock(), (80, 24), None, own) as (app, _):
            assert app.theme == name
            assert app.current_theme.background == (app.get_theme(ours) or app.current_theme).background
            assert {one.fore.type for one in _drawn(app)} == {ColorType.STANDARD}
