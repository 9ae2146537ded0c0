"""`!` in an open console: the demo takes the terminal, and gives it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.terminals import console, make_root, needs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_the_demo_plays_on_this_terminal_and_gives_it_back(tmp_path: Path) -> None:
    needs("tmux")
    root = make_root(tmp_path, only=("mock.echo", "utility.local"))
    root.trust()
    with console(root) as tmux:
        tmux.sees("mock.echo")
        tmux.keys("2")
        tmux.sees("Nothing waits for you")
        tmux.keys("!")
        tmux.sees(r"MEDIUM +demo\.medium")
        tmux.sees("keys ready ●")
        tmux.keys("d")
        tmux.sees(r"HIGH +demo\.high")
        tmux.sees("keys ready ●")
        assert root.flytui("call", "file.hash", "path=tools/external.tools.jsonc").returncode == 0
        tmux.keys("d")
        tmux.lacks(r"(MEDIUM|HIGH) +demo")
        tmux.sees("0 agents")  # leaving asks while one is connected
        tmux.keys("q")
        tmux.sees("Nothing waits for you")
        tmux.keys("1")
        tmux.sees(r"available +file\.hash")
    assert not [line for line in root.audit() if line.get("tool", "").startswith("demo.")]
