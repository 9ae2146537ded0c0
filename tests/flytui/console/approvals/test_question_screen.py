"""Questions and the stop in the running console: what opens them, what answers them, what never does."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flycore.model.enums import QuestionKind
from flycore.model.question import Option, Question
from flytui.console.app import FlytuiApp
from flytui.console.approvals.answer_form import AnswerFormScreen
from flytui.console.approvals.question_screen import QuestionScreen, option_keys
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.controllers.emergency_stop import TwoPresses
from flytui.console.forms.inputs import VisibleInput
from flytui.console.screens.base import PressAgainScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.text_prompt import DenyReasonScreen, TextPromptScreen
from kits.console import HandClock, console, drawn, press, rows_drawn, settle, until
from kits.fake_kernel import World, world
from kits.values import NOW, loop_question, panic_question, policy_question, request_of

pytestmark = pytest.mark.anyio


def screen_of(app: FlytuiApp) -> QuestionScreen:
    assert isinstance(app.screen, QuestionScreen)
    return app.screen


async def opened(app: FlytuiApp, pilot: Pilot[None]) -> None:
    """The question is on screen, painted and read."""
    await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
    await until(pilot, lambda: screen_of(app)._card.arming.end_seen)


async def asked(place: World, app: FlytuiApp, pilot: Pilot[None], *ids: str) -> None:
    """Loop questions arrive, and the first opens by itself."""
    place.questions_value = tuple(loop_question(name) for name in ids or ("loop-1",))
    place.publish("question.asked")
    await opened(app, pilot)


def test_the_second_press_counts_within_a_second() -> None:
    key = TwoPresses()
    assert [key.press(at) for at in (10.0, 11.0, 11.5, 13.0, 13.4, 13.5, 20.0)] == [
        False,
        True,
        False,
        False,
        True,
        False,
        False,
    ]


async def test_two_presses_stop_everything_and_a_letter_releases_it() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "ctrl+x")
        assert "ctrl+x again" in drawn(app, "#alert")
        clock.advance(1.5)
        await press(pilot, "ctrl+x")
        assert not place.stopped
        clock.advance(0.5)
        await press(pilot, "ctrl+x")
        await until(pilot, lambda: "STOPPED" in drawn(app, "#header"))
        assert place.stopped
        assert "ctrl+o releases" in drawn(app, "#header")
        assert "●1" in drawn(app, "#header")
        await until(pilot, lambda: app.state.questions)
        await press(pilot, "ctrl+o")
        await opened(app, pilot)
        await press(pilot, "enter", "r")
        clock.advance(3)
        await press(pilot, "enter", "space")
        assert place.answered == []
        clock.advance(3)
        await press(pilot, "r")
        await until(pilot, lambda: place.answered == [("panic", "release", "")])
        await until(pilot, lambda: isinstance(app.screen, MainScreen) and not app.state.panic_active)
        assert "STOPPED" not in drawn(app, "#header")


async def test_in_a_text_field_the_first_press_cuts_nothing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "slash", *"mock")
        box = app.screen.query_one("#filter", Input)
        box.action_select_all()
        await press(pilot, "ctrl+x")
        assert box.value == "mock"
        clock.advance(0.9)
        await press(pilot, "ctrl+x")
        await until(pilot, lambda: place.stopped)
        assert box.value == "mock"


async def _card(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    place.ask_for(request_of())
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    await until(pilot, lambda: app.screen._card.arming.shown_at is not None)  # type: ignore[attr-defined]  # a CardScreen
    clock.advance(2)


async def _reason(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    await _card(app, pilot, place, clock)
    await press(pilot, "r", *"why")
    assert isinstance(app.screen, DenyReasonScreen)


async def _palette(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    await press(pilot, "ctrl+p")


async def _quit(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    await press(pilot, "down")
    place.ask_for(request_of())
    await until(pilot, lambda: app.state.waiting)
    await press(pilot, "ctrl+q")
    assert isinstance(app.screen, PressAgainScreen)


async def _area(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock) -> None:
    area = TextArea("some text")
    await app.screen.mount(area)
    area.focus()
    area.select_all()


@pytest.mark.parametrize("where", [_card, _reason, _palette, _quit, _area])
async def test_it_works_wherever_the_focus_is(where: Callable[..., object]) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await where(app, pilot, place, clock)  # type: ignore[misc]  # a coroutine function of this module
        await press(pilot, "ctrl+x")
        clock.advance(0.5)
        await press(pilot, "ctrl+x")
        await until(pilot, lambda: place.stopped)
        assert [area.text for area in app.screen.query(TextArea)] in ([], ["some text"])
    assert place.decided == []


async def test_a_loop_is_asked_at_once_and_its_options_arm_like_a_card() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await asked(place, app, pilot)
        assert "repeats a call that fails" in drawn(app, "#card-title")
        assert "(recommended)" in drawn(app, "#card-keys")
        await press(pilot, "s", "enter")
        clock.advance(0.4)
        await press(pilot, "c")
        assert place.answered == []
        clock.advance(2)
        await press(pilot, "c")
        await until(pilot, lambda: place.answered == [("loop-1", "continue", "")])
        await until(pilot, lambda: isinstance(app.screen, MainScreen))


async def test_a_root_within_this_one_is_asked_about_at_once() -> None:
    place, clock = world(), HandClock()
    question = msgspec.structs.replace(loop_question("nested-1"), kind=QuestionKind.NESTED)
    async with console(place, clock) as (app, pilot):
        place.questions_value = (question,)
        place.publish("question.asked")
        await opened(app, pilot)
        assert "▲ root" in drawn(app, "#card-title")
        await press(pilot, "escape")
        await until(pilot, lambda: "▲ 1 question waits" in drawn(app, "#alert"))


async def test_a_looser_policy_file_is_asked_at_once_and_one_key_accepts_it() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        place.questions_value = (policy_question(),)
        place.publish("policy.changed")
        await opened(app, pilot)
        assert "lets more through" in drawn(app, "#card-title")
        clock.advance(2)
        await press(pilot, "a")
        await until(pilot, lambda: place.answered == [(policy_question().id, "accept", "")])


async def test_words_go_with_the_answer_and_enter_answers_nothing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await asked(place, app, pilot)
        clock.advance(2)
        await press(pilot, "w", *"look", "enter")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        assert "your words: look" in drawn(app, "#card-keys")
        await press(pilot, "w", *"other", "escape")
        await until(pilot, lambda: not isinstance(app.screen, TextPromptScreen))
        await until(pilot, lambda: screen_of(app)._card.arming.shown_at is not None)
        clock.advance(2)
        await press(pilot, "e")
        await until(pilot, lambda: place.answered == [("loop-1", "end", "look")])


async def test_escape_paste_and_clicks_leave_it_waiting_and_busy_people_are_not_interrupted() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "down")
        place.questions_value = (loop_question(),)
        place.publish("question.asked")
        await until(pilot, lambda: app.state.questions)
        assert isinstance(app.screen, MainScreen)
        assert "1 question waits" in drawn(app, "#alert")
        await press(pilot, "2")
        assert "repeats a call" in rows_drawn(app, "#ask-rows")
        await until(pilot, lambda: app.focused is app.screen.query_one("#ask-rows"))
        await press(pilot, "enter")
        await opened(app, pilot)
        clock.advance(3)
        app.post_message(events.Paste("s"))
        for y in (3, 27, 28, 29):
            await pilot.click(offset=(2, y))
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
    assert place.answered == []


async def test_a_refused_answer_says_why_and_a_question_that_is_gone_takes_none() -> None:
    place, clock = world(refuse="the log does not take it"), HandClock()
    async with console(place, clock) as (app, pilot):
        await asked(place, app, pilot, "loop-1", "loop-2")
        clock.advance(2)
        await press(pilot, "s")
        await until(pilot, lambda: "the log does not take it" in drawn(app, "#card-keys"))
        place.questions_value = (loop_question("loop-2"),)
        place.publish("question.answered")
        await until(pilot, lambda: len(app.state.questions) == 1)
        clock.advance(2)
        await press(pilot, "s")
        assert len(place.answered) == 1
        await press(pilot, "n")
        assert "loop" in drawn(app, "#card-title")
        await press(pilot, "escape")


async def test_requests_are_opened_before_questions() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "down")
        place.questions_value = (loop_question(),)
        place.ask_for(request_of())
        place.publish("question.asked")
        await until(pilot, lambda: app.state.questions and app.state.waiting)
        assert "●2" in drawn(app, "#header")
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)


async def test_a_long_or_hostile_question_is_read_to_its_end_and_drawn_as_text() -> None:
    place, clock = world(), HandClock()
    lines = tuple(f"input  [/nope]\x1b[2J\u202e {number}" for number in range(60))
    async with console(place, clock) as (app, pilot):
        place.questions_value = (loop_question("loop-1", *lines),)
        place.publish("question.asked")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        await until(pilot, lambda: screen_of(app)._card.arming.shown_at is not None)
        clock.advance(3)
        await press(pilot, "s")
        assert "read to the last line first" in drawn(app, "#card-keys")
        assert "⟦U+202E⟧" in drawn(app, "#card")
        assert "\x1b" not in drawn(app, "#card")
        await press(pilot, "end")
        await until(pilot, lambda: screen_of(app)._card.arming.end_seen)
        clock.advance(3)
        await press(pilot, "s")
        await until(pilot, lambda: place.answered)


async def test_a_typist_answers_nothing_by_accident() -> None:
    place, clock, chance = world(), HandClock(), random.Random(7)
    async with console(place, clock) as (app, pilot):
        await asked(place, app, pilot)
        for _ in range(60):
            clock.advance(chance.uniform(0.01, 0.45))
            key = chance.choice(["s", "c", "e", "enter", "space", "a", "tab", "backspace"])
            await press(pilot, key, patience=60)
    assert place.answered == []


def test_every_option_has_a_key_of_its_own() -> None:
    assert option_keys(loop_question()) == {"s": "stop", "c": "continue", "e": "end"}
    assert option_keys(panic_question()) == {"r": "release"}


ELICITED = Question(
    id="server-1",
    kind=QuestionKind.SERVER,
    title="the MCP server notes asks you something",
    lines=("server says: Who are you?", "asks    name (string, required)"),
    options=(
        Option(id="accept", words="answer: fill in its form", fills=True),
        Option(id="decline", words="decline", recommended=True),
        Option(id="cancel", words="cancel"),
    ),
    form={
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 2}, "sure": {"type": "boolean"}},
        "required": ["name"],
    },
    about="notes",
    asked_at=NOW - 3,
)


async def elicited(place: World, app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> None:
    """A server's question opens by itself, and its keys are armed."""
    place.questions_value = (ELICITED,)
    place.publish("question.asked")
    await opened(app, pilot)
    clock.advance(3)


