"""A screenshot is seen in the terminal: half blocks in the colours that were on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.scenes import allow, call
from kits.terminals import Root, console, display, make_root, needs, until, xterm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
GREEN, BLUE = (10, 200, 30), (20, 40, 220)
PAINT = """
import sys, time
sys.stdout.write("\\x1b]11;#0ac81e\\x07\\x1b[?25l\\x1b[2J")
for row in range(1, 18):
    sys.stdout.write(f"\\x1b[{row};1H\\x1b[48;2;20;40;220m" + " " * 110)
sys.stdout.flush()
open(sys.argv[1], "w").close()
time.sleep(600)
"""
"""The upper half of the window is blue, the lower one the window's own green."""
_INK = re.compile(r"\x1b\[[0-9;]*?38;2;(\d+);(\d+);(\d+)")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "xterm", "xdotool")
    root = make_root(tmp_path, only=("computer.native",))
    root.extra["COLORTERM"] = "truecolor"
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        allow(root, "screen.screenshot")
        yield root
        root.end()


def near(colour: tuple[int, ...], wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - two) <= 24 for one, two in zip(colour, wanted, strict=True))


def test_the_colours_of_the_screen_are_the_colours_of_the_cells(root: Root, tmp_path: Path) -> None:
    painted = tmp_path / "painted"
    with (
        xterm(root.extra["DISPLAY"], "painted", "python3", "-c", PAINT, str(painted)),
        console(root, 120, 40) as tmux,
    ):
        until("the window is painted", painted.exists)
        tmux.sees(r"available +screen\.screenshot")
        code, result = call(root, "screen.screenshot", {})
        assert code == 0, result
        tmux.keys("3")
        tmux.sees(r"success +screen\.screenshot")
        tmux.keys("Enter")
        tmux.sees("▀")
        drawn = tmux.run("capture-pane", "-p", "-e")
        inks = [tuple(map(int, found)) for found in _INK.findall(drawn)]
        blue, green = ([at for at, ink in enumerate(inks) if near(ink, wanted)] for wanted in (BLUE, GREEN))
        assert blue, drawn
        assert green, drawn
        assert blue[0] < green[0]
