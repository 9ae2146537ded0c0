"""Kits and sources in the console: listed, shown, and a server imported once it has been read and armed."""

from __future__ import annotations

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.described import Binding, Described, DescribedState, Import, Origin, SourceKind
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flytui.console.app import FlytuiApp
from flytui.console.screens.base import PageScreen
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.sources import SourcesScreen, import_texts
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World
from kits.values import sample_catalog

pytestmark = pytest.mark.anyio
HOSTILE = "a\u202eb\x1b[2J[/x]"
OFFER = Import(
    id="notes",
    entry={"kind": "mcp", "command": "notes", "args": [HOSTILE], "permissions": {"secrets": ["NOTES_TOKEN"]}},
    digest="d1",
    notes=("the value of NOTES_TOKEN is not copied: set NOTES_TOKEN where flytui is started",),
)
FAULT = Diagnostic(
    severity=Severity.ERROR,
    rule="kit-kind",
    message=f"own: there is no kind {HOSTILE}",
    remedy="write one of cli, tui",
    position=Position(file="tools/kits/kits.jsonc", line=4, column=27),
)
DESCRIBED = (
    Described(
        kind=SourceKind.KIT,
        id="own",
        name=HOSTILE,
        source=Origin.PROJECT,
        path="tools/kits/kits.jsonc",
        type="capability",
        bindings=(Binding(name="web.*", known=5, usable=2), Binding(name="nope.x")),
        state=DescribedState.FAULTY,
        reasons=(FAULT,),
    ),
    Described(
        kind=SourceKind.MCP_SERVER,
        id="notes",
        name="notes",
        source=Origin.PROJECT,
        path=".mcp.json",
        type="stdio",
        lines=("runs notes", "variables NOTES_TOKEN"),
        offer=OFFER,
    ),
)


def with_sources(**more: object) -> World:
    """A console whose catalog has these two."""
    catalog = msgspec.structs.replace(sample_catalog(), described=DESCRIBED)
    return World(catalog_value=catalog, **more)  # type: ignore[arg-type]  # a test's own fields


async def opened(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await press(pilot, "K")
    await until(pilot, lambda: isinstance(app.screen, SourcesScreen))


async def test_they_are_listed_and_each_opens_with_all_that_is_known() -> None:
    async with console(with_sources(), HandClock()) as (app, pilot):
        await opened(app, pilot)
        assert "notes" in rows_drawn(app, "#source-rows")
        await press(pilot, "enter")
        assert isinstance(app.screen, PageScreen)
        text = drawn(app, "#page")
        assert "tools/kits/kits.jsonc:4:27" in text
        assert "2 of 5 visible" in text
        assert "no such capability" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        await press(pilot, "escape", "escape")
        assert not isinstance(app.screen, SourcesScreen)


async def test_a_server_is_written_by_an_armed_key_after_all_of_it_was_seen() -> None:
    clock, place = HandClock(), with_sources()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot)
        await press(pilot, "m")
        assert "can be imported" in app.state.shared.notice
        await press(pilot, "down", "m")
        screen = app.screen
        assert isinstance(screen, ConfirmActionScreen)
        await until(pilot, lambda: screen._card.arming.shown_at is not None)
        text = drawn(app, "#card")
        assert "NOTES_TOKEN" in text
        assert "⟦U+202E⟧" in text
        assert "\u202e" not in text
        await press(pilot, "a", "enter")
        assert place.imported == []
        clock.advance(2)
        await press(pilot, "a")
        await until(pilot, lambda: place.imported)
        assert place.imported == [(".mcp.json", "notes", "d1")]
        await until(pilot, lambda: isinstance(app.screen, SourcesScreen))
        assert "notes" in app.state.shared.notice


async def test_a_refusal_stays_on_screen_and_escape_writes_nothing() -> None:
    clock, place = HandClock(), with_sources(refuse="it is not what was shown any more")
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot)
        await press(pilot, "down", "m")
        screen = app.screen
        assert isinstance(screen, ConfirmActionScreen)
        await until(pilot, lambda: screen._card.arming.shown_at is not None)
        clock.advance(2)
        await press(pilot, "a")
        await until(pilot, lambda: "not what was shown" in drawn(app, "#card-keys"))
        await press(pilot, "escape")
        assert isinstance(app.screen, SourcesScreen)
        assert len(place.imported) == 1


def test_every_key_of_the_entry_is_shown() -> None:
    texts = "\n".join(import_texts(DESCRIBED[1], OFFER))
    for word in ('"kind": "mcp"', '"command": "notes"', '"secrets"', "not copied", ".mcp.json"):
        assert word in texts
