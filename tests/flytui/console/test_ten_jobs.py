"""How many keys the everyday jobs take. The table of docs/console.md has the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import Choice, Effective, ReasonCode, Risk
from flycore.model.stability import Reason
from flytui.console.activity.activity_view import ActivityView
from flytui.console.activity.call_screen import CallScreen
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.approvals.terms_screen import LeaseScreen
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.screens.base import PageScreen
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.widgets.virtual_list import VirtualList
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.values import request_of, sample_activity, sample_catalog, stability_of

pytestmark = pytest.mark.anyio
CONSOLE_PAGE = Path(__file__).resolve().parents[3] / "docs" / "console.md"


class Hand:
    """Presses keys and counts them. Text is not counted."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self._pilot = pilot
        self.count = 0

    async def keys(self, *keys: str) -> None:
        self.count += len(keys)
        await press(self._pilot, *keys)

    async def text(self, text: str) -> None:
        await press(self._pilot, *("space" if letter == " " else letter for letter in text))


def documented() -> dict[str, int]:
    """The number of keys of each job in the table of the page."""
    page = CONSOLE_PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z ]+?) \| [^|]+ \| (\d+)", page, re.MULTILINE)
    return {job: int(count) for job, count in rows}


JOBS = documented()


def expect(job: str, hand: Hand) -> None:
    assert hand.count == JOBS[job], job


def unwell(fix: Fix | None) -> World:
    """A world in which no tool is well, that under the cursor among them."""
    catalog = sample_catalog()
    told = Reason(
        code=ReasonCode.TOOL_UNAVAILABLE, dimension="probe", message="no browser", remedy="start one", fix=fix
    )
    state = stability_of(Effective.UNAVAILABLE, reasons=(told,))
    tools = tuple(msgspec.structs.replace(view, stability=state) for view in catalog.capabilities)
    return World(catalog_value=msgspec.structs.replace(catalog, capabilities=tools))


async def with_card(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    """A request of medium risk has opened its card, was read, and its keys are armed."""
    place.ask_for(request_of(risk=Risk.MEDIUM, letter=""))
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    assert isinstance(app.screen, RequestScreen)
    await read_through(pilot, app.screen._card)
    clock.advance(5)


async def test_approve() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (120, 60)) as (app, pilot):
        await with_card(app, pilot, place, clock)
        hand = Hand(pilot)
        await hand.keys("a")
        await until(pilot, lambda: place.decided)
        assert place.decided[0][2].choice is Choice.APPROVE_ONCE
    expect("approve", hand)


async def test_deny_with_a_reason() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (120, 60)) as (app, pilot):
        await with_card(app, pilot, place, clock)
        hand = Hand(pilot)
        await hand.keys("r")
        await hand.text("not now")
        await hand.keys("enter")
        await until(pilot, lambda: place.decided)
        assert place.decided[0][2].reason == "not now"
    expect("deny with a reason", hand)


async def test_why_is_it_unavailable() -> None:
    async with console(unwell(None), HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "5")
        hand = Hand(pilot)
        await hand.keys("1", "w")
        await until(pilot, lambda: isinstance(app.screen, PageScreen) and "no browser" in drawn(app, "#page"))
    expect("why is it unavailable", hand)


async def test_fix_it() -> None:
    fix = Fix(kind=FixKind.ENABLE, words="switch it on")
    place, clock = unwell(fix), HandClock()
    async with console(place, clock, (120, 40)) as (app, pilot):
        hand = Hand(pilot)
        await hand.keys("F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmActionScreen))
        assert isinstance(app.screen, ConfirmActionScreen)
        await read_through(pilot, app.screen._card)
        clock.advance(5)
        await hand.keys("a")
        await until(pilot, lambda: place.switched)
    expect("fix it", hand)


async def test_call_by_hand() -> None:
    place = world()
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "3")
        hand = Hand(pilot)
        await hand.keys("1", "t")
        await until(pilot, lambda: app.focused is not None and "Form" in type(app.screen).__name__)
        await hand.text("README.md")
        await hand.keys("f5")
        await until(pilot, lambda: place.called)
    expect("call a tool by hand", hand)


async def test_last_output() -> None:
    place = world(activity_value=sample_activity()[1:])
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        newest = msgspec.structs.replace(sample_activity()[1], call_id="c9")
        place.activity_value = (newest, *place.activity_value)
        place.publish("call.finished")
        await until(pilot, lambda: len(app.state.activity) == 3)
        hand = Hand(pilot)
        await hand.keys("3", "enter")
        await until(pilot, lambda: isinstance(app.screen, CallScreen))
        assert isinstance(app.screen, CallScreen)
        assert app.screen._call.call_id == "c9"
    expect("see the last output", hand)


async def test_stop_everything() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (_, pilot):
        hand = Hand(pilot)
        await hand.keys("ctrl+x")
        clock.advance(0.5)
        await hand.keys("ctrl+x")
        await until(pilot, lambda: place.stopped)
    expect("stop everything", hand)


async def test_find_a_tool() -> None:
    async with console(world(), HandClock(), (120, 40)) as (app, pilot):
        hand = Hand(pilot)
        await hand.keys("slash")
        await hand.text("keyboard")
        await hand.keys("enter")
        row = app.screen.query_one(CatalogView).row
        assert row is not None
        assert row.tool == "computer.keyboard"
    expect("find a tool", hand)


async def test_what_did_this_agent_do_today() -> None:
    mine, *others = sample_activity()[1:]
    other = msgspec.structs.replace(
        others[0], caller=msgspec.structs.replace(others[0].caller, program="aider", executable="")
    )
    place = world(activity_value=(mine, other))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.state.activity)
        hand = Hand(pilot)
        await hand.keys("3", "slash")
        await hand.text("caller:claude today")
        await hand.keys("enter")
        rows = app.screen.query_one(ActivityView).query_one("#call-rows", VirtualList)
        await until(pilot, lambda: [row.key for row in rows._rows] == [mine.call_id])
    expect("what did this agent do today", hand)


async def test_allow_it_for_some_minutes() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (120, 60)) as (app, pilot):
        await with_card(app, pilot, place, clock)
        hand = Hand(pilot)
        await hand.keys("l")
        assert isinstance(app.screen, LeaseScreen)
        await read_through(pilot, app.screen._card)
        clock.advance(5)
        await hand.keys("a")
        await until(pilot, lambda: place.decided)
        assert place.decided[0][2].choice is Choice.LEASE
    expect("allow it for some minutes", hand)


def test_the_table_has_ten_jobs() -> None:
    assert len(JOBS) == 10
