"""The card in the running console: what opens it, what its keys do, and what never decides."""

from __future__ import annotations

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from flycore.model.approval import LeaseTerms
from flycore.model.call import Caller
from flycore.model.enums import Choice, RequestState, Risk
from flycore.model.json import digest
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.screens.armed import ArmedLines
from flytui.console.screens.main import MainScreen
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.values import request_of

pytestmark = pytest.mark.anyio


MAIL = request_of(
    risk=Risk.MEDIUM,
    letter="",
    tool="notes.send_mail",
    input={
        "body": "word " * 1_000,
        "to": "eve@example.org",
        "subject": "the plan",
        "bcc": "a@b.c",
        "html": False,
    },
    effect='server says: "Sends a mail" with to "eve@example.org", subject "the plan"',
    fields=("to", "subject", "body"),
    required=("to", "subject"),
)
"""A mail whose recipient comes last in the alphabet."""


def card_of(app: FlytuiApp) -> RequestScreen:
    """The card on screen."""
    assert isinstance(app.screen, RequestScreen)
    return app.screen


async def opened(app: FlytuiApp, pilot: Pilot[None], place: World, *requests: object) -> None:
    """Requests arrive and the first card opens by itself and is painted."""
    place.ask_for(*requests)  # type: ignore[arg-type]  # requests, named loosely for brevity
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    await until(pilot, lambda: card_of(app)._arming.shown_at is not None)


async def test_a_high_risk_request_is_approved_by_a_and_the_letter() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        request = request_of()
        await opened(app, pilot, place, request)
        clock.advance(2)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: place.decided)
    [(request_id, digest, answer)] = place.decided
    assert (request_id, digest, answer.choice) == ("r1", request.subject_digest, Choice.APPROVE_ONCE)


@pytest.mark.parametrize(
    "keys",
    [
        ("a", "k"),
        ("enter",),
        ("enter", "enter", "space", "tab", "shift+tab", "backspace", "ctrl+a"),
        ("k",),
        ("a", "enter", "k"),
        ("y", "A", "K", "escape"),
    ],
)
async def test_keys_that_do_not_decide(keys: tuple[str, ...]) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of())
        if keys != ("a", "k"):
            clock.advance(5)
        for key in keys:
            await press(pilot, key)
        await pilot.pause()
    assert place.decided == []
    assert place.asks_value[0].state is RequestState.WAITING


async def test_pasted_text_and_clicks_decide_nothing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        app.post_message(events.Paste("a"))
        await pilot.pause()
        for y in (2, 5, 12, 27, 28, 29):
            await pilot.click(offset=(3, y))
        assert card_of(app)._arming.blocked_reason(clock()) == "keys not ready"
    assert place.decided == []


async def test_deny_is_one_key_at_once() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of())
        clock.advance(0.1)
        await press(pilot, "d")
        await until(pilot, lambda: place.decided)
        await until(pilot, lambda: "denied  type “hello from an agent”" in drawn(app, "#alert"))
        assert isinstance(app.screen, MainScreen)
        clock.advance(4.1)
        await until(pilot, lambda: "denied" not in drawn(app, "#alert"))
        await press(pilot, "d")
        await pilot.pause()
    assert [answer.choice for _, _, answer in place.decided] == [Choice.DENY]


async def test_a_reason_is_sent_by_enter_and_by_nothing_else() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of())
        clock.advance(5)
        await press(pilot, "r", "n", "o", "backspace", "backspace", "enter", "tab", "shift+tab")
        await pilot.click(offset=(1, 1))
        assert place.decided == []
        assert app.screen.query_one(Input).value == ""
        await press(pilot, "escape")
        assert place.decided == []
        clock.advance(5)
        await press(pilot, "r", "n", "o", "t", "space", "n", "o", "w", "enter")
        await until(pilot, lambda: place.decided)
    [(_, _, answer)] = place.decided
    assert (answer.choice, answer.reason) == (Choice.DENY, "not now")


async def test_a_lease_ends_on_a_summary_that_arms_like_a_card() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of())
        clock.advance(5)
        await press(pilot, "l", "e", "right", "down", "right", "pageup", "enter", "a", "k")
        assert place.decided == []
        await until(pilot, lambda: app.screen.query_one(ArmedLines).arming.shown_at is not None)
        clock.advance(2)
        await press(pilot, "enter", "escape")
        assert place.decided == []
        await press(pilot, "enter")
        await until(pilot, lambda: app.screen.query_one(ArmedLines).arming.shown_at is not None)
        clock.advance(2)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: place.decided)
    [(_, _, answer)] = place.decided
    assert (answer.choice, answer.lease) == (Choice.LEASE, LeaseTerms(minutes=15, calls=21))


