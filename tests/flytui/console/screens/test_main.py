"""Catalog, Activity, trust question and quitting in the running console."""

from __future__ import annotations

import json

import msgspec
import pytest
from textual import events
from textual.widgets import ContentSwitcher, Input, TextArea

from flycore.model.approval import Ask
from flycore.model.enums import RequestState
from flytui.console.app import quit_question
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.screens.armed import ArmedLines
from flytui.console.screens.base import PageScreen, PressAgainScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.widgets.virtual_list import VirtualList
from kits.console import HandClock, app_of, console, drawn, press, read_through, rows_drawn, until
from kits.fake_kernel import World, world
from kits.values import (
    lease,
    request_of,
    sample_activity,
    sample_catalog,
    stability_of,
    status_of,
    tool_view,
    trust_items,
)

pytestmark = pytest.mark.anyio


async def test_every_state_is_listed_with_its_word_and_its_way_out() -> None:
    async with console(world(), HandClock(), (220, 30)) as (app, pilot):
        await press(pilot, "s")
        text = rows_drawn(app, "#catalog-rows")
    for words in (
        "● available",
        "◐ degraded",
        "○ unavailable",
        "⊘ disabled",
        "(broken.one)",
        "→ write a number of milliseconds at tools/external.tools.jsonc:52:7",
        "→ install xdotool",
        "→ add a sidecar that offers browser.open",
    ):
        assert words in text


async def test_the_ladder_stands_beside_and_says_what_was_not_checked() -> None:
    async with console(world(), HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "down", "s")
        ladder = drawn(app, "#ladder")
        assert "computer.keyboard  ○ unavailable" in ladder
        assert ladder.index("discovery") < ladder.index("path") < ladder.index("effective")
        assert ladder.count("· not checked") == 5
        assert "→ install xdotool" in ladder
        await pilot.resize_terminal(80, 24)
        assert not app.screen.query_one("#ladder").display
        await press(pilot, "enter")
        assert isinstance(app.screen, PageScreen)
        assert "discovery" in drawn(app, "#page")
        assert "not checked" in drawn(app, "#page")


async def test_the_filter_wants_every_word_and_escape_clears_it() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        full = rows.row_count
        await press(pilot, "slash", *"native avail", "enter")
        assert [row.tool for row in app.screen.query_one(CatalogView).tool_list.shown] == [
            "computer.keyboard",
            "computer.mouse",
            "screen.screenshot",
        ]
        await press(pilot, "escape")
        assert rows.row_count == full
        await press(pilot, "slash", *"zzz", "enter")
        assert "Nothing matches" in drawn(app, "#catalog-empty")


async def test_the_cursor_keeps_its_tool_when_rows_change() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "down", "down")
        tool = view.row.tool if view.row else ""
        more = tool_view("aaa.first", "utility.local", stability_of())
        before = sample_catalog()
        place.catalog_value = msgspec.structs.replace(before, capabilities=(more, *before.capabilities))
        place.publish("catalog.changed")
        await until(pilot, lambda: "aaa.first" in [row.tool for row in view._rows])
        assert view.row is not None
        assert view.row.tool == tool


async def test_problems_and_probe_and_copy() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        assert "1 problem in tools/external.tools.jsonc" in drawn(app, "#notes")
        await press(pilot, "p")
        assert "tools/external.tools.jsonc:52:7" in drawn(app, "#page")
        await press(pilot, "escape", "down", "R")
        await until(pilot, lambda: place.probed == ["computer.native"])
        await press(pilot, "y")
        assert json.loads(app.clipboard)["capability"]["name"] == "computer.keyboard"


async def test_no_registry_teaches_what_to_paste() -> None:
    known = msgspec.structs.replace(sample_catalog(), sidecars=(), diagnostics=())
    place = World(catalog_value=known)
    async with console(place, HandClock()) as (app, pilot):
        assert '{"schemaVersion": 2, "sidecars"' in drawn(app, "#notes")
        assert '"tools": ["file.hash"]' in drawn(app, "#notes")
        assert app.screen.query_one(CatalogView).row is not None
        await press(pilot, "slash", *"file")
        assert "schemaVersion" not in drawn(app, "#notes")


