"""The key table holds against the bindings: help, key lines and palette, made from it, cannot lie."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import flytui.console
from consolekit import HandClock, console, drawn, press, request_of, until, world
from flytui.console.keymap import Keys, bound_key
from flytui.console.keytable import ENTRIES
from flytui.console.pages import PageScreen
from flytui.console.palette import palette_commands

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
        keys = {bound_key(key) for key in ENTRIES[binding.id].defaults}
        assert set(binding.key.split(",")) <= keys, where
        bound.setdefault(binding.id, set()).update(binding.key.split(","))
    for name, entry in ENTRIES.items():
        if name.partition(".")[0] not in HANDLED:
            assert bound.get(name) == {bound_key(key) for key in entry.defaults}, name


@pytest.mark.parametrize("view", ["catalog", "approvals", "activity", "grants", "audit"])
async def test_the_key_line_of_a_view_names_actions_of_the_table(view: str) -> None:
    async with console(world(), HandClock()) as (app, _):
        for name, _words in type(app.screen.query_one(f"#{view}")).KEYS:  # type: ignore[attr-defined] # of every view
            assert name in ENTRIES


async def test_key_line_help_and_palette_name_the_key_in_force() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (140, 40)) as (app, pilot):
        app.desk.keys = Keys({"catalog.probe": "f5", "app.help": "f1", "app.trust": "ctrl+t"})
        app.set_keymap(app.desk.keys.keymap())
        await press(pilot, "R", "question_mark")
        assert not isinstance(app.screen, PageScreen)
        assert app.desk.notice == ""
        await press(pilot, "f5")
        assert "prob" in app.desk.notice or "asking" in app.desk.notice
        assert "F5 probe again" in drawn(app, "#keys")
        assert "F1 help" in drawn(app, "#keys")
        help_of = {command.title: command.help for command in palette_commands(app, app.screen, app.bell)}
        assert help_of["Probe again"].startswith("F5")
        await press(pilot, "f1")
        rows = drawn(app, "#page").splitlines()
        assert rows[0].strip() == "Catalog · here"
        assert any(row.split()[:1] == ["F5"] for row in rows)
        assert any(row.split()[:1] == ["ctrl+t"] for row in rows)


async def test_the_palette_offers_what_the_keys_do_here_and_no_decision() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):

        def titles() -> set[str]:
            return {command.title for command in palette_commands(app, app.screen, app.bell)}

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
        await until(pilot, lambda: app.desk.waiting)
        await press(pilot, "ctrl+o")
        assert not {title for title in titles() if "pprove " in title or "eny" in title}
        jump = next(it for it in palette_commands(app, app.screen, app.bell) if it.title == "Audit")
        jump.callback()
        assert app.screen is app.screen_stack[0]
        assert app.desk.waiting, "leaving the card decided nothing"