async def test_it_opens_by_itself_only_when_nobody_types() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "down")
        place.ask_for(request_of("r1"))
        await until(pilot, lambda: app.state.waiting)
        await until(pilot, lambda: "1 request waits" in drawn(app, "#alert"))
        assert isinstance(app.screen, MainScreen)
        assert "Approvals ●1" in drawn(app, "#header")
        clock.advance(9)
        await press(pilot, "slash", "x")
        clock.advance(9)
        place.ask_for(request_of("r2"))
        await until(pilot, lambda: len(app.state.waiting) == 2)
        await pilot.pause()
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        assert "1 of 2" in drawn(app, "#card-title")


async def test_keys_typed_for_something_else_do_not_reach_a_card_that_just_came() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "ctrl+o", "a", "k", "a", "k")
        place.ask_for(request_of(risk=Risk.LOW, letter=""))
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o", "a", "a", "a")
        await pilot.pause()
    assert place.decided == []


async def test_a_long_card_must_be_read_to_its_last_line_at_this_width() -> None:
    place, clock = world(), HandClock()
    long = request_of(input={"text": "word " * 400, "end": "the last word"})
    async with console(place, clock, (80, 20)) as (app, pilot):
        await opened(app, pilot, place, long)
        clock.advance(5)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        assert place.decided == []
        assert "more pages before a" in drawn(app, "#card-keys")
        await press(pilot, "end")
        await until(pilot, lambda: card_of(app)._arming.end_seen)
        clock.advance(5)
        assert "before a" in card_of(app)._arming.blocked_reason(clock())
        await read_through(pilot, card_of(app)._card)
        await pilot.resize_terminal(50, 20)
        await until(pilot, lambda: not card_of(app)._arming.end_seen)
        await read_through(pilot, card_of(app)._card)
        clock.advance(5)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: place.decided)


async def test_a_mail_is_not_approved_before_its_recipient_was_on_screen() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        await opened(app, pilot, place, MAIL)
        shown = drawn(app, "#card")
        for words in ("to       eve@example.org", "subject  the plan", "characters not shown"):
            assert words in shown
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
    [(_, _, answer)] = place.decided
    assert answer.not_shown["/body"] > 4_000


@pytest.mark.parametrize("size", [(50, 15), (50, 11), (40, 12)])
async def test_on_a_small_terminal_a_mail_is_read_before_it_is_approved_or_leased(
    size: tuple[int, int],
) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, size) as (app, pilot):
        await opened(app, pilot, place, MAIL)
        fits = "the plan" in drawn(app, "#card") and "eve@example.org" in drawn(app, "#card")
        assert fits or "before a" in drawn(app, "#card-keys")
        if not fits:
            clock.advance(5)
            await press(pilot, "a")
            assert place.decided == []
            clock.advance(5)
            await press(pilot, "l")
            assert isinstance(app.screen, RequestScreen), "nor is it leased"
        await read_through(pilot, card_of(app)._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)


async def test_the_views_of_an_input_are_read_each_for_itself() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        await opened(app, pilot, place, MAIL)
        await press(pilot, "f")
        await until(pilot, lambda: "characters not shown" not in drawn(app, "#card"))
        await press(pilot, "x")
        await until(pilot, lambda: digest(MAIL.subject.input)[:30] in drawn(app, "#card"))
        assert '{"bcc":' in drawn(app, "#card")
        await until(pilot, lambda: "before a" in drawn(app, "#card-keys"))
        clock.advance(5)
        await press(pilot, "a")
        assert place.decided == []
        await press(pilot, "x", "f")
        await until(pilot, lambda: "characters not shown" in drawn(app, "#card"))
        await until(pilot, lambda: "before a" not in drawn(app, "#card-keys"))
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)


async def test_a_key_that_cannot_work_says_why() -> None:
    place, clock = world(), HandClock()
    sidecar = Caller(door="socket", program="sidecar notes", pid=5, started=1)
    async with console(place, clock, (120, 40)) as (app, pilot):
        await opened(app, pilot, place, request_of(caller=sidecar))
        assert "l allow for a while" in drawn(app, "#card-keys")
        clock.advance(5)
        await press(pilot, "l")
        assert "a sidecar that calls a tool itself is asked for each call" in drawn(app, "#card-keys")
        assert isinstance(app.screen, RequestScreen)
        await press(pilot, "w", "escape")
        assert "is asked for each call" not in drawn(app, "#card-keys")


async def test_a_deny_key_held_down_does_not_deny_the_next_request() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of("r0"), request_of("r1"))
        clock.advance(0.1)
        await press(pilot, "d")
        await until(pilot, lambda: len(place.decided) == 1)
        await until(pilot, lambda: card_of(app)._arming.shown_at is not None)
        clock.advance(0.2)
        await press(pilot, "d")
        await pilot.pause()
        assert len(place.decided) == 1
        clock.advance(1)
        await press(pilot, "d")
        await until(pilot, lambda: len(place.decided) == 2)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (40, 16), (200, 60)])
