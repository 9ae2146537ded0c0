"""Which window a keyboard call acts in, and that it is never the console's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kits.terminals import Root, Tmux, console, display, make_root, needs, recorder, until, xdotool, xterm
from kits.waits import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
TYPE = {"action": "type", "text": "hello"}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "openbox", "xdotool", "xterm")
    root = make_root(tmp_path, only=("computer.native",))
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        yield root
        root.end()


@contextmanager
def console_window(root: Root, shown_on: str, *environ: str) -> Iterator[tuple[Tmux, str]]:
    """A window with the console in tmux on that display; the tools of its kernel use the root's own."""
    tmux = Tmux(root, 100, 30)
    command = ["tmux", "-f", "/dev/null", "-S", tmux.socket, "new-session", *root.argv()]
    chosen = ["env", f"DISPLAY={root.extra['DISPLAY']}", *environ]
    with xterm(shown_on, "console", *chosen, *command, environ=root.environ) as seat:
        try:
            tmux.sees(r"available +computer\.keyboard")
            yield tmux, seat
        finally:
            tmux.end()


def start(root: Root, **more: str) -> subprocess.Popen[str]:
    agent: subprocess.Popen[str] = root.start(
        "call", "computer.keyboard", json.dumps({**TYPE, **more}), "--json"
    )
    return agent


def end_of(agent: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = agent.communicate(timeout=PATIENCE)
    return dict(json.loads(out))


def test_with_the_console_in_front_the_card_names_the_window_behind_it(root: Root, tmp_path: Path) -> None:
    name, typed = root.extra["DISPLAY"], tmp_path / "typed"
    with recorder(name, "target", typed), console_window(root, name) as (tmux, seat):
        xdotool(name, "windowfocus", "--sync", seat)
        agent = start(root)
        tmux.sees('type "hello" into "target"')
        assert end_of(start(root, window=seat))["error"]["code"] == "invalid-input"
        tmux.decide("d")
        assert end_of(agent)["error"]["code"] == "denied"
    assert typed.read_bytes() == b""


@pytest.mark.parametrize("beside", [True, False])
def test_a_window_with_the_id_of_the_console_s_is_another_one_on_another_display(
    root: Root, tmp_path: Path, beside: bool
) -> None:
    name, typed = root.extra["DISPLAY"], tmp_path / "typed"
    with (
        display() as other,
        recorder(name, "target", typed) as target,
        # Two displays give equal ids by chance, so the one of the console is set.
        console_window(root, other if beside else name, f"WINDOWID={target}") as (tmux, _),
    ):
        xdotool(name, "windowfocus", "--sync", target)
        agent = start(root)
        if beside:
            tmux.sees('type "hello" into "target"')
            tmux.decide("d")
        assert end_of(agent)["error"]["code"] == ("denied" if beside else "invalid-input")


def test_a_window_in_which_nobody_works_is_no_target(root: Root) -> None:
    """While no program has the focus, a window manager gives it to a window of its own."""
    name = root.extra["DISPLAY"]
    manager = subprocess.Popen(["openbox", "--sm-disable"], env=root.environ, stderr=subprocess.DEVNULL)
    try:
        with console(root) as tmux:
            tmux.sees(r"available +computer\.keyboard")
            until("the focus of the window manager", lambda: xdotool(name, "getwindowfocus"))
            result = end_of(start(root))
    finally:
        manager.terminate()
        manager.wait(PATIENCE)
    assert result["error"]["code"] == "invalid-input"
    assert "no window has the focus" in result["error"]["message"]