async def test_ten_thousand_tools_draw_only_what_is_on_screen() -> None:
    well = stability_of()
    tools = tuple(tool_view(f"family{n % 90:02}.tool{n:05}", "utility.local", well) for n in range(10_000))
    place = World(catalog_value=msgspec.structs.replace(sample_catalog(), capabilities=tools))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        assert rows.row_count > 10_000
        await press(pilot, "end", "pageup", "home", "slash", *"tool09999", "enter")
        assert [row.tool for row in app.screen.query_one(CatalogView).tool_list.shown] == [
            "family09.tool09999"
        ]


async def test_activity_shows_progress_and_details_and_cancels_after_asking() -> None:
    place = world(activity_value=sample_activity())
    async with console(place, HandClock(), (120, 30)) as (app, pilot):
        await press(pilot, "3")
        text = rows_drawn(app, "#call-rows")
        assert "▶ running" in text
        assert "vision.ocr  " in text
        assert "62%  0:43 left" in text
        assert "crashed: ended by signal 11" in text
        await press(pilot, "k", "x")
        assert place.cancelled == []
        await press(pilot, "k")
        assert isinstance(app.screen, PressAgainScreen)
        await press(pilot, "k")
        await until(pilot, lambda: place.cancelled == ["c1"])
        await press(pilot, "down", "k")
        assert "has ended already" in drawn(app, "#alert")
        await press(pilot, "end", "enter")
        page = drawn(app, "#page")
        for words in ("signal 11", "→ look at stderr", "segmentation fault", '"path": "README.md"', "310ms"):
            assert words in page


async def test_the_trust_question_arms_like_a_card_and_trusts_what_was_shown() -> None:
    place, clock = world(trust_value=trust_items(3)), HandClock()
    async with console(place, clock) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        await press(pilot, "a", "enter")
        assert place.trusted == []
        await read_through(pilot, app.screen.query_one(ArmedLines))
        clock.advance(3)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
    assert place.trusted == [tuple((item.sidecar, item.digest) for item in trust_items(3))]


async def test_untrusted_entries_stay_untrusted_after_escape_and_t_asks_again() -> None:
    place, clock = world(trust_value=trust_items(60)), HandClock()
    async with console(place, clock, (60, 20)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        clock.advance(3)
        await press(pilot, "escape")
        assert "60 entries wait for trust" in drawn(app, "#alert")
        await press(pilot, "T")
        assert isinstance(app.screen, TrustScreen)
        await until(pilot, lambda: app.screen.query_one(ArmedLines).arming.shown_at is not None)
        clock.advance(3)
        await press(pilot, "a")
        await pilot.pause()
        assert place.trusted == []
        await press(pilot, "end")
        await until(pilot, lambda: app.screen.query_one(ArmedLines).arming.end_seen)
        clock.advance(3)
        place.trust_value = trust_items(61)
        place.publish("trust.changed")
        await until(pilot, lambda: "61 entries" in drawn(app, "#card-title"))
        await press(pilot, "a")
        await pilot.pause()
    assert place.trusted == []


async def test_quitting_asks_while_requests_wait_and_ctrl_c_ends_nothing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "down", "ctrl+c")
        place.ask_for(request_of())
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+q")
        assert isinstance(app.screen, PressAgainScreen)
        await press(pilot, "enter")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "q", "q")
    assert place.asks_value[0].answer is None
    assert app.return_code == 0


@pytest.mark.parametrize(
    ("agents", "leases", "waits", "words"),
    [
        (2, 0, False, "2 agents are connected: disconnected."),
        (0, 1, False, "1 lease runs: ended"),
        (0, 0, True, "1 request waits: refused"),
        (0, 0, False, ""),
    ],
)
def test_quitting_asks_for_agents_leases_and_requests_and_says_what_it_does(
    agents: int, leases: int, waits: bool, words: str
) -> None:
    state = app_of(world()).state
    state.status = msgspec.structs.replace(status_of(), agents=agents)
    state.leases = tuple(lease("file.hash") for _ in range(leases))
    if waits:
        state.asks = (Ask(request=request_of(), state=RequestState.WAITING),)
    asked = quit_question([state])
    assert words in "\n".join(asked)
    assert bool(asked) is bool(words)
    state.leases = (lease("file.hash", seconds=-1),)
    assert quit_question([state]) == asked or leases


