"""A card's keys are ready only while the window of the console has the keyboard."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flytui.console.screens.arming import NO_KEYBOARD
from kits.pty_console import READY, PtyConsole, pty_console
from kits.terminals import (
    RECORDER,
    Root,
    Tmux,
    display,
    make_root,
    needs,
    until,
    xdotool,
    xterm,
)
from kits.waits import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
FOCUS_IN, FOCUS_OUT = b"\x1b[I", b"\x1b[O"
READING_SECONDS = 0.6
"""What a person takes to find the letter: pressed sooner than 0.3 s it does not count."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "openbox", "xdotool", "xterm")
    root = make_root(tmp_path, only=("computer.native",))
    with display() as name:
        root.extra["DISPLAY"] = name
        manager = subprocess.Popen(["openbox", "--sm-disable"], env=root.environ, stderr=subprocess.DEVNULL)
        try:
            root.trust()
            yield root
        finally:
            root.end()
            manager.terminate()
            manager.wait(PATIENCE)


@contextmanager
def desktop(root: Root, typed: Path, *, reports: bool) -> Iterator[tuple[Tmux, str, str]]:
    """A window of the agent that records what is typed into it, and beside it one with the console in tmux,
    which reports the focus or does not; gives tmux and both windows."""
    name, tmux = root.extra["DISPLAY"], Tmux(root, 100, 30)
    settings = root.home / "tmux.conf"
    settings.write_text(f"set -s focus-events {'on' if reports else 'off'}\n")
    console = ["tmux", "-f", str(settings), "-S", tmux.socket, "new-session", *root.argv()]
    here, there = ["-geometry", "100x31+0+0"], ["-geometry", "60x10+640+500"]
    with (
        xterm(name, "target", sys.executable, "-c", RECORDER, str(typed), options=there) as target,
        xterm(name, "console", *console, environ=root.environ, options=here) as seat,
    ):
        try:
            until("the recorder is ready", typed.exists)
            tmux.sees(r"available +computer\.keyboard")
            yield tmux, seat, target
        finally:
            tmux.end()


def ask_to_type(root: Root, text: str) -> subprocess.Popen[str]:
    wanted = {"action": "type", "text": text, "window": "target"}
    return root.start("call", "computer.keyboard", json.dumps(wanted), "--json")


def approve_by_hand(tmux: Tmux, name: str, agent: subprocess.Popen[str]) -> None:
    """Press `a`, and then the letter of the card, on the keyboard of the display."""

    def pressed() -> bool:
        if agent.poll() is None and READY in tmux.screen():
            letter = tmux.sees(r"then ‹(.)›")[1]
            xdotool(name, "key", "a")
            tmux.lacks(READY)
            if "any other key does not approve" in tmux.screen():
                time.sleep(READING_SECONDS)
                xdotool(name, "key", letter)
                tmux.lacks("any other key does not approve")
        return "1 waiting" not in tmux.screen()

    tmux.sees(READY)
    until("the answer is taken", pressed)
    out, err = agent.communicate(timeout=PATIENCE)
    assert json.loads(out)["status"] == "success", err


def test_the_card_after_an_action_waits_until_its_own_window_has_the_keyboard(
    root: Root, tmp_path: Path
) -> None:
    name, typed = root.extra["DISPLAY"], tmp_path / "typed"
    with desktop(root, typed, reports=True) as (tmux, seat, target):
        xdotool(name, "windowactivate", "--sync", seat)
        agent = ask_to_type(root, "one ")
        approve_by_hand(tmux, name, agent)
        until("the text in the window", lambda: typed.read_bytes() == b"one ")

        agent = ask_to_type(root, "two")
        tmux.sees('type "two"')
        tmux.sees(NO_KEYBOARD)
        assert xdotool(name, "getwindowfocus") == target
        xdotool(name, "key", "a")
        until("the key in the window that has the keyboard", lambda: typed.read_bytes() == b"one a")
        assert READY not in tmux.screen()
        assert agent.poll() is None

        xdotool(name, "mousemove", "--window", seat, "300", "200", "click", "1")
        tmux.sees(READY)
        assert agent.poll() is None
        xdotool(name, "windowactivate", "--sync", target)
        tmux.sees(NO_KEYBOARD)
        xdotool(name, "windowactivate", "--sync", seat)
        tmux.sees(READY)
        approve_by_hand(tmux, name, agent)
        until("the text in the window", lambda: typed.read_bytes() == b"one atwo")


def test_a_terminal_that_reports_no_focus_is_believed(root: Root, tmp_path: Path) -> None:
    name = root.extra["DISPLAY"]
    with desktop(root, tmp_path / "typed", reports=False) as (tmux, seat, target):
        xdotool(name, "windowactivate", "--sync", target)
        agent = ask_to_type(root, "one")
        tmux.sees(READY)
        xdotool(name, "windowactivate", "--sync", seat)
        approve_by_hand(tmux, name, agent)


def out_before_the_card(console: PtyConsole) -> None:
    console.type(FOCUS_OUT)
    console.ask()
    console.wait_screen("RequestScreen")


def out_after_the_card(console: PtyConsole) -> None:
    console.ask()
    console.sees(READY)
    console.type(FOCUS_OUT)


def out_with_the_key(console: PtyConsole) -> None:
    """The report comes in the same read as the key that was pressed after it."""
    console.ask()
    console.sees(READY)
    console.type(FOCUS_OUT + b"a")


def in_with_the_key(console: PtyConsole) -> None:
    out_after_the_card(console)
    console.sees(NO_KEYBOARD)
    console.type(b"a" + FOCUS_IN + b"a" + FOCUS_OUT)


@pytest.mark.parametrize("out", [out_before_the_card, out_after_the_card, out_with_the_key, in_with_the_key])
def test_a_key_counts_only_once_the_keyboard_was_back_for_the_time_of_a_new_card(
    out: Callable[[PtyConsole], None],
) -> None:
    with pty_console() as console:
        out(console)
        console.sees(NO_KEYBOARD)
        since = console.position
        console.type("a")
        console.type(FOCUS_IN + b"a")
        console.sees(READY, since)
        assert console.decided == []
        assert console.press_until_decided("a") == [["r1", "approve-once", ""]]


def test_a_person_may_deny_whatever_the_terminal_says(tmp_path: Path) -> None:
    with pty_console() as console:
        out_after_the_card(console)
        console.sees(NO_KEYBOARD)
        console.type("d")
        assert console.wait_decided()[0][:2] == ["r1", "deny"]