async def test_the_form_of_a_server_is_filled_in_and_sent_by_its_key_alone() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await elicited(place, app, pilot, clock)
        assert "server says: Who are you?" in drawn(app, "#card")
        await press(pilot, "a")
        await until(pilot, lambda: isinstance(app.screen, AnswerFormScreen) and app.focused is not None)
        await press(pilot, "A", "enter", "f5")
        assert place.answered == []
        assert "problem" in app.state.shared.notice
        # Values that do not fit are not sent, whatever the key.
        await press(pilot, "f6")
        assert place.answered == []
        await press(pilot, "shift+tab")
        app.screen.query(VisibleInput).first().value = "Ada"
        await settle(pilot)
        await press(pilot, "f5")
        await until(pilot, lambda: place.answered == [("server-1", "accept", "")])
        assert place.filled == {"name": "Ada"}
        await until(pilot, lambda: isinstance(app.screen, MainScreen))


async def test_going_back_from_the_form_sends_nothing_and_the_question_waits() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await elicited(place, app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: isinstance(app.screen, AnswerFormScreen) and app.focused is not None)
        await press(pilot, "escape")
        await opened(app, pilot)
        # The question is armed anew.
        await press(pilot, "d")
        assert place.answered == []
        clock.advance(3)
        await until(pilot, lambda: screen_of(app)._card.arming.shown_at is not None)
        clock.advance(3)
        await press(pilot, "d")
        await until(pilot, lambda: place.answered == [("server-1", "decline", "")])
