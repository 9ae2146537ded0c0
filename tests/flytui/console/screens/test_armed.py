"""The rules of screens that decide, for every class of them: a new class has to be added here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from textual import events
from textual.pilot import Pilot

import flytui.console
from flycore.model.approval import Answer, ApprovalRequest, Outcome
from flycore.model.enums import Risk
from flycore.model.json import JsonObject
from flytui.console.app import FlytuiApp
from flytui.console.approvals.batch_screen import BatchScreen
from flytui.console.approvals.question_screen import QuestionScreen
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.approvals.terms_screen import LeaseScreen, RuleScreen
from flytui.console.kernel_connection import LostConnection, OpenConnection
from flytui.console.screens.armed import ArmedScreen
from flytui.console.screens.arming import NO_KEYBOARD, QUIET_S, VISIBLE_S
from flytui.console.screens.base import PageScreen, decision_open, kernel_values_open
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.trust import TrustScreen
from flytui.text.lines import line, span
from kits.console import HandClock, console, press, read_through, settle, until
from kits.fake_kernel import World
from kits.values import loop_question, request_of, sample_catalog, trust_items

pytestmark = pytest.mark.anyio
SIZE = (60, 16)
BATCH = 8
LONG = {"text": "word " * 400}
Screen = ArmedScreen[object]
Open = Callable[[FlytuiApp, Pilot[None], "SlowWorld", HandClock], Awaitable[None]]


@dataclass
class SlowWorld(World):
    """A world that takes an answer only once `may_end` is set. It counts answers when they are sent."""

    may_end: anyio.Event = field(default_factory=anyio.Event)

    @property
    def sent(self) -> int:
        """How many answers have been sent so far."""
        return len(self.decided) + len(self.answered) + len(self.trusted) + self.started

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        outcome = await super().decide(request_id, subject_digest, answer)
        await self.may_end.wait()
        return outcome

    async def answer(
        self, question_id: str, option: str, text: str = "", content: JsonObject | None = None
    ) -> Outcome:
        outcome = await super().answer(question_id, option, text, content)
        await self.may_end.wait()
        return outcome

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        outcome = await super().trust(accepted)
        await self.may_end.wait()
        return outcome

    async def write_starter(self, sidecars: tuple[str, ...], digest: str) -> Outcome:
        outcome = await super().write_starter(sidecars, digest)
        await self.may_end.wait()
        return outcome


@dataclass(frozen=True)
class Case:
    """How a screen of one class is opened, with more lines than fit; and what decides on it."""

    open: Open
    keys: tuple[str, ...] = ("a",)
    answers: int = 1
    """How many answers are sent in all."""


def quiet(id: str = "r1") -> ApprovalRequest:
    """A request that needs no letter."""
    return request_of(id, risk=Risk.MEDIUM, letter="", input=LONG)


async def _trust(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    place.trust_value = trust_items(20)
    place.publish("trust.changed")


async def _question(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    place.questions_value = (loop_question("loop-1", *(f"line {n}" for n in range(40))),)
    place.publish("question.asked")


async def _batch(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    """The summary of a batch: every request is ticked."""
    await press(pilot, "2")
    place.ask_for(*(request_of(f"r{n}", risk=Risk.MEDIUM, letter="") for n in range(BATCH)))
    rows = app.screen.query_one("#ask-rows")
    await until(pilot, lambda: len(app.state.waiting) == BATCH and rows.display and app.focused is rows)
    await press(pilot, "B")
    await until(pilot, lambda: isinstance(app.screen, BatchScreen))
    screen = app.screen
    assert isinstance(screen, BatchScreen)
    for ticked in range(1, BATCH + 1):
        while not screen._was_shown(screen._cursor):
            await until(pilot, lambda: screen._card.painted)
            screen._card.note_painted()
            if not screen._was_shown(screen._cursor):
                await press(pilot, "pagedown")
        clock.advance(1)
        await press(pilot, "space")
        assert len(screen._ticked) == ticked
        await press(pilot, "down")
    await press(pilot, "A")


async def _card(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    place.ask_for(request_of(input=LONG))


async def _quiet_card(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    """A card from which a form is opened."""
    place.ask_for(quiet())
    await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._card.arming.shown_at)
    clock.advance(5)


async def _lease(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    await _quiet_card(app, pilot, place, clock)
    await press(pilot, "l", "e", "down", "down", "space", "enter")


async def _rule(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    await _quiet_card(app, pilot, place, clock)
    await press(pilot, "u", "down", "down", "down", "down", "space", "tab", "x", "enter")


async def _act(app: FlytuiApp, pilot: Pilot[None], place: SlowWorld, clock: HandClock) -> None:
    rows = [line(span(f"line {n}")) for n in range(40)]

    async def act() -> str:
        return (await place.write_starter((), "")).why_not

    app.push_screen(
        ConfirmActionScreen(app.state, "Fix", "something to do", lambda width: rows, "do it", act)
    )


CASES: dict[type[Screen], Case] = {
    TrustScreen: Case(_trust),
    QuestionScreen: Case(_question, ("c",)),
    BatchScreen: Case(_batch, answers=BATCH),
    RequestScreen: Case(_card, ("a", "k")),
    LeaseScreen: Case(_lease),
    RuleScreen: Case(_rule),
    ConfirmActionScreen: Case(_act),
}
every_class = pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)


def concrete(cls: type[Screen]) -> Iterator[type[Screen]]:
    """The classes of the console below `cls` that no other one derives from."""
    below = [found for found in cls.__subclasses__() if found.__module__.startswith("flytui.")]
    for found in below:
        yield from concrete(found)
    if not below:
        yield cls


async def opened(cls: type[Screen], app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> Screen:
    """The screen of that class, painted for the first time."""
    place = app.state.client
    assert isinstance(place, SlowWorld)
    await CASES[cls].open(app, pilot, place, clock)
    await until(pilot, lambda: type(app.screen) is cls and app.screen._card.arming.shown_at is not None)
    assert isinstance(app.screen, ArmedScreen)
    return app.screen


async def read(screen: Screen, pilot: Pilot[None]) -> None:
    """Have it painted and read to its last line; its keys are still cold."""
    await read_through(pilot, screen._card)


async def ready(screen: Screen, pilot: Pilot[None], clock: HandClock) -> None:
    """Have it armed."""
    await read(screen, pilot)
    clock.advance(5)
    assert screen._card.arming.blocked_reason(clock()) == ""


async def decide(pilot: Pilot[None], clock: HandClock, keys: Sequence[str]) -> None:
    """Press what decides, a second apart."""
    for key in keys:
        await press(pilot, key)
        clock.advance(1)


async def press_late(pilot: Pilot[None], *keys: str) -> None:
    """Keys that were read from the terminal half a minute ago, and are handled only now."""
    for key in keys:
        event = events.Key(key, key)
        event.time -= 30
        event.set_sender(pilot.app)
        driver = pilot.app._driver
        assert driver is not None
        driver.send_message(event)
        await settle(pilot)


async def covered(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """Another screen lies over it for a moment."""
    app.push_screen(PageScreen(app.state, "Above", lambda width: []))
    await until(pilot, lambda: isinstance(app.screen, PageScreen))
    app.pop_screen()
    await until(pilot, lambda: isinstance(app.screen, ArmedScreen))


async def resized(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """The terminal becomes a line higher: all lines stay as they are, and in sight."""
    await pilot.resize_terminal(app.size.width, app.size.height + 1)


async def pasted(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """Somebody pastes what would decide."""
    for text in ("a", "k", "c", "ak\r"):
        app.post_message(events.Paste(text))
        await settle(pilot)


async def used_by_a_tool(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """A tool takes the machine, and releases it; keys in between decide nothing."""
    place.hands_on = True
    place.publish("hands.changed", on=True)
    screen = app.screen
    assert isinstance(screen, ArmedScreen)
    await until(
        pilot, lambda: "hands on the machine" in screen._card.arming.blocked_reason(app.state.clock())
    )
    await press(pilot, "a", "c")
    place.hands_on = False
    place.publish("hands.changed", on=False)
    await until(pilot, lambda: not screen._card.arming.desktop_controlled)


async def viewed(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """The console can decide nothing for a moment; keys in between decide nothing."""
    kept = app.state.connection
    assert isinstance(kept, OpenConnection)
    app.state.connection = LostConnection(kept, app.state.clock())
    await press(pilot, "a", "c")
    app.state.connection = kept


async def left(app: FlytuiApp, pilot: Pilot[None], place: World) -> None:
    """Another window has the keyboard for a moment; keys in between decide nothing."""
    screen = app.screen
    assert isinstance(screen, ArmedScreen)
    app.post_message(events.AppBlur())
    await until(pilot, lambda: screen._card.arming.blocked_reason(app.state.clock()) == NO_KEYBOARD)
    await press(pilot, "a", "c")
    assert screen._card.arming.blocked_reason(app.state.clock()) == NO_KEYBOARD
    app.post_message(events.AppFocus())
    await until(pilot, lambda: not screen._card.arming.keyboard_elsewhere)


DISTURBANCES = (covered, resized, pasted, used_by_a_tool, viewed, left)


def test_no_class_is_forgotten() -> None:
    for module in pkgutil.walk_packages(flytui.console.__path__, "flytui.console."):
        importlib.import_module(module.name)
    assert set(concrete(ArmedScreen)) == set(CASES)


@every_class
async def test_it_decides_once_and_only_when_it_was_read_and_the_keys_were_quiet(cls: type[Screen]) -> None:
    clock, place, case = HandClock(), SlowWorld(sample_catalog()), CASES[cls]
    place.may_end.set()
    async with console(place, clock, SIZE) as (app, pilot):
        screen = await opened(cls, app, pilot, clock)
        assert not screen._card.arming.end_seen
        await decide(pilot, clock, case.keys)
        clock.advance(5)
        await decide(pilot, clock, case.keys)
        assert place.sent == 0
        await read(screen, pilot)
        await press(pilot, *case.keys)
        clock.advance(QUIET_S - 0.1)
        await press(pilot, *case.keys)
        assert place.sent == 0
        clock.advance(5)
        await press(pilot, "enter", "space", "tab", "end")
        await pilot.click(offset=(3, 5))
        await pilot.click(offset=(3, 14))
        assert place.sent == 0
        clock.advance(5)
        await decide(pilot, clock, case.keys)
        await until(pilot, lambda: place.sent == case.answers)
        clock.advance(5)
        await decide(pilot, clock, case.keys)
        await pilot.pause()
    assert place.sent == case.answers


@every_class
async def test_whatever_disturbs_it_disarms_it(cls: type[Screen]) -> None:
    clock, place, case = HandClock(), SlowWorld(sample_catalog()), CASES[cls]
    place.may_end.set()
    async with console(place, clock, SIZE) as (app, pilot):
        screen = await opened(cls, app, pilot, clock)
        for disturbed in DISTURBANCES:
            await ready(screen, pilot, clock)
            await disturbed(app, pilot, place)
            await press(pilot, *case.keys)
            clock.advance(min(VISIBLE_S, QUIET_S) - 0.1)
            await press(pilot, *case.keys)
            assert (place.sent, app.screen) == (0, screen), disturbed.__name__
        await ready(screen, pilot, clock)
        await covered(app, pilot, place)
        await until(pilot, lambda: screen._card.arming.shown_at is not None)
        clock.advance(5)
        await press_late(pilot, *case.keys)
        assert place.sent == 0
        await ready(screen, pilot, clock)
        await decide(pilot, clock, case.keys)
        await until(pilot, lambda: place.sent == case.answers)


@every_class
async def test_one_answer_is_sent_at_a_time_and_nothing_opens_over_it(cls: type[Screen]) -> None:
    clock, place, case = HandClock(), SlowWorld(sample_catalog()), CASES[cls]
    async with console(place, clock, SIZE) as (app, pilot):
        screen = await opened(cls, app, pilot, clock)
        stack = list(app.screen_stack)
        assert decision_open(stack)
        assert kernel_values_open(stack, app.state)
        clock.advance(5)
        place.ask_for(request_of("late"))
        await until(pilot, lambda: any(ask.request.id == "late" for ask in app.state.waiting))
        await press(pilot, "ctrl+o")
        assert app.screen_stack == stack
        await ready(screen, pilot, clock)
        await decide(pilot, clock, case.keys)
        await until(pilot, lambda: place.sent == 1)
        clock.advance(5)
        await decide(pilot, clock, (*case.keys, "escape"))
        assert (place.sent, app.screen) == (1, screen)
        place.may_end.set()
        await until(pilot, lambda: place.sent == case.answers)
        await until(pilot, lambda: not screen._sending)
    assert place.sent == case.answers
