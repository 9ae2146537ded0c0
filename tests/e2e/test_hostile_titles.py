"""Suite S5 in window titles: a window of the desktop is named by whoever opened it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.hostile_root import recorded_console, sent_by_console
from kits.payloads import CONSOLE, PAYLOADS, PLAIN, faults, word
from kits.scenes import allow, assert_whole
from kits.terminals import Root, display, make_root, needs, recorder, until, xdotool

pytestmark = [pytest.mark.e2e, pytest.mark.suite, pytest.mark.timeout(300)]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "xdotool", "xterm")
    root = make_root(tmp_path, only=("computer.native",))
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        allow(root, "computer.window")
        yield root
        root.end()


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
def test_a_windows_title_is_shown_and_not_obeyed(root: Root, tmp_path: Path, text: str) -> None:
    name, typed = root.extra["DISPLAY"], tmp_path / "typed"
    with recorder(name, "target", typed) as window, recorded_console(root, tmp_path / "raw") as tmux:
        tmux.sees(r"available +computer\.keyboard")
        xdotool(name, "set_window", "--name", word(text), window)
        listed = root.flytui("call", "computer.window", '{"action": "list"}')
        assert listed.returncode == 0, listed.stderr
        assert "S5!" in listed.stdout
        assert faults(listed.stdout.encode(), PLAIN) == []

        agent = root.start("call", "computer.keyboard", json.dumps({"action": "type", "text": "x"}), "--json")
        tmux.sees("then ‹")
        tmux.sees("THERE")
        tmux.read_card()
        tmux.keys("d")
        out, _ = agent.communicate(timeout=60)
        assert json.loads(out)["status"] == "denied"
        until("the card has gone", lambda: "then ‹" not in tmux.screen())
        raw = sent_by_console(tmux, tmp_path / "raw")
    assert faults(raw, CONSOLE) == []
    assert typed.read_bytes() == b""
    assert_whole(root)
