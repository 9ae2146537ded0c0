"""The console in a real pseudo-terminal: hostile names in, and not one byte of them obeyed."""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATHS = [str(ROOT / name) for name in ("core", "tui", "sidecars", "tests", "tests/flytui/console")]
CHILD = """
import anyio
from test_console_hostile import BIDI, C0, C1, HIDDEN, hostile_world
from kits.console import at_once
from flytui.console.run import RootParts, run_console
place = hostile_world(C0 + C1 + BIDI + HIDDEN + "the end")
anyio.run(lambda: run_console([RootParts(title=C0 + "\\x1bshop", open_kernel=at_once(place))]))
"""
DEADLINE_S = 60
FORBIDDEN = [
    "\x1b]0;owned",
    "\x1b]8;;",
    "\x1b]52;",
    "\x9b",
    "\x9d",
    "\x90",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
]


def test_no_payload_byte_is_written_to_the_terminal() -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=follower, stdout=follower, stderr=follower, env=environ
    ) as child:
        os.close(follower)
        try:
            trust = read_until(leader, "trust nothing now")
            os.write(leader, b"\x1b")
            catalog = read_until(leader, "WHY")
            os.write(leader, b"3")
            activity = read_until(leader, "running")
        finally:
            child.terminate()
            os.close(leader)
    for text in (trust, catalog, activity):
        assert [bad for bad in FORBIDDEN if bad in text] == []
    assert "⟦U+001B⟧" in trust
    assert "⟦U+001B⟧" in catalog


def read_until(leader: int, words: str) -> str:
    """What the terminal was sent until those words came."""
    text = b""
    ends = time.monotonic() + DEADLINE_S
    with selectors.DefaultSelector() as selector:
        selector.register(leader, selectors.EVENT_READ)
        while words.encode() not in text:
            if not selector.select(max(0.0, ends - time.monotonic())):
                pytest.fail(f"{words!r} never came; the last of what did: {text[-600:]!r}")
            text += os.read(leader, 65_536)
    return text.decode("utf-8", "replace")
