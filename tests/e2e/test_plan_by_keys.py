"""A plan of three actions on a display: a card for each, or one lease; a denial or a cancel ends it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.terminals import Root, Tmux, console, display, make_root, needs, recorder, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
READY = "keys ready ●"
CONFIRM = "any other key does not approve"
READING_SECONDS = 0.6
"""What a person takes to find the letter: pressed sooner than 0.3 s it does not count."""
LETTER = r"press +(\w) +to"
"""What the open window for the letter says."""
CARD = r"step {} of 3 of computer\.use"
PLAN = {
    "plan": [
        {"action": "type", "text": "one", "window": "target"},
        {"action": "key", "keys": "Tab", "window": "target"},
        {"action": "type", "text": "two;$(x)", "window": "target"},
    ]
}
TYPED = b"one\ttwo;$(x)"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "xdotool", "xterm")
    root = make_root(tmp_path, only=("computer.native",))
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        yield root
        root.end()


def decide(tmux: Tmux, number: int, key: str) -> None:
    """On the card of that step press the key and, where it asks for it, the letter."""
    card = CARD.format(number)
    tmux.sees(card)
    letter = tmux.sees(r"then ‹(.)›")[1]

    def gone() -> bool:
        if READY in tmux.screen():
            tmux.keys(key)
            tmux.lacks(READY)
            if CONFIRM in tmux.screen():
                time.sleep(READING_SECONDS)
                tmux.keys(letter)
                tmux.lacks(CONFIRM)
        return not re.search(card, tmux.screen())

    until(f"step {number} is decided", gone)


def outcome(agent: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = agent.communicate(timeout=60)
    assert "Traceback" not in err, err
    result: dict[str, Any] = json.loads(out)
    return result


def family(root: Root, parent: str, event: str) -> list[dict[str, Any]]:
    """The lines of the plan's steps."""
    return [line for line in root.audit() if line["event"] == event and line.get("parentCallId") == parent]


def test_three_actions_three_approvals_and_three_lines_with_one_parent(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root, 120, 60) as tmux:
        tmux.sees(r"available +computer\.use")
        agent = root.start("call", "computer.use", json.dumps(PLAN), "--json")
        for number in (1, 2, 3):
            decide(tmux, number, "a")
        result = outcome(agent)
        assert (agent.returncode, result["status"]) == (0, "success"), result
        until("all of it in the window", lambda: typed.read_bytes() == TYPED)
        tmux.keys("3")
        tmux.sees(r"success +computer\.use")
        tmux.sees(r"step 3 of 3 of computer\.use")
    ends = family(root, result["callId"], "TOOL_EXECUTED")
    assert [line["tool"] for line in ends] == ["computer.keyboard"] * 3
    assert [line["status"] for line in ends] == ["success"] * 3
    assert len({line["callerKey"] for line in ends}) == 1
    authorities = {line["authority"] for line in family(root, result["callId"], "TOOL_STARTED")}
    assert len(authorities) == 3
    assert all(words.startswith("request ") for words in authorities)
    verified = root.flytui("audit", "verify")
    assert verified.returncode == 0, verified.stdout


def test_one_lease_and_nothing_more_is_asked(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root, 120, 60) as tmux:
        tmux.sees(r"available +computer\.use")
        agent = root.start("call", "computer.use", json.dumps(PLAN), "--json")
        tmux.sees(CARD.format(1))
        tmux.sees(READY)
        tmux.keys("l")
        tmux.sees("To be allowed for a while")

        def approved() -> bool:
            if f"│ {READY}" in tmux.screen():
                tmux.keys("a")
                # A console that stood still drops the key; then it is pressed again.
                tmux.lacks(READY)
                if letter := re.search(LETTER, tmux.screen()):
                    time.sleep(READING_SECONDS)
                    tmux.keys(letter[1])
            return "To be allowed for a while" not in tmux.screen()

        until("the lease is approved", approved)
        result = outcome(agent)
        assert (agent.returncode, result["status"]) == (0, "success"), result
        until("all of it in the window", lambda: typed.read_bytes() == TYPED)
    words = [line["authority"].split()[0] for line in family(root, result["callId"], "TOOL_STARTED")]
    assert words == ["request", "lease", "lease"]
    assert len([line for line in root.audit() if line["event"] == "APPROVAL_ASKED"]) == 1


def test_a_denial_of_the_second_step_keeps_the_third_from_running(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root, 120, 60) as tmux:
        tmux.sees(r"available +computer\.use")
        agent = root.start("call", "computer.use", json.dumps(PLAN), "--json")
        decide(tmux, 1, "a")
        decide(tmux, 2, "d")
        result = outcome(agent)
        assert (agent.returncode, result["status"], result["error"]["code"]) == (4, "denied", "denied")
        steps = [step["status"] for step in result["error"]["details"]["steps"]]
        assert steps == ["success", "denied", "not-run"]
        assert typed.read_bytes() == b"one"
    assert len(family(root, result["callId"], "TOOL_STARTED")) == 1
    assert len(family(root, result["callId"], "TOOL_CALLED")) == 2


def test_cancelled_in_its_second_step_it_ends_with_its_request(root: Root, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with recorder(root.extra["DISPLAY"], "target", typed), console(root, 120, 60) as tmux:
        tmux.sees(r"available +computer\.use")
        agent = root.start("call", "computer.use", json.dumps(PLAN), "--json")
        decide(tmux, 1, "a")
        tmux.sees(CARD.format(2))
        agent.terminate()
        agent.communicate(timeout=60)
        ended = until("the plan's line", lambda: [
            line
            for line in root.audit()
            if line["event"] == "TOOL_EXECUTED" and line["tool"] == "computer.use"
        ])  # fmt: skip
        assert ended[0]["code"] == "cancelled"
        assert typed.read_bytes() == b"one"
    decided = family(root, ended[0]["callId"], "TOOL_EXECUTED")
    assert [line["status"] for line in decided] == ["success", "failed"]
