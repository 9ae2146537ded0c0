"""Keys count from when they could have been seen: stopped processes, busy loops, terminals that hang."""

from __future__ import annotations

import signal

import pytest

from flytui.console.terminal_pauses import (
    GAP_S,
    IDLE_TICK_S,
    LOST_S,
    RECEIPT_EVERY_S,
    STALL_S,
    TICK_S,
    Heartbeat,
    Receipts,
    boot_time,
)
from kits.console import HandClock
from kits.pty_console import READY, PtyConsole, pty_console


def test_beats_that_follow_one_another_are_no_pause_and_a_gap_is_one() -> None:
    clock = HandClock()
    heart = Heartbeat(clock)
    assert not heart.beat()
    clock.advance(TICK_S)
    assert not heart.beat()
    clock.advance(GAP_S + 0.01)
    assert heart.beat()
    assert not heart.beat()


def test_the_clock_of_pauses_goes_on() -> None:
    assert boot_time() <= boot_time()


def receipts(clock: HandClock) -> tuple[Receipts, list[float]]:
    """Receipts of a terminal, and when it was asked."""
    asked: list[float] = []
    return Receipts(lambda: asked.append(clock()), clock), asked


def test_a_terminal_that_never_answered_is_asked_once_and_believed() -> None:
    clock = HandClock()
    found, asked = receipts(clock)
    numbers = [found.request() for _ in range(3)]
    clock.advance(100)
    found.request_if_due()
    assert all(found.has(number) for number in numbers)
    assert (len(asked), found.stalled) == (1, False)


def test_a_terminal_that_answers_has_read_what_it_answered_and_no_more() -> None:
    clock = HandClock()
    found, asked = receipts(clock)
    found.request()
    found.take_answer()
    first, second = found.request(), found.request()
    assert not found.has(first)
    found.take_answer()
    assert (found.has(first), found.has(second)) == (True, False)
    clock.advance(STALL_S + 0.1)
    assert found.stalled
    found.take_answer()
    assert (found.has(second), found.stalled) == (True, False)
    found.take_answer()
    clock.advance(RECEIPT_EVERY_S)
    found.request_if_due()
    found.request_if_due()
    assert len(asked) == 4


def test_an_answer_that_a_line_lost_is_made_good() -> None:
    clock = HandClock()
    found, _ = receipts(clock)
    found.request()
    found.take_answer()
    found.request()
    clock.advance(LOST_S + 1)
    number = found.request()
    found.take_answer()
    assert not found.has(number)
    number = found.request()
    found.take_answer()
    found.take_answer()
    assert found.has(number)
    assert not found.stalled


def armed(console: PtyConsole, **more: object) -> None:
    """Have a request on screen whose keys are ready."""
    since = console.position
    console.ask(**more)
    console.sees(READY, since)


def still_ready(console: PtyConsole, since: int) -> None:
    """Wait until the card was armed anew after that position."""
    console.sees("keys not ready", since)
    console.sees(READY, since)


@pytest.mark.parametrize("answers", [True, False])
def test_a_key_that_was_pressed_while_the_loop_stood_still_approves_nothing(answers: bool) -> None:
    with pty_console(answers=answers) as console:
        armed(console)
        console.tell("hold")
        console.type("a")
        since = console.position
        console.tell("release")
        still_ready(console, since)
        assert console.decided == []
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_key_that_was_pressed_while_the_process_was_stopped_approves_nothing() -> None:
    with pty_console() as console:
        armed(console, risk="high")
        for keys in ("a", "ak"):
            since = console.position
            console.stop()
            console.type(keys)
            console.tell_later(signal.SIGCONT)
            still_ready(console, since)
        assert console.decided == []


def test_a_key_that_was_pressed_in_a_pause_before_its_card_came_approves_nothing() -> None:
    with pty_console() as console:
        console.wait_report("the slow beats of an idle console", lambda report: report["beat"] == IDLE_TICK_S)
        since = console.position
        console.stop()
        console.order("ask", name="r1")
        console.type("aaa\x0faaa")  # ctrl+o opens the card
        console.tell_later(signal.SIGCONT)
        console.answered()
        console.press_until_screen("\x0f", "RequestScreen")
        console.sees(READY, since)
        assert console.decided == []
        assert console.tell("report")["beat"] == TICK_S
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_key_that_was_pressed_while_the_terminal_hung_approves_nothing() -> None:
    with pty_console() as console:
        armed(console)
        console.stop_reading()
        console.wait_unarmed()
        console.type("a")
        since = console.position
        console.read_on()
        console.sees(READY, since)
        assert console.decided == []
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_card_that_a_hanging_terminal_has_not_taken_is_not_armed() -> None:
    with pty_console() as console:
        console.stop_reading()
        console.ask()
        console.wait_screen("RequestScreen")
        console.type("a")
        since = console.position
        console.read_on()
        console.sees(READY, since)
        assert console.decided == []


def test_a_refusal_and_its_reason_that_were_typed_during_a_pause_count_whole() -> None:
    with pty_console() as console:
        armed(console)
        console.tell("hold")
        console.type("rnot today, thanks")
        console.tell("release")
        console.wait_text("not today, thanks")
        console.type("\r")
        assert console.wait_decided() == [["r1", "deny", "not today, thanks"]]
