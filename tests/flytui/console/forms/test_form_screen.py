"""The test-call form with keys: what is written is what is sent, and only F5 or F6 sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import TextArea

from flycore.model.enums import Phase
from flycore.model.json import JsonObject
from flysafe.text import safe_text
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.forms.call_page import CallPage
from flytui.console.forms.field_widget import FieldWidget
from flytui.console.forms.form_screen import FormScreen
from flytui.console.forms.inputs import ChoiceInput, VisibleInput
from flytui.console.forms.option_list import OptionListScreen
from flytui.console.screens.main import MainScreen
from flytui.console.widgets.lines import LineBar, LineView
from kits.console import HandClock, console, drawn, press, rows_drawn, settle, until
from kits.fake_kernel import World, world
from kits.payloads import PAYLOADS
from kits.values import request_of, sample_activity, sample_catalog, stability_of, tool_view

pytestmark = pytest.mark.anyio

SCHEMA: JsonObject = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "minLength": 2, "description": "what to read"},
        "lines": {"type": "integer", "minimum": 1, "default": 10},
        "mode": {"enum": ["text", "bytes"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "key": {"type": "string", "writeOnly": True},
    },
}


def tool_world(schema: Any, *examples: JsonObject, **more: object) -> World:
    """A world whose only tool has that input schema."""
    view = tool_view("mock.echo", "mock.echo", stability_of())
    capability = msgspec.structs.replace(view.capability, input_schema=schema, examples=examples)
    place = world(**more)
    view = msgspec.structs.replace(view, capability=capability)
    place.catalog_value = msgspec.structs.replace(sample_catalog(), capabilities=(view,), sidecars=())
    return place


@asynccontextmanager
async def form(
    place: World, clock: HandClock | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    """The form of the only tool, opened by its key."""
    async with console(place, clock or HandClock(), size) as (app, pilot):
        await press(pilot, "t")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and app.focused is not None)
        await settle(pilot)
        yield app, pilot


def shown(app: FlytuiApp) -> str:
    """All lines that the screen draws."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def typed(pilot: Pilot[None], text: str) -> None:
    """Letters, one key each."""
    await press(pilot, *("space" if letter == " " else letter for letter in text))


async def test_what_is_written_is_called_with_defaults_and_without_empty_fields() -> None:
    place = tool_world(SCHEMA)
    async with form(place) as (app, pilot):
        assert "path *" in shown(app)
        assert "what to read" in shown(app)
        await press(pilot, "f5")
        assert place.called == []
        assert "is required" in shown(app)
        await typed(pilot, "a")
        await until(pilot, lambda: "shorter than 2" in shown(app))
        await typed(pilot, "b")
        await until(pilot, lambda: "the input fits" in shown(app))
        await press(pilot, "enter")
        assert place.called == []
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called == [("mock.echo", {"path": "ab", "lines": 10})]
        assert isinstance(app.screen, CallPage)


async def test_what_does_not_fit_is_sent_by_a_second_key_alone() -> None:
    place = tool_world(SCHEMA)
    async with form(place) as (app, pilot):
        await typed(pilot, "a")
        await press(pilot, "f5", "f5")
        assert place.called == []
        assert "F6" in drawn(app, "#keys")
        await press(pilot, "f6")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"path": "a", "lines": 10}


async def test_what_is_no_input_is_not_sent_at_all() -> None:
    place = tool_world({"type": "object", "properties": {"free": {}}})
    async with form(place) as (app, pilot):
        await typed(pilot, "{")
        await until(pilot, lambda: "no JSON" in shown(app))
        await press(pilot, "f5", "f6", "f2")
        assert place.called == []
        assert isinstance(app.screen, FormScreen)


async def test_choices_and_items_by_keys() -> None:
    place = tool_world(SCHEMA)
    async with form(place) as (app, pilot):
        await typed(pilot, "ab")
        await press(pilot, "tab", "tab")
        assert isinstance(app.focused, ChoiceInput)
        await press(pilot, "right", "right", "left", "right", "tab")
        await press(pilot, "plus", "plus", "tab")
        await typed(pilot, "one")
        await press(pilot, "f7")
        await typed(pilot, "two")
        await press(pilot, "tab")
        await typed(pilot, "x")
        await press(pilot, "f8")
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"path": "ab", "lines": 10, "mode": "bytes", "tags": ["one", "two"]}