async def test_the_first_keys_of_the_card_are_on_screen_at_every_size(size: tuple[int, int]) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, size) as (app, pilot):
        await opened(app, pilot, place, request_of())
        await pilot.pause()
        keys = " ".join(drawn(app, "#card-keys").split())
        for word in ("approve once, then ‹k›", "d deny", "? all keys"):
            assert word in keys
        bar = app.screen.query_one("#card-keys")
        assert bar.region.bottom <= size[1]
        assert app.screen.query_one("#card").size.height >= 3


async def test_hands_on_the_machine_kills_the_keys_at_once() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        place.hands_on = True
        place.publish("hands.changed", on=True)
        await until(pilot, lambda: "hands on the machine" in drawn(app, "#card-keys"))
        await press(pilot, "a")
        await pilot.pause()
        assert place.decided == []
        place.hands_on = False
        place.publish("hands.changed", on=False)
        await until(pilot, lambda: "hands on the machine" not in drawn(app, "#card-keys"))
        await press(pilot, "a")
        assert place.decided == []
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)


async def test_first_in_first_out_and_each_card_arms_anew() -> None:
    place, clock = world(), HandClock()
    quiet = [request_of(f"r{n}", risk=Risk.LOW, letter="") for n in range(3)]
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, *quiet)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: len(place.decided) == 1)
        await until(pilot, lambda: "sent to the program · 3 shows it" in drawn(app, "#card-keys"))
        await press(pilot, "a", "a")
        assert card_of(app)._ask.request.id == "r1"
        assert len(place.decided) == 1
        await until(pilot, lambda: card_of(app)._arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: len(place.decided) == 2)
        await until(pilot, lambda: card_of(app)._ask.request.id == "r2")
    assert [request_id for request_id, _, _ in place.decided] == ["r0", "r1"]


async def test_a_withdrawn_request_gives_way_once_another_waits() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of("r0"))
        gone = msgspec.structs.replace(place.asks_value[0], state=RequestState.WITHDRAWN)
        place.asks_value = (gone,)
        place.publish("approval.withdrawn")
        await until(pilot, lambda: "withdrawn" in drawn(app, "#card-keys"))
        clock.advance(60)
        card_of(app)._tick()
        assert card_of(app)._ask.request.id == "r0"
        place.ask_for(request_of("r1"))
        await until(pilot, lambda: card_of(app)._ask.request.id == "r1")
    assert place.decided == []


async def test_next_and_previous_walk_and_escape_leaves_waiting() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, *(request_of(f"r{n}") for n in range(3)))
        clock.advance(5)
        for key, shown in (("n", "r1"), ("n", "r2"), ("n", "r0"), ("p", "r2")):
            await press(pilot, key)
            assert card_of(app)._ask.request.id == shown
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        assert len(app.state.waiting) == 3
    assert place.decided == []


async def test_an_answer_that_did_not_count_is_said() -> None:
    place, clock = world(refuse="already answered by another console"), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: "already answered by another console" in drawn(app, "#card-keys"))


async def test_a_withdrawn_request_says_so_and_takes_no_answer() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        import msgspec

        place.asks_value = tuple(
            msgspec.structs.replace(ask, state=RequestState.WITHDRAWN) for ask in place.asks_value
        )
        place.publish("approval.withdrawn")
        await until(pilot, lambda: "withdrawn by the caller" in drawn(app, "#card-keys"))
        await press(pilot, "a", "d", "enter")
        await pilot.pause()
    assert place.decided == []


async def test_a_request_that_changed_under_its_id_is_another_card() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        place.asks_value = ()
        other = request_of(risk=Risk.LOW, letter="", input={"action": "type", "text": "rm -rf"})
        place.ask_for(other)
        await until(pilot, lambda: "rm -rf" in drawn(app, "#card"))
        await press(pilot, "a")
        await pilot.pause()
        assert place.decided == []
        await until(pilot, lambda: card_of(app)._arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
    assert place.decided[0][1] == other.subject_digest


async def test_masked_fields_count_as_unread_until_revealed() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(masked=("/text",)))
        clock.advance(5)
        await press(pilot, "a")
        assert "reveal" in drawn(app, "#card-keys")
        assert not card_of(app)._arming.confirm_open(clock())
        await press(pilot, "v")
        await until(pilot, lambda: card_of(app)._arming.end_seen)
        clock.advance(5)
        await press(pilot, "a")
        assert card_of(app)._arming.confirm_open(clock())


async def test_help_over_the_card_disarms_it() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of(risk=Risk.LOW, letter=""))
        clock.advance(5)
        await press(pilot, "question_mark", "a", "escape", "a")
        await pilot.pause()
        assert place.decided == []
        assert isinstance(app.screen, RequestScreen)
