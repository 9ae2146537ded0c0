"""Suite S16: a console on a terminal that sends anything, changes its size without end, and stops reading."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from flytui.console.terminal_input import drawable_size
from kits.pty_console import READY, PtyConsole, pty_console

pytestmark = [pytest.mark.suite, pytest.mark.long]
FULL = os.environ.get("FLYTUI_SUITES") == "full"
MAX_MIB = 300
LEAVING = b"q\x11\x1aQ"
"""Keys that end or suspend the console, as they should."""
APPROVING = b"a"
END_OF_ANYTHING = b"\x1b\\\x07\x1b[201~"


def lives(console: PtyConsole) -> dict[str, object]:
    """Assert that the console still answers and is no larger than it may be; gives its report."""
    report = console.tell("report")
    assert report["peak_mib"] < MAX_MIB, report
    return report


def random_bytes(chance: random.Random) -> bytes:
    """A random string of bytes, often in the form of a sequence."""
    data = chance.randbytes(chance.randrange(1, 16))
    opening = chance.choice(
        (b"", b"", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b[<", b"\x1b[?", b"\x1b[M", b"\x1bO")
    )
    # A key that follows a pause of the machine is one that a person has pressed after a pause.
    left_out = LEAVING if opening else LEAVING + APPROVING
    return opening + bytes(byte for byte in data if byte not in left_out)


def test_random_bytes_neither_end_the_console_nor_approve_anything() -> None:
    chance = random.Random(16)
    with pty_console() as console:
        console.ask("r1", risk="high")
        console.ask("r2")
        for _ in range(5_000 if FULL else 200):
            console.type(random_bytes(chance))
            if chance.random() < 0.02:
                console.type(END_OF_ANYTHING)
                lives(console)
        console.type(END_OF_ANYTHING)
        report = lives(console)
        assert report["dropped"]
        choices = {choice for _, choice, _ in console.decided}
    assert choices <= {"deny", "block"}


def test_sequences_that_ended_the_console_leave_the_card_as_it_was() -> None:
    attacks = (
        b"\xff\x9b\x9d\x90\xc3\xe2\x82\xf0\x9f",
        b"\x1b[97;1:3u\x1b[97:65;2u\x1b[99999999u\x1b[1;1:3A",
        b"\x1b[M\xff\xff\xff\x1b[M !!\x1b[<0;-1;-1M\x1b[<65;99999;99999M",
        b"\x1b[48;4294967295;4294967295;1;1t\x1b[48;10000;10000;0;0t\x1b[8;9999;9999t",
        b"\x1b[?2048;2$y\x1b[48;60000;60000;1;1t\x1b[?2026;1$y",
        b"\x1b]11;rgb:aaaa/aaaa/aaaa\x1b\\\x1bPaaaa\x1b\\\x1b[24;80R\x1b[?62;1;4c",
        b"\x1b[200~aaaa\x1b[48;9999;9999;1;1t\x1b[201~",
    )
    with pty_console() as console:
        console.ask()
        console.sees(READY)
        for attack in attacks:
            console.type(attack)
            console.type(END_OF_ANYTHING)
            report = lives(console)
            assert (report["decided"], report["screen"]) == ([], "RequestScreen"), attack
            assert report["size"] == [100, 40], attack
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_storm_of_sizes_is_survived_and_approves_nothing() -> None:
    chance = random.Random(61)
    odd = ((1, 1), (65_535, 65_535), (10_000, 10_000), (1, 500), (300, 1), (0, 0), (10_001, 40))
    with pty_console() as console:
        console.ask()
        console.sees(READY)
        for number in range(10_000 if FULL else 300):
            usual = (chance.randrange(1, 240), chance.randrange(1, 80))
            console.resize(*(chance.choice(odd) if chance.random() < 0.2 else usual))
            if number % 50 == 0:
                columns, rows = lives(console)["size"]  # type: ignore[misc]  # two numbers, from JSON
                assert drawable_size(columns, rows)
        console.resize(90, 30)
        console.wait_report("the last size", lambda report: report["size"] == [90, 30])
        assert lives(console)["decided"] == []
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_stops_around_paints_and_storms_of_signals_approve_nothing() -> None:
    chance = random.Random(7)
    with pty_console() as console:
        console.ask()
        # A card does not open by itself where a key was pressed just before it.
        console.wait_report("a card", lambda report: report["screen"] == "RequestScreen")
        for _ in range(40 if FULL else 3):
            time.sleep(chance.random() * 0.3)  # a stop at any moment of a paint; nothing waits for it
            for _ in range(20):
                console.send_signal(signal.SIGWINCH)
            console.stop()
            console.type("a")
            console.tell_later(signal.SIGCONT)
            console.wait_report("a card", lambda report: report["screen"] == "RequestScreen")
        assert lives(console)["decided"] == []


def test_a_console_that_was_suspended_draws_its_card_again_and_arms_it_anew() -> None:
    with pty_console() as console:
        console.ask()
        console.sees(READY)
        console.stop(signal.SIGTSTP)
        since = console.position
        console.send_signal(signal.SIGCONT)
        console.sees("keys not ready", since)
        console.sees(READY, since)
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_persons_day_at_a_terminal_loses_nothing_and_approves_nothing_by_accident() -> None:
    with pty_console(size=(120, 40)) as console:
        # A card opens by itself only where no key was pressed just before it.
        console.ask()
        console.sees(READY)
        console.type(b"\xff")
        console.type(b"\x1b[97;1:3u\x1b[1;1:3A\x1b[<35;10;5M\x1b[<0;10;5M\x1b[<0;10;5m\x1b[M !!")
        console.resize(1, 1)
        console.wait_report("the smallest size", lambda report: report["size"] == [1, 1])
        # From here on: keys that were ready before the card had one cell say nothing of the card after it.
        since = console.position
        console.resize(120, 40)
        console.sees(READY, since)
        console.press_until("r", "the prompt", lambda report: report["texts"] == [""])
        console.type(b"\x1b[200~" + "zu früh, bitte später".encode("latin-1") + b"\x1b[201~")
        console.type(", danke \xff".encode("latin-1"))
        console.wait_text("zu fr\ufffdh, bitte sp\ufffdter, danke \ufffd")
        since = console.position
        console.type("\x1b")
        console.wait_screen("RequestScreen")
        console.sees(READY, since)
        console.stop()
        console.type("aa")
        since = console.position
        console.tell_later(signal.SIGCONT)
        console.sees(READY, since)
        since = console.position
        console.tell("jump", seconds=86_400)
        console.sees("keys not ready", since)
        console.sees(READY, since)
        assert lives(console)["decided"] == []
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_ends_the_console_restores_the_terminal(number: signal.Signals) -> None:
    with pty_console() as console:
        console.ask()
        console.sees(READY)
        since = console.position
        console.send_signal(number)
        assert console.process.wait(60) == 128 + number
        console.sees("\x1b[?1049l", since)
        console.sees("\x1b[?25h", since)


def test_what_was_asked_while_the_terminal_did_not_read_is_not_approved_by_keys_of_that_time() -> None:
    with pty_console() as console:
        console.ask("r1")
        console.sees(READY)
        console.stop_reading()
        console.ask("r2", input={"text": "other"})
        console.press_until("d", "the answer", lambda report: len(report["decided"]) == 1)
        console.type("n")
        console.wait_unarmed()
        if FULL:
            time.sleep(10)
        console.type("a")
        since = console.position
        console.read_on()
        console.sees(READY, since)
        assert [name for name, *_ in console.decided] == ["r1"]
        lives(console)
