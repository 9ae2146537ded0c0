"""The catalog as it was last, before the kernel has answered: marked, refused by keys, then confirmed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.catalog import Catalog
from flycore.model.kept_catalog import KeptCatalog, decode_kept, encode_kept
from flytui.console.app import FlytuiApp
from flytui.console.catalog.catalog_rows import rows_of
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.catalog.kept_rows import kept_rows
from flytui.console.kernel_connection import OpenConnection
from flytui.console.screens.base import PageScreen
from flytui.console.screens.main import MainScreen
from flytui.console.state import ConsoleState
from kits.console import HandClock, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.values import NOW, sample_catalog, trust_items

pytestmark = pytest.mark.anyio
ACTING = ("R", "t", "w", "D", "y", "F", "E", "X")
HOSTILE = "\x1b]0;owned\x07\u202e[/nope]\u200b\n\x9b31m"


def kept_of(catalog: Catalog, ago: float = 130.0) -> KeptCatalog:
    found = decode_kept(encode_kept(catalog, "", "", NOW - ago), "", "")
    assert found is not None
    return found


@dataclass
class SlowWorld(World):
    """A kernel that answers everything but the catalog."""

    may: anyio.Event = field(default_factory=anyio.Event)

    async def catalog(self, outline: bool = False) -> Catalog:
        await self.may.wait()
        return await super().catalog(outline)


def slow_world(**more: object) -> SlowWorld:
    place = world(**more)
    return SlowWorld(**{name: getattr(place, name) for name in ("catalog_value", "trust_value")})


@asynccontextmanager
async def kept_console(
    place: World, kept: KeptCatalog | None, size: tuple[int, int] = (120, 30)
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    """A console that has a kept catalog, and whose connection is open."""
    state = ConsoleState(
        connection=OpenConnection(place, place),
        title="~/shop",
        clock=HandClock(),
        now=lambda: NOW,
        kept=kept,
    )
    async with FlytuiApp(state).run_test(size=size) as pilot:
        app = pilot.app
        assert isinstance(app, FlytuiApp)
        await until(pilot, lambda: app.state.status is not None)
        yield app, pilot


async def test_the_rows_are_marked_and_then_confirmed_in_their_places() -> None:
    place = slow_world()
    async with kept_console(place, kept_of(sample_catalog())) as (app, pilot):
        await until(pilot, lambda: "◌ available" in rows_drawn(app, "#catalog-rows"))
        assert "●" not in rows_drawn(app, "#catalog-rows")
        assert "◌ as of 2m ago, not confirmed yet" in drawn(app, "#notes")
        await press(pilot, "down", "down", "down")
        tools = app.screen.query_one(CatalogView).tool_list
        key = tools.kept_row.key if tools.kept_row else ""
        assert key
        order = [row.key for row in tools.shown]
        place.may.set()
        await until(pilot, lambda: app.state.catalog is not None)
        await until(pilot, lambda: "● available" in rows_drawn(app, "#catalog-rows"))
        assert "◌" not in rows_drawn(app, "#catalog-rows") + drawn(app, "#notes")
        assert tools.row is not None
        assert tools.row.key == key
        assert [row.key for row in tools.shown] == order
        assert app.state.kept is None


async def test_every_key_is_refused_with_the_reason() -> None:
    place = slow_world(trust_value=trust_items(1))
    async with kept_console(place, kept_of(sample_catalog())) as (app, pilot):
        await until(pilot, lambda: "◌ available" in rows_drawn(app, "#catalog-rows"))
        for key in ACTING:
            app.state.shared.notice = ""
            await press(pilot, key)
            assert "as of 2m ago, not confirmed yet: nothing can be done" in app.state.shared.notice, key
            assert isinstance(app.screen, MainScreen), key
        assert (place.switched, place.trusted, place.decided, place.started) == ([], [], [], 0)


async def test_the_page_shows_what_is_kept_and_becomes_the_confirmed_one() -> None:
    place = slow_world()
    async with kept_console(place, kept_of(sample_catalog())) as (app, pilot):
        await until(pilot, lambda: "◌ available" in rows_drawn(app, "#catalog-rows"))
        await press(pilot, "enter")
        assert isinstance(app.screen, PageScreen)
        await until(pilot, lambda: "as of 2m ago, not confirmed yet" in drawn(app, "#page"))
        assert "Input" not in drawn(app, "#page")
        place.may.set()
        await until(pilot, lambda: "not confirmed" not in drawn(app, "#page"))
        await until(pilot, lambda: "discovery" in drawn(app, "#page"))


async def test_filter_grouping_and_jump_work_before_the_kernel_has_answered() -> None:
    async with kept_console(slow_world(), kept_of(sample_catalog())) as (app, pilot):
        await until(pilot, lambda: "◌ available" in rows_drawn(app, "#catalog-rows"))
        await press(pilot, "slash", *"file.hash", "enter")
        tools = app.screen.query_one(CatalogView).tool_list
        assert [row.name for row in tools.shown] == ["file.hash"]
        await press(pilot, "escape", "g", "colon", *"filehash", "enter")
        await until(pilot, lambda: tools.kept_row is not None and tools.kept_row.name == "file.hash")


async def test_no_text_of_the_file_is_obeyed() -> None:
    catalog = sample_catalog()
    hostile = tuple(
        msgspec.structs.replace(
            view, capability=msgspec.structs.replace(view.capability, name=f"{HOSTILE}{at}", summary=HOSTILE)
        )
        for at, view in enumerate(catalog.capabilities)
    )
    kept = kept_of(msgspec.structs.replace(catalog, capabilities=hostile))
    async with kept_console(slow_world(), kept) as (app, pilot):
        await until(pilot, lambda: "◌" in rows_drawn(app, "#catalog-rows"))
        for key in ("enter", "escape", "t", "slash", "n", "enter", "colon", "o"):
            await press(pilot, key)
            shown = "".join(
                drawn(app, f"#{bar.id}") for bar in app.screen.query("LineBar, LineView") if bar.id
            )
            assert not set("\x1b\x07\u202e\u200b\x9b") & set(shown)


def test_the_rows_stand_where_the_confirmed_ones_will() -> None:
    catalog = sample_catalog()
    confirmed = rows_of(catalog, frozenset(), {})
    kept = kept_rows(kept_of(catalog), lambda: NOW)
    assert [(row.key, row.part) for row in kept] == [(row.key, row.part) for row in confirmed]
    for one, other in zip(kept, confirmed, strict=True):
        assert one.why.why == other.why.why or other.changed
        assert one.filter_item.name == other.filter_item.name


def clock_of(at: list[float]) -> Callable[[], float]:
    return lambda: at[0]


def test_the_age_grows() -> None:
    at = [NOW]
    row = kept_rows(kept_of(sample_catalog(), ago=5), clock_of(at))[0]
    assert "as of 5s ago" in row.refusal
    at[0] += 3600
    assert "as of 1h ago" in row.refusal
