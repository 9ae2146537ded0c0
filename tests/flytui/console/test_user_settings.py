"""The key table holds against the bindings: help, key lines and palette, made from it, cannot lie."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import flytui.console
from flycore.model.enums import Risk
from flycore.registry.settings import read_settings
from flytui.console.key_table import ENTRIES
from flytui.console.screens.armed import ArmedLines
from flytui.console.screens.base import PageScreen
from flytui.console.screens.main import MainScreen
from flytui.console.themes import theme_names
from flytui.console.user_settings import ConsoleSettings, KeyBindings, check_keys, check_settings, textual_key
from kits.console import HandClock, app_of, console, drawn, press, until
from kits.fake_kernel import world
from kits.tables import each_row
from kits.values import request_of

pytestmark = pytest.mark.anyio
HANDLED = ("card",)
"""Screens that take every key themselves."""


def all_bindings() -> Iterator[tuple[str, Binding]]:
    """Every binding that a class of the console declares itself."""
    for found in pkgutil.walk_packages(flytui.console.__path__, "flytui.console."):
        for name, kind in vars(importlib.import_module(found.name)).items():
            if inspect.isclass(kind) and issubclass(kind, DOMNode) and kind.__module__ == found.name:
                for binding in vars(kind).get("BINDINGS", ()):
                    assert isinstance(binding, Binding), f"{name}: {binding} has no id"
                    yield f"{found.name}.{name}", binding


def test_every_binding_has_an_id_of_the_table_with_the_tables_keys() -> None:
    bound: dict[str, set[str]] = {}
    for where, binding in all_bindings():
        assert binding.id in ENTRIES, f"{where} {binding}"
        keys = {textual_key(key) for key in ENTRIES[binding.id].default_keys}
        assert set(binding.key.split(",")) <= keys, where
        bound.setdefault(binding.id, set()).update(binding.key.split(","))
    for name, entry in ENTRIES.items():
        if name.partition(".")[0] not in HANDLED:
            assert bound.get(name) == {textual_key(key) for key in entry.default_keys}, name


@pytest.mark.parametrize(
    "view", ["catalog", "approvals", "activity", "grants", "audit", "packages", "doctor"]
)
async def test_the_key_line_of_a_view_names_actions_of_the_table(view: str) -> None:
    async with console(world(), HandClock()) as (app, _):
        assert isinstance(app.screen, MainScreen)
        await app.screen.action_view(view)
        for name, _words in type(app.screen.query_one(f"#{view}")).KEYS:
            assert name in ENTRIES


async def test_key_line_help_and_palette_name_the_key_in_force() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (140, 40)) as (app, pilot):
        app.state.settings = ConsoleSettings(
            KeyBindings(
                {"catalog.probe": "f5", "catalog.test-call": "f6", "app.help": "f1", "app.trust": "ctrl+t"}
            )
        )
        app.set_keymap(app.state.keys.keymap())
        await press(pilot, "R", "question_mark")
        assert not isinstance(app.screen, PageScreen)
        assert app.state.shared.notice == ""
        await press(pilot, "f5")
        assert "prob" in app.state.shared.notice or "asking" in app.state.shared.notice
        assert "F6 test call" in drawn(app, "#keys")
        assert "F1 more" in drawn(app, "#keys")
        help_of = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert help_of["Probe again"].startswith("F5")
        await press(pilot, "f1")
        rows = drawn(app, "#page").splitlines()
        assert rows[0].strip() == "HERE"
        assert rows[1].strip() == "Catalog"
        assert any(row.split()[:1] == ["F5"] for row in rows)
        assert any(row.split()[:1] == ["ctrl+t"] for row in rows)


async def test_the_palette_offers_what_the_keys_do_here_and_no_decision() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):

        def titles() -> set[str]:
            return {command.title for command in app.get_system_commands(app.screen)}

        assert {
            "Filter the catalog",
            "Probe again",
            "Problems",
            "Open the row",
            "Stop everything",
        } <= titles()
        await press(pilot, "4")
        assert {"Revoke", "Undo", "Catalog", "Help"} <= titles()
        assert "Probe again" not in titles()
        place.ask_for(request_of("r1"))
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o")
        assert not {title for title in titles() if "pprove " in title or "eny" in title}
        jump = next(it for it in app.get_system_commands(app.screen) if it.title == "Audit")
        app.call_later(jump.callback)
        await until(pilot, lambda: app.screen is app.screen_stack[0])
        assert app.state.waiting, "leaving the card decided nothing"


@each_row(
    ("own", "refused"),
    [
        ({"catalog.probe": "f5", "card.deny": "D", "app.panic": "f12"}, ""),
        ({"catalog.probe": "s", "catalog.ladder": "R"}, ""),
        ({"catalog.nothing": "f5"}, "catalog.nothing"),
        ({"catalog.probe": "s"}, "catalog.probe"),
        ({"catalog.probe": "ctrl+x"}, "catalog.probe"),
        ({"catalog.probe": "1"}, "catalog.probe"),
        ({"catalog.probe": "k"}, "catalog.probe"),
        ({"catalog.probe": "ctrl+p"}, "catalog.probe"),
        ({"catalog.probe": "ctrl+i"}, "catalog.probe"),
        ({"catalog.probe": "hyper+9"}, "catalog.probe"),
        ({"catalog.probe": " "}, "catalog.probe"),
        ({"app.panic": "P"}, "app.panic"),
        ({"app.panic": "enter"}, "app.panic"),
        ({"form.send": "space"}, "form.send"),
        ({"card.deny": "a"}, "card.deny"),
        *(({"card.approve": key}, "card.approve") for key in ("enter", "space", "escape", "tab", "a Y", "?")),
        *(({"card.approve": key}, "card.approve") for key in ("k", "K", "d", "l", "up", "ctrl+y")),
    ],
)
def test_a_key_that_would_harm_is_refused_and_its_default_holds(own: dict[str, str], refused: str) -> None:
    keys, problems = check_keys(own)
    assert [problem.id for problem in problems] == ([refused] if refused else [])
    for name in own:
        assert (name in keys.overrides) == (name != refused)
    for problem in problems:
        assert problem.why
        assert problem.remedy


def test_a_refused_key_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "config.jsonc").write_text(
        '{\n "theme": "neon",\n "keys": {\n  "card.approve": "enter",\n  "catalog.probe": "f5"\n }\n}\n'
    )
    read = read_settings(tmp_path)
    own = check_settings(read.settings.keys, read.settings.theme, theme_names(), read.places)
    assert own.theme == ""
    assert own.keys.overrides == {"catalog.probe": "f5"}
    assert [(item.pointer, item.position and item.position.line) for item in own.problems] == [
        ("/keys/card.approve", 4),
        ("/theme", 2),
    ]


async def test_problems_names_what_the_settings_say_wrongly() -> None:
    place = world()
    app = app_of(place)
    app.state.settings = check_settings({"card.approve": "enter"}, "", theme_names(), {})
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.state.catalog is not None)
        await press(pilot, "p")
        assert "keys.card.approve cannot be enter" in drawn(app, "#page")


async def test_a_card_obeys_the_person_s_keys_and_its_rules_hold() -> None:
    place, clock = world(), HandClock()
    app = app_of(place, clock)
    app.state.settings = ConsoleSettings(
        check_keys({"card.approve": "A", "card.deny": "f9", "app.panic": "f12"})[0]
    )
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.state.catalog is not None)
        place.ask_for(request_of("r1", risk=Risk.MEDIUM), request_of("r2", risk=Risk.MEDIUM))
        await until(pilot, lambda: len(app.state.waiting) == 2)
        await press(pilot, "ctrl+o")
        assert "A approve once" in drawn(app, "#card-keys")
        await press(pilot, "A")
        assert place.decided == [], "not armed yet"
        clock.advance(2)
        await press(pilot, "a", "d")
        clock.advance(2)
        await press(pilot, "f12")
        assert "F12 again within a second" in drawn(app, "#card-keys")
        clock.advance(2)
        assert place.decided == [], "the defaults have no action any more"
        await press(pilot, "A")
        await until(pilot, lambda: len(place.decided) == 1)
        await until(pilot, lambda: "sent to the program" in drawn(app, "#card-keys"))
        await press(pilot, "n")
        await until(pilot, lambda: "F9 deny" in drawn(app, "#card-keys"))
        await until(pilot, lambda: app.screen.query_one(ArmedLines).arming.shown_at is not None)
        clock.advance(2)
        await press(pilot, "f9")
        await until(pilot, lambda: len(place.decided) == 2)
        assert not place.stopped
