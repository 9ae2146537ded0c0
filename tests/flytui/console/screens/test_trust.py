"""Trust in one screen: a line for each entry, unfolded and left out by keys, all of it read."""

from __future__ import annotations

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.enums import ProgramAuthor
from flycore.model.question import TrustFacts, TrustItem
from flytui.console.app import FlytuiApp
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from kits.console import HandClock, console, drawn, frame, press, read_through, until
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio


def items(count: int, *, lines: int = 3) -> tuple[TrustItem, ...]:
    """Entries of flytui's own, of which number 2 is of the folder."""
    return tuple(
        TrustItem(
            sidecar=f"side{n}",
            digest=f"{n:064x}",
            changed=False,
            lines=tuple(f"fact {n}.{at}" for at in range(lines)),
            facts=TrustFacts(
                author=ProgramAuthor.FOLDER if n == 2 else ProgramAuthor.OWN, tools=(f"side{n}.do",)
            ),
        )
        for n in range(count)
    )


async def opened(app: FlytuiApp, pilot: Pilot[None]) -> TrustScreen:
    await until(pilot, lambda: isinstance(app.screen, TrustScreen))
    screen = app.screen
    assert isinstance(screen, TrustScreen)
    await until(pilot, lambda: screen._card.arming.shown_at is not None)
    return screen


async def test_fourteen_entries_fit_on_80x24_and_are_armed_at_once() -> None:
    place, clock = world(trust_value=items(14)), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        screen = await opened(app, pilot)
        text = "\n".join(frame(app))
        assert all(f"side{n} " in text for n in range(14))
        assert "!this folder" in text.split("side2 ")[1].split("\n")[0]
        assert text.index("side2 ") < text.index("side0 ")
        await until(pilot, lambda: screen._card.arming.end_seen and not screen._card.arming.pages_left)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
    assert place.trusted == [tuple((item.sidecar, item.digest) for item in items(14))]


async def test_what_is_left_out_is_not_trusted() -> None:
    place, clock = world(trust_value=items(3)), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot)
        await read_through(pilot, screen._card)
        await press(pilot, "home", "space")
        assert "2 ticked" in drawn(app, "#card-title")
        assert "a trust 2 " in drawn(app, "#card-keys")
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)
    assert place.trusted == [(("side0", f"{0:064x}"), ("side1", f"{1:064x}"))]


async def test_nothing_ticked_trusts_nothing() -> None:
    place, clock = world(trust_value=items(1)), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot)
        await read_through(pilot, screen._card)
        await press(pilot, "space")
        clock.advance(5)
        await press(pilot, "a")
        assert "nothing is ticked" in drawn(app, "#card-keys")
        await press(pilot, "space")
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)
    assert len(place.trusted) == 1


async def test_an_unfolded_entry_has_to_be_read_and_what_was_read_stays_read() -> None:
    place, clock = world(trust_value=items(6, lines=40)), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        screen = await opened(app, pilot)
        assert "fact 2.0" not in drawn(app, "#card")
        await read_through(pilot, screen._card)
        await press(pilot, "home", "enter")
        assert "fact 2.39" in drawn(app, "#card")
        clock.advance(5)
        await press(pilot, "a")
        assert place.trusted == []
        assert "before a" in drawn(app, "#card-keys")
        await read_through(pilot, screen._card)
        await press(pilot, "end", "space", "space", "home")
        assert not screen._card.arming.pages_left
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)


async def test_more_entries_than_fit_have_to_be_scrolled_through() -> None:
    place, clock = world(trust_value=items(40)), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        screen = await opened(app, pilot)
        clock.advance(5)
        await press(pilot, "end")
        clock.advance(5)
        await press(pilot, "a")
        assert place.trusted == []
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.trusted)


async def test_what_differs_of_a_changed_entry_stands_first_without_a_key() -> None:
    one, two = items(2)
    changed = msgspec.structs.replace(two, changed=True, difference=("- /command: a", "+ /command: b"))
    place, clock = world(trust_value=(one, changed)), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot)
        rows = drawn(app, "#card").split("\n")
        assert "side1" in rows[0]
        assert "±changed" in rows[0]
        assert [row.strip() for row in rows[1:3]] == ["- /command: a", "+ /command: b"]
        await read_through(pilot, screen._card)
        await press(pilot, "home", "enter")
        rows = drawn(app, "#card").split("\n")
        assert [row.strip() for row in rows[1:3]] == ["- /command: a", "+ /command: b"]
        assert "the trusted value runs on meanwhile" in rows[3]


async def test_an_entry_that_changes_while_it_is_read_is_a_new_question() -> None:
    place, clock = world(trust_value=items(3)), HandClock()
    async with console(place, clock) as (app, pilot):
        screen = await opened(app, pilot)
        await read_through(pilot, screen._card)
        await press(pilot, "home", "space")
        clock.advance(5)
        other = msgspec.structs.replace(place.trust_value[0], digest="f" * 64)
        place.trust_value = (other, *place.trust_value[1:])
        place.publish("trust.changed")
        await until(pilot, lambda: screen._items == place.trust_value)
        await press(pilot, "a")
        assert place.trusted == []
        assert [item.sidecar for item in screen._ticked] == ["side0", "side1"]