async def test_q_goes_back_on_a_page_and_asks_on_the_main_screen() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await press(pilot, "enter")
        assert isinstance(app.screen, PageScreen)
        await press(pilot, "q")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "q")
        assert isinstance(app.screen, PressAgainScreen)
        await press(pilot, "x")
        assert isinstance(app.screen, MainScreen)


async def test_ctrl_z_suspends_from_every_screen_but_a_text_of_several_lines() -> None:
    place, stops = world(), list[str]()
    async with console(place, HandClock(), (100, 30)) as (app, pilot):

        def stop() -> str:
            stops.append(type(app.screen).__name__)
            return ""

        await press(pilot, "ctrl+z")
        assert "not suspended" in drawn(app, "#alert")
        app.state.stop_job = stop
        await press(pilot, "ctrl+z", "slash", "ctrl+z", "escape", "enter", "ctrl+z")
        assert stops == ["MainScreen", "MainScreen", "PageScreen"]
        area = TextArea("words")
        await app.screen.mount(area)
        app.screen.set_focus(area)
        await press(pilot, "ctrl+z")
        assert len(stops) == 3


@pytest.mark.parametrize("size", [(20, 6), (30, 10), (60, 20), (300, 80)])
async def test_no_size_breaks_a_screen(size: tuple[int, int]) -> None:
    place = world(activity_value=sample_activity(), trust_value=trust_items(2))
    async with console(place, HandClock(), size) as (app, pilot):
        await press(pilot, "escape", "enter", "escape", "p", "escape", "2", "3", "enter", "escape", "1")
        await press(pilot, "question_mark", "end", "escape", "T", "escape")
        await pilot.resize_terminal(100, 30)
        assert isinstance(app.screen, MainScreen)


async def test_colour_is_never_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(world())
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.state.catalog is not None)
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
    for strip in strips:
        for segment in strip:
            colour = segment.style.color if segment.style else None
            if colour is not None and colour.triplet is not None:
                assert colour.triplet.red == colour.triplet.green == colour.triplet.blue


async def test_a_filter_puts_the_cursor_on_its_first_row_and_clearing_puts_it_back() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "end")
        before = view.row
        assert before is not None
        await press(pilot, "slash", *"computer")
        assert "Enter keep the filter" in drawn(app, "#keys")
        assert "quit" not in drawn(app, "#keys")
        assert view.row is view.tool_list.shown[0]
        await press(pilot, *"zzz", "escape")
        assert view.row is before
        assert "q quit" in drawn(app, "#keys")


async def test_letters_typed_at_once_after_the_slash_are_the_filter() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        for letter in "/quit/ka":
            app.post_message(events.Key({"/": "slash"}.get(letter, letter), letter))
        box = app.screen.query_one("#filter", Input)
        await until(pilot, lambda: box.value == "quit/ka")
        assert isinstance(app.screen, MainScreen)


async def test_without_room_beside_the_list_the_ladder_opens_over_it() -> None:
    async with console(world(), HandClock(), (80, 24)) as (app, pilot):
        await press(pilot, "s")
        assert isinstance(app.screen, PageScreen)
        assert "effective" in drawn(app, "#page")


async def test_no_key_is_dead() -> None:
    """A key that has nothing to do says so."""
    place = world(activity_value=(), trust_value=())
    async with console(place, HandClock()) as (app, pilot):
        for key, said in (
            ("T", "nothing waits for trust"),
            ("ctrl+o", "no request waits"),
            ("2", ""),
            ("exclamation_mark", "flytui demo"),
        ):
            await press(pilot, key)
            assert said in drawn(app, "#alert")


async def test_a_click_on_a_screens_name_shows_it() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        for name in ("Activity", "Approvals", "Catalog"):
            tabs = drawn(app, "#header").splitlines()[1]
            await pilot.click(offset=(tabs.index(name), 1))
            assert app.screen.query_one(ContentSwitcher).current == name.lower()
        await pilot.click(offset=(0, 1))
        assert app.screen.query_one(ContentSwitcher).current == "catalog"


async def test_what_cannot_be_asked_is_not_said_to_be() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "slash", *"disabled", "enter", "R")
        assert "not probed: " in drawn(app, "#alert")
    assert place.probed == []
