"""Pictures as pixels: a terminal that speaks kitty's protocol, one that does not, and xterm with sixels."""

from __future__ import annotations

import base64
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from PIL import Image

from flytui.console.terminal_graphics import cell_size
from flytui.text.pixel_graphics import CellSize
from kits.terminals import PATIENCE, display, needs, until, xdotool, xterm

ROOT = Path(__file__).resolve().parents[3]
PATHS = [str(ROOT / name) for name in ("core", "tui", "sidecars", "tests")]
CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from flycore.model.call import Activity, Artifact, Picture, ToolResult
from flycore.model.enums import Level, Phase, Status
from flytui.cli.interrupts import run_async
from flytui.console.run import ConsoleParts, RootParts, run_console
from flytui.console.user_settings import ConsoleSettings
from kits.console import at_once
from kits.fake_kernel import world
from kits.values import CALLER, NOW

pictures, ready = sys.argv[1:]
image = Artifact(path="/srv/shop/shot.png", mime_type="image/png", bytes=1234)
result = ToolResult(
    status=Status.SUCCESS, tool="screen.screenshot", sidecar="computer.native", call_id="c9", duration_ms=40,
    exit_code=0, sandbox=Level.NONE, output={"path": image.path}, artifacts=(image,),
)
call = Activity(
    call_id="c9", tool=result.tool, sidecar=result.sidecar, caller=CALLER, phase=Phase.FINISHED,
    started_at=NOW - 5, input_text="{}", result=result,
)
# Each pixel differs from its neighbours: a cell of half blocks has two colours at most.
rgb = bytes(part for y in range(100) for x in range(160) for part in (x, 2 * y, 255 if x % 2 else 0))
place = world(
    activity_value=(call,), pictures={("c9", 0): Picture(width=160, height=100, rgb=rgb)}
)
parts = ConsoleParts(
    now=lambda: NOW,
    settings=ConsoleSettings(pictures=pictures),
    on_first_values=lambda: Path(ready).touch(),
)
run_async(lambda: run_console([RootParts(title="~/shop", open_kernel=at_once(place))], parts))
"""
LONGEST_QUESTION = 200
AGAIN_S = 5.0
"""How long a key may take before it counts as dropped."""
SEQUENCE = re.compile(r"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")


class Kitty:
    """A terminal that answers as kitty's documentation says, on a pseudo-terminal."""

    def __init__(self, pictures: str, ready: Path, *, speaks: bool = True) -> None:
        self.ready = ready
        self._speaks = speaks
        self._text = ""
        self._changed = threading.Condition()
        self.leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 960, 640))
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "TERM": "xterm-kitty"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environ.pop(name, None)
        self.child = subprocess.Popen(
            [sys.executable, "-c", CHILD, pictures, str(ready)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environ,
            start_new_session=True,
        )
        os.close(follower)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        answered = 0
        while True:
            try:
                data = os.read(self.leader, 65_536)
            except OSError:
                return
            with self._changed:
                self._text += data.decode("utf-8", "replace")
                self._changed.notify_all()
            questions = re.compile(r"\x1b_Gi=(\d+),[^;]*a=q[^;]*;[^\x1b]*\x1b\\|(\x1b\[c)|(\x1b\[5n)")
            for found in questions.finditer(self._text, answered):
                answered = found.end()
                with suppress(OSError):
                    os.write(self.leader, self._answer(found))
            # The beginning of a question may have come without its end.
            answered = max(answered, len(self._text) - LONGEST_QUESTION)

    def _answer(self, question: re.Match[str]) -> bytes:
        if question[1]:
            return f"\x1b_Gi={question[1]};OK\x1b\\".encode() if self._speaks else b""
        return b"\x1b[?62;c" if question[2] else b"\x1b[0n"

    @property
    def text(self) -> str:
        """Everything that was written to the terminal."""
        with self._changed:
            return self._text

    def waits(self, what: str, found: Callable[[str], bool]) -> None:
        """Wait until that holds for what was written: megabytes, of which not every piece is worth a look."""
        until(what, lambda: found(self.text), PATIENCE)

    def type(self, text: str) -> None:
        """Type into the terminal."""
        os.write(self.leader, text.encode())

    def pictures(self, text: str) -> list[dict[str, str]]:
        """The first sequence of each picture, and each removal."""
        keys = [dict(part.split("=") for part in found[1].split(",")) for found in SEQUENCE.finditer(text)]
        return [found for found in keys if found.get("a") in ("T", "d")]

    def open_picture(self) -> None:
        """Open the page of the call whose output is a picture, once the values are there."""
        until("the first values", self.ready.exists)

        # Enter opens nothing before the call is in the list.
        self.presses("3\r", "the page of the call", lambda text: "[Picture]" in text)

    def presses(self, keys: str, what: str, found: Callable[[str], bool]) -> None:
        """Type the keys until that holds for what was written: the console drops a key that came while the
        machine had it stand still."""

        def came() -> bool:
            self.type(keys)
            with self._changed:
                return self._changed.wait_for(lambda: found(self._text), AGAIN_S)

        until(what, came, PATIENCE)


@contextmanager
def kitty(pictures: str, folder: Path, *, speaks: bool = True) -> Iterator[Kitty]:
    terminal = Kitty(pictures, folder / "ready", speaks=speaks)
    try:
        yield terminal
    finally:
        terminal.child.kill()
        terminal.child.wait(PATIENCE)
        os.close(terminal.leader)


def test_kitty_is_asked_and_its_pictures_come_and_go_with_their_page(tmp_path: Path) -> None:
    with kitty("", tmp_path) as terminal:
        terminal.open_picture()
        terminal.waits("the picture", lambda text: any(one["a"] == "T" for one in terminal.pictures(text)))
        shown = next(one for one in terminal.pictures(terminal.text) if one["a"] == "T")
        data = "".join(
            found[2] for found in SEQUENCE.finditer(terminal.text) if "a=q" not in found[1] and found[2]
        )
        assert (shown["s"], shown["v"]) == ("160", "100")
        assert int(shown["c"]) <= 120
        # The data of the first picture; it may have been sent twice where its cells were drawn twice.
        pixels = zlib.decompressobj().decompress(base64.b64decode(data[: len(data) // 4 * 4]))
        assert pixels[:6] == bytes((0, 0, 0, 1, 0, 255))
        # The pixels are no text: half blocks are under them.
        assert "▀" in terminal.text
        terminal.type("\x1b")
        terminal.waits("its removal", lambda text: terminal.pictures(text)[-1].get("d") == "I")
        # Had an answer been taken for keys, another page would be open, and q would not quit.
        # An agent is connected, so that it asks first.
        terminal.presses("q", "the question", lambda text: "stays" in text)
        terminal.type("q")
        assert terminal.child.wait(PATIENCE) == 0
        terminal.waits("the last removal", lambda text: terminal.pictures(text)[-1].get("d") == "A")


def test_a_terminal_without_pictures_gets_none(tmp_path: Path) -> None:
    with kitty("", tmp_path, speaks=False) as terminal:
        terminal.open_picture()
        terminal.waits("the half blocks", lambda text: "▀" in text)
        terminal.presses("t", "the page's next view", lambda text: "[Tree]" in text)
        assert terminal.pictures(terminal.text) == []
        assert "\x1bP" not in terminal.text


def test_a_setting_forbids_pictures_and_then_nothing_is_asked(tmp_path: Path) -> None:
    with kitty("blocks", tmp_path) as terminal:
        terminal.open_picture()
        terminal.waits("the half blocks", lambda text: "▀" in text)
        assert SEQUENCE.search(terminal.text) is None


def test_a_setting_forces_sixels_on_a_terminal_that_was_not_asked(tmp_path: Path) -> None:
    with kitty("sixel", tmp_path) as terminal:
        terminal.open_picture()
        terminal.waits("the sixels", lambda text: '\x1bP0;1;0q"1;1;' in text)
        assert SEQUENCE.search(terminal.text) is None


def test_the_size_of_a_cell_is_what_the_terminal_says_if_it_makes_sense() -> None:
    leader, follower = pty.openpty()
    for size, cell in (
        ((40, 120, 960, 640), CellSize(8, 16)),
        ((40, 120, 0, 0), None),
        ((0, 0, 960, 640), None),
        ((1, 1, 65_535, 65_535), None),
    ):
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", *size))
        assert cell_size(follower) == cell
    os.close(leader)
    os.close(follower)
    assert cell_size(leader) is None


def _colours_in_a_cell(picture: Image.Image) -> int:
    """The most colours in half a cell of the middle of the screen: half blocks have one."""
    half = [
        picture.crop((x, y, x + 5, y + 5)).getcolors(100) or []
        for x in range(100, 300, 7)
        for y in range(120, 300, 7)
    ]
    return max(len(found) for found in half)


@pytest.mark.e2e
def test_xterm_draws_sixels(tmp_path: Path) -> None:
    needs("Xvfb", "xterm", "xdotool", "scrot")
    ready, shot = tmp_path / "ready", tmp_path / "screen.png"
    environ = {"PYTHONPATH": os.pathsep.join(PATHS), "LANG": "C.UTF-8", "HOME": str(tmp_path)}

    with (
        display() as name,
        xterm(
            name,
            "pictures",
            sys.executable,
            "-c",
            CHILD,
            "",
            str(ready),
            environ=environ,
            options=("-ti", "vt340"),
        ) as window,
    ):

        def drawn() -> bool:
            subprocess.run(
                ["scrot", "-o", str(shot)], env={"DISPLAY": name, "PATH": "/usr/bin:/bin"}, check=True
            )
            with Image.open(shot) as picture:
                return _colours_in_a_cell(picture.convert("RGB")) >= 8

        until("the first values", ready.exists)
        xdotool(name, "windowfocus", "--sync", window)
        assert not drawn()

        def opened() -> bool:
            # The console drops a key that came while it stood still: each is pressed again.
            for key in ("3", "Return"):
                xdotool(name, "key", key)
            return any(drawn() for _ in range(20))

        until("the picture in pixels", opened)

        def left() -> bool:
            xdotool(name, "key", "1")
            return not drawn()

        until("the picture is gone", left)