async def test_a_list_of_ten_thousand_is_narrowed_by_words() -> None:
    place = tool_world(
        {"type": "object", "properties": {"it": {"enum": [f"option {n}" for n in range(10_000)]}}}
    )
    async with form(place) as (app, pilot):
        await press(pilot, "enter")
        assert isinstance(app.screen, OptionListScreen)
        await typed(pilot, "9777")
        await until(pilot, lambda: "option 9777" in rows_drawn(app, "#pick-rows"))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"it": "option 9777"}


async def test_json_and_fields_are_two_ways_to_write_the_same() -> None:
    place = tool_world(SCHEMA)
    async with form(place) as (app, pilot):
        await typed(pilot, "ab")
        await press(pilot, "f2")
        area = app.screen.query_one("#form-json", TextArea)
        assert '"path": "ab"' in area.text
        assert '"lines": 10' in area.text
        area.text = '{"path": "README.md", "lines": 3, "tags": ["a"], "other": 1}'
        await settle(pilot)
        await press(pilot, "f2")
        await until(pilot, lambda: not area.display)
        assert "other keys" in [block.entry.label for block in app.screen.query(FieldWidget)]
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"path": "README.md", "lines": 3, "tags": ["a"], "other": 1}


async def test_json_that_no_field_holds_stays_json() -> None:
    place = tool_world(SCHEMA)
    async with form(place) as (app, pilot):
        await press(pilot, "f2")
        area = app.screen.query_one("#form-json", TextArea)
        area.text = "{"
        await settle(pilot)
        await press(pilot, "f2", "f5", "f6")
        assert area.display
        assert place.called == []


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"garbage": 1}, {"type": "array"}])
async def test_a_tool_that_says_nothing_of_its_input_gets_one_json_field(schema: JsonObject) -> None:
    place = tool_world(schema)
    async with form(place) as (app, pilot):
        assert app.screen.query_one("#form-json", TextArea).display
        await press(pilot, "f6")
        await until(pilot, lambda: place.called)
        assert place.called == [("mock.echo", {})]


@pytest.mark.parametrize("schema", [False, "garbage", {"type": 7}, {"$ref": "file:///etc/passwd"}])
async def test_a_schema_that_is_none_lets_nothing_pass_as_fitting(schema: object) -> None:
    place = tool_world(schema)
    async with form(place) as (app, pilot):
        await press(pilot, "f5")
        assert place.called == []
        assert "✗" in shown(app)


async def test_examples_are_loaded_in_turn_and_the_last_input_is_remembered() -> None:
    place = tool_world(SCHEMA, {"path": "one.md"}, {"path": "two.md", "mode": "text"})
    async with form(place) as (app, pilot):
        await press(pilot, "f3")
        await until(pilot, lambda: "one.md" in shown(app))
        await press(pilot, "f3")
        await until(pilot, lambda: "two.md" in shown(app))
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "t")
        await until(pilot, lambda: "two.md" in shown(app))
        await press(pilot, "f3", "f3", "f3")
        await until(pilot, lambda: "two.md" not in shown(app))


async def test_a_secret_is_not_drawn() -> None:
    place = tool_world({"type": "object", "properties": {"key": {"type": "string", "writeOnly": True}}})
    async with form(place) as (app, pilot):
        await typed(pilot, "hunter2")
        assert "hunter2" not in shown(app)
        assert "•••••••" in shown(app)
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"key": "hunter2"}


async def test_a_form_that_was_left_leaves_its_call_running() -> None:
    place = tool_world({"type": "object", "additionalProperties": False})
    place.call_phase = Phase.WAITING_APPROVAL
    async with form(place) as (app, pilot):
        await press(pilot, "f5")
        await until(pilot, lambda: "asks you" in drawn(app, "#page"))
        assert "ctrl+o" in drawn(app, "#page")
        page = app.screen
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        place.call_ends.set()
        await until(pilot, lambda: not [worker for worker in app.workers if worker.group == "test-call"])
        assert not page.is_attached


