"""Opens the console on a test's `World`, presses keys, waits, and reads the screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from textual import events
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.pilot import Pilot

from flycore.client.audit_reader import AuditReader
from flytui.console.app import FlytuiApp
from flytui.console.kernel_connection import OpenConnection, OpenKernel
from flytui.console.screens.armed import ArmedLines
from flytui.console.state import ConsoleState
from flytui.console.user_settings import ConsoleSettings
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import text_of
from kits.fake_kernel import World
from kits.values import NOW

_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}
_numbers: dict[tuple[tuple[str, str], ...], int] = {}
"""A number for each set of variables: there are hundreds, the same ones for all sheets of an application."""
_latest: tuple[Mapping[str, str], int] = ({}, 0)
"""The variables that came last, and their number."""


def _parse_once(
    sheet: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """Parse a style sheet once for all applications of a test run. They have the same rules and only read
    them."""
    given = (css, read_from, is_default_rules, tie_breaker, scope)
    key = (*given, _number_of(sheet._variables))
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, *given)
    return _parsed[key]


def _number_of(variables: Mapping[str, str]) -> int:
    global _latest
    if _latest[0] is not variables:
        whole = tuple(sorted(variables.items()))
        _latest = variables, _numbers.setdefault(whole, len(_numbers) + 1)
    return _latest[1]


Stylesheet._parse_rules = _parse_once


@dataclass
class HandClock:
    """A clock that a test moves by hand."""

    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.at += seconds


def app_of(
    place: World,
    clock: HandClock | None = None,
    ledger: AuditReader | None = None,
    own: ConsoleSettings | None = None,
) -> FlytuiApp:
    """The application on that world. Its time stands still unless the test moves the clock."""
    desk = ConsoleState(
        connection=OpenConnection(place, place),
        title="~/proj/shop",
        clock=clock or HandClock(),
        now=lambda: NOW,
        audit_reader=ledger,
        settings=own or ConsoleSettings(),
    )
    return FlytuiApp(desk)


def at_once(place: World) -> OpenKernel:
    """A function that connects to that world without delay."""

    @asynccontextmanager
    async def opening(tell: Callable[[str], None]) -> AsyncIterator[OpenConnection]:
        async with place.opened() as at_kernel:
            yield at_kernel

    return opening


@asynccontextmanager
async def console(
    place: World,
    clock: HandClock,
    size: tuple[int, int] = (100, 30),
    ledger: AuditReader | None = None,
    own: ConsoleSettings | None = None,
    *,
    toasts: bool = False,
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    """The console, after it has read its first values."""
    app = app_of(place, clock, ledger, own)
    async with app.run_test(size=size, notifications=toasts) as pilot:
        await until(pilot, lambda: app.state.catalog is not None)
        yield app, pilot


async def settle(pilot: Pilot[None], patience: float = 1.0) -> None:
    """Wait until all posted messages are handled, from the application down to the focus and up again, and
    the result is drawn. A handler that is held up is waited for `patience` seconds."""
    app = pilot.app
    path = [] if app.focused is None else list(app.focused.ancestors_with_self)
    for target in (app, *path, app.screen, app):
        done = anyio.Event()
        if target.call_later(done.set):
            await _come_about(done, patience)
    drawn_again = anyio.Event()
    app.screen.call_after_refresh(drawn_again.set)
    await _come_about(drawn_again, patience)


async def _come_about(done: anyio.Event, patience: float) -> None:
    """Wait until the event is set, unless a handler is held up, as some tests want it: then for that time.

    On a busy machine this process may have run for a few turns of its loop only in that time, so some turns
    are waited for, too.
    """
    with anyio.move_on_after(patience):
        await done.wait()
    for _ in range(100):
        if done.is_set():
            return
        await anyio.sleep(0.001)


async def press(pilot: Pilot[None], *keys: str, patience: float = 1.0) -> None:
    """Press keys, each handled before the next, without Pilot's waits for an idle application. A test that
    moves the clock between keys has `patience` for a busy machine: a key is dated when it is handled, and
    would be that of a later time."""
    for key in keys:
        driver = pilot.app._driver
        assert driver is not None
        event = events.Key(key, key if len(key) == 1 else {"space": " ", "slash": "/", "colon": ":"}.get(key))
        event.set_sender(pilot.app)
        driver.send_message(event)
        await settle(pilot, patience)


async def read_through(pilot: Pilot[None], card: ArmedLines) -> None:
    """Page through the card on screen until all of it that has to be read was on screen."""
    await until(pilot, lambda: card.arming.shown_at is not None)
    await press(pilot, "home")
    for _ in range(len(card.rows) + 2):
        await until(pilot, lambda: card.painted)
        card.note_painted()
        if card.arming.end_seen and not card.arming.pages_left:
            return
        await press(pilot, "pagedown")
    raise AssertionError("the card was never read to its end")


def frame(app: FlytuiApp) -> list[str]:
    """The lines on the screen."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def still(pilot: Pilot[None], app: FlytuiApp) -> list[str]:
    """The lines on the screen once they stay the same: a widget that has no focus may be drawn after the keys
    are handled."""
    seen, same = frame(app), 0
    for _ in range(3000):
        await settle(pilot)
        await pilot.pause(0.01)
        now = frame(app)
        seen, same = now, same + 1 if now == seen else 0
        if same == 5:
            return seen
    raise AssertionError(f"{app.screen!r} is drawn anew without end")


async def until(pilot: Pilot[None], holds: object) -> None:
    """Let the application work until a condition holds and is drawn. A widget that was just shown has no
    width before the next layout."""
    for _ in range(6000):
        if callable(holds) and holds():
            if pilot.app.is_running and pilot.app.screen_stack:
                await settle(pilot)
                await pilot.pause(0)
            return
        # Not `Pilot.pause`, which has every widget handle a message each time.
        await anyio.sleep(0.005)
    app = pilot.app
    raise AssertionError(f"it never came to hold on {app.screen!r}, focus on {app.focused!r}")


def drawn(app: FlytuiApp, name: str) -> str:
    """The text of a bar or of lines on the current screen."""
    widget = app.screen.query_one(name)
    rows = widget._rows if isinstance(widget, (LineBar, LineView)) else ()
    return "\n".join(text_of(row) for row in rows)


def rows_drawn(app: FlytuiApp, name: str) -> str:
    """The text of all rows of a list at its current width."""
    rows = app.screen.query_one(name, VirtualList)
    return "\n".join(text_of(row.draw(rows.size.width - 2)) for row in rows._rows)
