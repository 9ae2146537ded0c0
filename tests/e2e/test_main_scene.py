"""The main scene: an agent wants to type, a person reads the card and decides, and that is what happens."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.terminals import BIN, Root, console, display, make_root, needs, recorder, until, xdotool, xterm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
TYPED = "hello from an agent"
READY = "keys ready ●"
READING_SECONDS = 0.6
"""What a person takes to find the letter: pressed sooner than 0.3 s it does not count."""
CONFIRM = "any other key does not approve"
CARD = r"then ‹(.)›"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "xdotool", "xterm")
    root = make_root(tmp_path, only=("computer.native",))
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        yield root
        root.end()


def keyboard(text: str, **more: str) -> str:
    return json.dumps({"action": "type", "text": text, **more})


def test_an_agent_types_what_a_person_approved(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root) as tmux:
        tmux.sees(r"available +computer\.keyboard")
        agent = root.start("call", "computer.keyboard", keyboard(TYPED), "--json")
        letter = tmux.sees(CARD)[1]

        tmux.keys("a", letter, "Enter")
        tmux.sees(READY)
        assert agent.poll() is None
        assert typed.read_bytes() == b""

        tmux.keys("Enter")
        tmux.lacks(READY)
        tmux.sees(READY)
        assert agent.poll() is None
        assert typed.read_bytes() == b""

        until("the answer is taken", lambda: _press(tmux, letter, agent))
        out, err = agent.communicate(timeout=60)
        result = json.loads(out)
        assert (agent.returncode, result["status"]) == (0, "success"), err
        until("the text in the window", lambda: typed.read_bytes() == TYPED.encode())

        verified = root.flytui("audit", "verify")
        assert verified.returncode == 0, verified.stdout
    lines = [line for line in root.audit() if line.get("callId") == result["callId"]]
    events = [line["event"] for line in lines]
    assert events == ["TOOL_CALLED", "APPROVAL_ASKED", "APPROVAL_DECIDED", "TOOL_STARTED", "TOOL_EXECUTED"]
    assert len({line["subject"] for line in lines[1:]}) == 1
    assert lines[3]["level"] == "host-control"


def _press(tmux, letter: str, agent) -> bool:  # type: ignore[no-untyped-def]  # the kit's Tmux, a Popen
    """Press `a`, then the letter while the window for it is open; whether the card has been answered."""
    if agent.poll() is not None:
        return True
    if READY in tmux.screen():
        tmux.keys("a")
        tmux.lacks(READY)
        if CONFIRM in tmux.screen():
            time.sleep(READING_SECONDS)
            tmux.keys(letter)
            tmux.lacks(CONFIRM)
    return not re.search(r"1 waiting", tmux.screen())


def test_a_denial_with_a_reason_reaches_the_caller_and_nothing_is_typed(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root) as tmux:
        tmux.sees(r"available +computer\.keyboard")
        agent = root.start("call", "computer.keyboard", keyboard(TYPED), "--json")
        tmux.sees(CARD)
        tmux.sees(READY)
        tmux.keys("r")
        tmux.sees("(?i)reason")
        tmux.text("wrong window, ask again")
        tmux.sees("wrong window, ask again")
        tmux.keys("Enter")
        out, _ = agent.communicate(timeout=60)
    result = json.loads(out)
    assert (agent.returncode, result["status"], result["error"]["code"]) == (4, "denied", "denied")
    assert "wrong window, ask again" in result["error"]["message"]
    assert typed.read_bytes() == b""


def test_approved_text_cannot_approve_the_next_request(root: Root, tmp_path: Path) -> None:
    """The console stands in an xterm on the very display the keyboard tool drives. The approved text holds
    approve keys; a second request waits. Whatever the tool presses, it stays waiting."""
    name = root.extra["DISPLAY"]
    typed = tmp_path / "typed"
    command = [str(BIN / "flytui"), "--root", str(root.folder)]
    with recorder(name, "target", typed), console_in_xterm(root, name, command) as seat:
        until("the console is ready", lambda: _waiting(root) == 0)
        attack = keyboard("aaaa" + "abcdefghijklmnopqrstuvwxyz" * 6, window="target")
        first = root.start("call", "computer.keyboard", attack, "--json")
        until("the first request", lambda: _waiting(root) == 1)
        second = root.start("call", "computer.keyboard", keyboard("second"), "--json")
        until("the second request", lambda: _waiting(root) == 2)

        _approve_by_hand(root, name, seat, first)
        out, _ = first.communicate(timeout=120)
        result = json.loads(out)
        assert result["status"] == "success", result
        until("the attack arrived in its window", lambda: typed.read_bytes().endswith(b"xyz"))

        assert second.poll() is None
        assert _waiting(root) == 1
        own = root.flytui("call", "computer.keyboard", keyboard("x", window=seat), "--json")
        assert json.loads(own.stdout)["error"]["code"] == "invalid-input"
        second.terminate()
        second.communicate(timeout=60)
    decided = [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert [line["decision"] for line in decided].count("approved") == 1


def console_in_xterm(root: Root, name: str, command: list[str]):  # type: ignore[no-untyped-def]  # a context manager
    return xterm(name, "console", *command, environ=root.environ)


def _waiting(root: Root) -> int:
    shown = root.flytui("status", "--json")
    kernel = json.loads(shown.stdout).get("kernel") or {}
    return int(kernel["waiting"]) if kernel.get("approver") else -1


def _approve_by_hand(root: Root, name: str, seat: str, agent) -> None:  # type: ignore[no-untyped-def]  # a Popen
    """Find the letter by pressing each in its own window, as a person who reads it would press one.

    The person's hands are xdotool outside every tool call; the letter is not on any channel but the
    screen, so the keys are tried one after the other: each wrong one closes the window again.
    """
    xdotool(name, "windowfocus", "--sync", seat)
    xdotool(name, "key", "--delay", "200", "ctrl+o", "End", "Next", "Next", "Next")
    letters = iter("cgijkmoqsyz" * 3)

    def try_next() -> bool:
        if agent.poll() is not None or _waiting(root) == 1:
            return True
        xdotool(name, "key", "--delay", "500", "a", next(letters))
        return False

    until("the first card approved", try_next)