async def test_the_card_opens_over_the_page_and_never_over_the_form() -> None:
    place, clock = tool_world(SCHEMA), HandClock()
    async with form(place, clock) as (app, pilot):
        await typed(pilot, "ab")
        clock.advance(60)
        place.ask_for(request_of("first"))
        await until(pilot, lambda: app.state.waiting)
        await settle(pilot)
        assert isinstance(app.screen, FormScreen)
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        clock.advance(60)
        place.ask_for(request_of("second"))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))


async def test_the_page_shows_the_end_and_leads_back_to_the_form() -> None:
    place = tool_world(SCHEMA)
    place.call_ends.set()
    async with form(place) as (app, pilot):
        await typed(pilot, "ab")
        call = msgspec.structs.replace(sample_activity()[1], call_id="test-1")
        place.activity_value = (call,)
        place.publish("call.finished")
        await press(pilot, "f5")
        await until(pilot, lambda: "success" in drawn(app, "#page") and "sha256" in drawn(app, "#page"))
        await press(pilot, "t")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and app.focused is not None)
        await until(pilot, lambda: "the input fits" in shown(app))


@pytest.mark.suite
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_hostile_texts_are_drawn_safe_and_sent_as_they_are(payload: str) -> None:
    rule = {"type": "string", "title": payload, "description": payload, "pattern": payload, "format": payload}
    properties = {
        payload: rule,
        "way": {"oneOf": [{"title": payload, "type": "string"}, {"const": payload}]},
        "choice": {"enum": [payload, "b"]},
        "text": {"type": "string", "default": payload.replace("\n", "")},
    }
    place = tool_world({"type": "object", "properties": properties}, {payload: payload, "choice": payload})
    async with form(place, size=(60, 200)) as (app, pilot):
        _all_visible(app)
        await press(pilot, "f3")
        await settle(pilot)
        _all_visible(app)
        app.screen.query(ChoiceInput).first().focus()
        await press(pilot, "enter")
        _all_visible(app)
        await press(pilot, "escape", "f2")
        _all_visible(app)
        await press(pilot, "f2")
        await press(pilot, "f6")
        await until(pilot, lambda: place.called)
        assert place.called[0][1][payload] == payload
        _all_visible(app)


@pytest.mark.suite
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_pasted_text_is_seen_and_sent_as_it_was(payload: str) -> None:
    place = tool_world({"type": "object", "properties": {"text": {"type": "string"}}})
    async with form(place) as (app, pilot):
        paste = events.Paste(payload)
        paste.set_sender(app)
        assert isinstance(app.focused, VisibleInput)
        app.focused.post_message(paste)
        box, safe = app.focused, safe_text(payload)
        await until(pilot, lambda: box.value == safe)
        assert ("⟦U+" in shown(app)) == ("⟦U+" in safe)
        _all_visible(app)
        await press(pilot, "f5")
        await until(pilot, lambda: place.called)
        assert place.called[0][1] == {"text": payload}


def _all_visible(app: FlytuiApp) -> None:
    """Nothing that the filter would have to take out is drawn."""
    for widget in app.screen.query("*"):
        if isinstance(widget, LineBar | LineView | ChoiceInput | VisibleInput | TextArea) and widget.display:
            for y in range(widget.size.height):
                text = widget.render_line(y).text
                assert text.isprintable() or not text, (widget, text)


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_the_field_with_the_focus_and_the_keys_are_in_sight(size: tuple[int, int]) -> None:
    place = tool_world(SCHEMA)
    async with form(place, size=size) as (app, pilot):
        for _ in range(6):
            await press(pilot, "tab")
            await until(pilot, lambda: _in_sight(app))
            assert "F5 call the tool" in shown(app).splitlines()[-1]


async def test_what_is_wrong_comes_into_sight_with_its_field() -> None:
    async with form(tool_world(SCHEMA), size=(60, 14)) as (app, pilot):
        await typed(pilot, "a")
        await until(pilot, lambda: "✗" in shown(app) and "shorter than 2" in shown(app))


def _in_sight(app: FlytuiApp) -> bool:
    body = app.screen.query_one("#form").region
    return app.focused is not None and body.contains_region(app.focused.region)
