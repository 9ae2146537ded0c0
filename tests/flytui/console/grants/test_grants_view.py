"""The Grants screen: everything that stands is listed, counted down, taken away and brought back."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.approval import Lease, StandingRule
from flycore.model.enums import LeaseScope
from flycore.model.question import Block
from flytui.console.screens.base import PageScreen, PressAgainScreen
from flytui.console.state import Topic
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.values import CALLER, NOW

pytestmark = pytest.mark.anyio

HOSTILE = "\x1b[2Jx[/nope]‮​"


def lease(id: str = "l1", **more) -> Lease:
    made = Lease(
        id=id,
        caller=CALLER,
        tool="computer.mouse",
        scope_digest="d",
        from_request="r17",
        calls_left=7,
        expires_at=NOW + 250,
        created_at=NOW - 50,
        group="desktop",
        used=3,
        last_used=NOW - 12,
    )
    return msgspec.structs.replace(made, **more)


def rule(decision: str = "allow", **more) -> StandingRule:
    made = StandingRule(
        where="/home/me/policy.jsonc:7",
        digest="ab" * 32,
        tool="web.search",
        decision=decision,
        because="fine",
        from_request="r9",
        used=4,
        last_used=NOW - 5,
    )
    return msgspec.structs.replace(made, **more)


BLOCK = Block(tool="browser.evaluate", since=NOW - 7200, reason="no scripts")


def full(**more) -> World:
    return world(leases_value=(lease(),), rules_value=(rule(),), blocks_value=(BLOCK,), **more)


async def test_every_kind_is_listed_with_who_use_end_and_origin() -> None:
    async with console(full(), HandClock(), (140, 30)) as (app, pilot):
        await press(pilot, "4")
        text = rows_drawn(app, "#grant-rows")
    for words in (
        "leases",
        "computer.mouse",
        "claude",
        "3 of 10",
        "12s",
        "in 4:10",
        "r17",
        "your rules",
        "allow web.search",
        "every caller",
        "never",
        "r9",
        "blocked",
        "browser.evaluate",
        "no scripts",
        "2h",
    ):
        assert words in text, words


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_a_narrow_terminal_keeps_what_it_ends_and_enter_shows_the_rest(size) -> None:
    async with console(full(), HandClock(), size) as (app, pilot):
        await press(pilot, "4")
        assert "computer.mouse" in rows_drawn(app, "#grant-rows")
        await press(pilot, "enter")
        page = drawn(app, "#page")
    for words in ("claude (pid 4121)", "request r17", "group kept", "in 4:10", "7 calls"):
        assert words in page.replace("\n", " "), words


async def test_nothing_standing_teaches_how_it_comes_about() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await press(pilot, "4", "enter", "d", "z")
        assert "u writes" in " ".join(drawn(app, "#grants-empty").split())
        assert app.state.shared.notice == "nothing was revoked here"


async def test_a_lease_that_is_over_leaves_the_list_by_itself() -> None:
    async with console(full(), HandClock(), (140, 30)) as (app, pilot):
        await press(pilot, "4")
        app.state.now = lambda: NOW + 251
        await until(pilot, lambda: "computer.mouse" not in rows_drawn(app, "#grant-rows"))
        assert "web.search" in rows_drawn(app, "#grant-rows")


async def test_a_lease_and_an_allow_go_with_one_key_and_come_back_with_two() -> None:
    place = full()
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "4", "d")
        await until(pilot, lambda: place.taken_away)
        assert place.taken_away == [("lease", "l1")]
        await press(pilot, "down", "d")
        await until(pilot, lambda: len(place.taken_away) == 2)
        assert place.taken_away[1] == ("rule", "/home/me/policy.jsonc:7", "ab" * 32)
        await press(pilot, "z")
        assert isinstance(app.screen, PressAgainScreen)
        await press(pilot, "enter")
        assert not isinstance(app.screen, PressAgainScreen)
        assert len(place.taken_away) == 2
        await press(pilot, "z", "z")
        await until(pilot, lambda: place.taken_away[-1] == ("undo",))


@pytest.mark.parametrize("what", ["deny", "ask", "block"])
async def test_what_lets_more_through_needs_the_key_again(what: str) -> None:
    place = world(blocks_value=(BLOCK,)) if what == "block" else world(rules_value=(rule(what),))
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "4", "d")
        assert isinstance(app.screen, PressAgainScreen)
        await press(pilot, "escape")
        assert place.taken_away == []
        await press(pilot, "d", "d")
        await until(pilot, lambda: place.taken_away)
        await press(pilot, "z")
        await until(pilot, lambda: place.taken_away[-1] == ("undo",))


async def test_a_refusal_is_told_and_brings_nothing_to_undo() -> None:
    async with console(full(refuse="look again"), HandClock()) as (app, pilot):
        await press(pilot, "4", "down", "d")
        await until(pilot, lambda: "look again" in app.state.shared.notice)
        await press(pilot, "z")
        assert app.state.shared.notice == "nothing was revoked here"


async def test_the_cursor_stays_on_its_row_when_others_come_and_go() -> None:
    place = full()
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "4", "down")
        app.state.leases = (lease(), lease("l2"), lease("l3"))
        app.screen.changed(frozenset((Topic.LEASES,)))
        await press(pilot, "d")
        await until(pilot, lambda: place.taken_away)
        assert place.taken_away[0][0] == "rule"


async def test_hostile_text_is_drawn_as_tokens_everywhere() -> None:
    caller = msgspec.structs.replace(CALLER, program=HOSTILE)
    place = world(
        leases_value=(
            lease(tool=HOSTILE, caller=caller, scope=LeaseScope.HOST, host=HOSTILE, group=HOSTILE),
        ),
        rules_value=(rule(tool=HOSTILE, caller=HOSTILE, because=HOSTILE, note=HOSTILE, where=HOSTILE),),
        blocks_value=(Block(tool=HOSTILE, since=NOW, reason=HOSTILE),),
    )
    async with console(place, HandClock(), (160, 30)) as (app, pilot):
        await press(pilot, "4")
        texts = [rows_drawn(app, "#grant-rows")]
        for _ in range(3):
            await press(pilot, "enter")
            assert isinstance(app.screen, PageScreen)
            texts.append(drawn(app, "#page"))
            await press(pilot, "escape", "down")
    assert all("⟦U+001B⟧" in text for text in texts)
    assert not any(mark in text for text in texts for mark in ("\x1b", "‮", "​"))
