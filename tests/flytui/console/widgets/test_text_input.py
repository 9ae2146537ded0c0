"""Keys that come in one burst while a form opens: all of them arrive, in order, and priority keys act."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input, TextArea
from textual.widgets.input import Selection

from flycore.model.approval import Outcome
from flycore.model.json import JsonObject
from flysafe.text import safe_text
from flytui.console.app import FlytuiApp
from flytui.console.forms.json_editor import EditInputScreen
from flytui.console.screens.text_prompt import DenyReasonScreen
from flytui.console.widgets.text_input import FilterInput
from kits.console import HandClock, console, until
from kits.fake_kernel import world
from kits.values import request_of

pytestmark = pytest.mark.anyio
TYPED = "the quick brown fox jumps over the lazy dog " * 3


async def nowhere(input: JsonObject) -> Outcome:
    raise AssertionError("nothing is handed in")


def burst(app: FlytuiApp, text: str) -> None:
    """Keys as a terminal hands over what came in one read."""
    for character in text:
        app.post_message(events.Key(" " if character == " " else character, character))


async def test_a_burst_into_the_edit_form_arrives_whole() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        screen = EditInputScreen(request_of("r1"), nowhere)
        app.push_screen(screen)
        burst(app, TYPED)
        app.post_message(events.Key("left", None))
        app.post_message(events.Key("backspace", None))
        app.post_message(events.Paste("pasted"))
        burst(app, "!")
        await until(pilot, lambda: screen.query(TextArea) and "!" in screen.query_one(TextArea).text)
        text = screen.query_one(TextArea).text
        assert text.startswith(f"{TYPED[:-2]}pasted! ")


async def test_a_burst_into_a_reason_arrives_whole_and_enter_sends_it() -> None:
    given: list[str | None] = []
    async with console(world(), HandClock()) as (app, pilot):
        app.push_screen(DenyReasonScreen("file.hash"), given.append)
        burst(app, TYPED)
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: given)
    assert given == [" ".join(TYPED.split())]


async def test_the_end_of_a_first_paste_that_is_longer_than_the_filter_is_in_sight() -> None:
    class Field(App[None]):
        def compose(self) -> ComposeResult:
            yield FilterInput()

    async with Field().run_test(size=(40, 5)) as pilot:
        field = pilot.app.query_one(FilterInput)
        field.focus()
        pilot.app.post_message(events.Paste(f"ls{' ' * 500}rm -rf x"))
        await until(pilot, lambda: field.value)
        await pilot.pause()
        assert field.render_line(0).text.rstrip().endswith(" rm -rf x")


@pytest.mark.parametrize("pasted", ["web fetch", "\r\nweb fetch\nfile.hash", "\u2028 \u2029web fetch"])
async def test_the_first_line_with_text_of_a_paste_is_taken(pasted: str) -> None:
    class Field(App[None]):
        def compose(self) -> ComposeResult:
            yield FilterInput("tool: x")

    async with Field().run_test(size=(40, 5)) as pilot:
        field = pilot.app.query_one(FilterInput)
        field.focus()
        field.selection = Selection(5, 7)
        pilot.app.post_message(events.Paste(pasted))
        await until(pilot, lambda: field.value != "tool: x")
        assert field.value == "tool:web fetch"
        await pilot.press("!")
        assert field.value == "tool:web fetch!"


async def test_escape_in_the_burst_leaves_and_the_rest_goes_nowhere() -> None:
    given: list[str | None] = []
    async with console(world(), HandClock()) as (app, pilot):
        app.push_screen(DenyReasonScreen("file.hash"), given.append)
        burst(app, "never mind")
        app.post_message(events.Key("escape", None))
        await until(pilot, lambda: given)
        assert not app.query(Input).filter("#reason")
    assert given == [None]


class FilterApp(App[None]):
    """One filter field."""

    def compose(self) -> ComposeResult:
        """Return the field."""
        yield FilterInput()


async def test_marks_that_arrive_one_by_one_are_as_few_as_in_one_piece() -> None:
    marks = "Z" + "\u0301\u0302\u0303\u0304" * 3
    async with FilterApp().run_test() as pilot:
        field = pilot.app.query_one(FilterInput)
        for character in marks:
            field.insert_text_at_cursor(character)
        assert field.value == safe_text(marks)


class LateScreen(DenyReasonScreen):
    """A screen that gets an event on its way to the screen below at the very moment of its first look."""

    looks = 0

    def _focus_field(self) -> None:
        self.looks += 1
        if self.looks == 1:
            self.app.screen_stack[0].post_message(events.Key("x", "x"))
        super()._focus_field()


async def test_a_screen_that_waits_for_the_ones_below_lets_them_handle_their_events() -> None:
    given: list[str | None] = []
    async with console(world(), HandClock()) as (app, pilot):
        screen = LateScreen("file.hash")
        app.push_screen(screen, given.append)
        burst(app, "typed at once")
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: given)
    assert screen.looks > 1
    assert given == ["typed at once"]
