"""A terminal that is not looked at is told how many wait and how bad; one that is, and what, never."""

from __future__ import annotations

import os
import pty
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flycore.model.enums import Risk
from flytui.console.controllers.terminal_title import notice_sequence
from flytui.console.kernel_connection import OpenConnection
from flytui.console.state import ConsoleState
from kits.console import app_of, until
from kits.fake_kernel import world
from kits.values import request_of

ROOT = Path(__file__).resolve().parents[4]
PATHS = [str(ROOT / name) for name in ("core", "tui", "sidecars", "tests")]
DEADLINE_S = 60
CHILD = """
import anyio
from kits.console import app_of
from kits.values import request_of
from kits.fake_kernel import world
async def later(app, place):
    while app.state.status is None or not app.is_running:
        await anyio.sleep(0.01)
    place.ask_for(request_of("r1"))
    while app.app_focus:
        await anyio.sleep(0.01)
    place.ask_for(request_of("r2"))
async def main():
    place = world()
    app = app_of(place)
    async with anyio.create_task_group() as group:
        group.start_soon(later, app, place)
        await app.run_async()
anyio.run(main)
"""


def test_only_a_terminal_without_focus_is_sent_a_notice() -> None:
    leader, follower = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=follower, stdout=follower, stderr=follower, env=environ
    ) as child:
        os.close(follower)
        try:
            focused = read_until(leader, "1 waiting · type")
            os.write(leader, b"\x1b[O")
            away = read_until(leader, "\x1b]777;")
        finally:
            child.terminate()
            os.close(leader)
    assert "\x1b]9;" not in focused
    assert "\x07" in focused
    assert re.findall(r"\x1b\]9;([^\x07]*)\x07", away) == [
        "flytui: 2 waiting, high: type “hello from an agent” into “xterm”"
    ]


def test_a_notice_says_what_the_first_request_would_do() -> None:
    place = world()
    place.ask_for(request_of(tool="secret.tool", risk=Risk.CRITICAL, letter="cgij", effect="run \x07\u202ex"))
    desk = ConsoleState(connection=OpenConnection(place, place), title="/srv/shop", asks=place.asks_value)
    assert notice_sequence(desk.shared) == (
        "\x1b]9;flytui: 1 waiting, critical: run ⟦U+0007⟧⟦U+202E⟧x\x07"
        "\x1b]777;notify;flytui;1 waiting, critical: run ⟦U+0007⟧⟦U+202E⟧x\x07"
    )


def read_until(leader: int, words: str) -> str:
    """What the terminal was sent until it holds `words` and a little more."""
    seen = b""
    end = time.monotonic() + DEADLINE_S
    with selectors.DefaultSelector() as selector:
        selector.register(leader, selectors.EVENT_READ)
        while time.monotonic() < end:
            if selector.select(0.1):
                seen += os.read(leader, 65_536)
            if words in seen.decode("utf-8", "replace"):
                return seen.decode("utf-8", "replace")
    raise AssertionError(f"{words!r} never came; the last of what did: {seen[-800:]!r}")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("decision", "words"), [("made", "made: its holder is admitted as"), ("revoked", "revoked:")]
)
async def test_a_token_that_was_made_or_revoked_is_told(decision: str, words: str) -> None:
    place = world()
    app = app_of(place)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: place.streams and app.state.status is not None)
        place.publish(
            "token.changed", name="ci\x1b[2J", decision=decision, by="flytui token, bash via socket"
        )
        await until(pilot, lambda: app._notifications)
        (told,) = (note.message for note in app._notifications)
        assert (words in told, "ci" in told, "bash via socket" in told, "\x1b" in told) == (
            True,
            True,
            True,
            False,
        )
