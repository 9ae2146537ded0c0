"""Pictures of the screen on a card: what they show on a real X server, where they go and where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.model.approval import ApprovalRequest
from flycore.model.call import Picture
from flycore.model.enums import RequestState
from flycore.pipeline.targets.window import DesktopUnreadable, X11Desktop
from flycore.pipeline.targets.x11_helper import MOST_SIZE, Box, area_round_point, scaled
from flycore.registry.paths import TICKETS_FILE
from flycore.server.queries import redacted_ask
from kits.kernel import ECHO, Root, approve, kernel_of, request, until, waiting_ask
from kits.programs import needs
from kits.tables import each_row
from kits.values import pixel

pytestmark = pytest.mark.anyio
SCREEN = Box(0, 0, 800, 600)
RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.mark.parametrize(
    ("point", "box"),
    [
        ((400, 300), Box(304, 252, 192, 96)),
        ((0, 0), Box(0, 0, 192, 96)),
        ((799, 599), Box(608, 504, 192, 96)),
    ],
)
def test_what_is_shown_round_a_point_stays_on_the_screen(point: tuple[int, int], box: Box) -> None:
    assert area_round_point(*point, SCREEN) == box
    assert area_round_point(*point, Box(0, 0, 50, 40)) == Box(0, 0, 50, 40)


@each_row("size", [(192, 96), (1, 5000), (5000, 1), (3, 2), (800, 600)])
def test_a_picture_keeps_its_shape_and_is_small(size: tuple[int, int]) -> None:
    width, height = scaled(*size)
    assert 1 <= width <= min(MOST_SIZE[0], size[0])
    assert 1 <= height <= min(MOST_SIZE[1], size[1])


@pytest.fixture
def display() -> Iterator[str]:
    """A screen that is red at the left of x = 400, and an xterm titled `blue` at (500, 100)."""
    needs("Xvfb", "xterm", "xdotool")
    reading, writing = os.pipe()
    quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(
        ("Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset"),
        pass_fds=(writing,),
        **quiet,
    )
    os.close(writing)
    with os.fdopen(reading) as answer:
        name = f":{answer.readline().strip()}"
    started = [server]
    try:
        for title, colour, place in (("red", "#ff0000", "+0+0"), ("blue", "#0000ff", "+500+100")):
            argv = ("xterm", "-bg", colour, "-fg", colour, "-cr", colour, "-T", title, "-geometry")
            size = f"40x20{place}"
            command = (*argv, size, "-e", sys.executable, "-c", "input()")
            started.append(subprocess.Popen(command, env={**os.environ, "DISPLAY": name}, **quiet))
        yield name
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


async def window_of(desktop: X11Desktop, title: str) -> int:
    """Wait for the window."""
    with anyio.fail_after(30):
        while True:
            found = [window.id for window in await desktop.windows() if window.title == title]
            if found:
                return found[0]


@pytest.mark.e2e
async def test_the_picture_has_the_colour_of_the_screen_at_its_cross(display: str) -> None:
    desktop = X11Desktop({"DISPLAY": display})
    red, blue = await window_of(desktop, "red"), await window_of(desktop, "blue")
    for point, colour, window in (((60, 60), RED, red), ((560, 160), BLUE, blue)):
        with anyio.fail_after(30):  # a window is listed before it is painted
            while True:
                shot = await desktop.shot_at(*point)
                assert shot.cross is not None
                if pixel(shot.picture, *shot.cross) == colour:
                    break
        assert (shot.picture.width, shot.picture.height) == MOST_SIZE
        assert window in [seen.id for seen in await desktop.under(*point)]
    whole = (await desktop.shot_of(blue)).picture
    assert pixel(whole, whole.width // 2, whole.height // 2) == BLUE
    assert await desktop.under(790, 590) == ()
    with pytest.raises(DesktopUnreadable, match="outside"):
        await desktop.shot_at(5000, 5)
    with pytest.raises(DesktopUnreadable):
        await desktop.shot_of(99)


async def test_no_display_is_said() -> None:
    with pytest.raises(DesktopUnreadable, match="DISPLAY"):
        await X11Desktop({}).shot_at(1, 1)
    with pytest.raises(DesktopUnreadable):
        await X11Desktop({"DISPLAY": ":987"}).shot_at(1, 1)


def pixels(ask: ApprovalRequest) -> list[Picture | None]:
    return [ask.crop, ask.crop_to]


@pytest.mark.e2e
async def test_a_card_has_its_pictures_and_nobody_else_does(tmp_path: Path, display: str) -> None:
    root = Root(tmp_path)
    root.environ["DISPLAY"] = display
    root.sidecar("hand", ECHO, "computer.mouse", permissions={"desktop": True})
    await window_of(X11Desktop(root.environ), "red")
    drag = {"action": "drag", "x": 60, "y": 60, "toX": 90, "toY": 90, "window": "red"}
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        results: list[Any] = []

        async def call(**more: Any) -> None:
            results.append(await kernel.call(request(kernel, "computer.mouse", drag, **more)))

        group.start_soon(call)
        ask = await waiting_ask(kernel)
        assert ask.request.subject.preview is not None
        assert ask.request.subject.preview.title == "red"
        assert all(picture is not None for picture in pixels(ask.request))
        assert ask.request.cross is not None
        assert ask.request.cross_to is not None
        bare = ask.request.without_crops("")
        assert bare.subject.digest() == ask.request.subject_digest
        for viewer in (True, False):
            told = redacted_ask(ask, viewer=viewer).request
            assert pixels(told) == [None, None]
            assert told.no_crop
        await approve(kernel, ask)
        await until(lambda: results)
        assert not any("crop" in json.dumps(line).lower() for line in root.audit())
        group.start_soon(lambda: call(inline_wait_ms=0))
        await until(lambda: len(results) == 2)
        assert results[1].status.value == "pending"
        (waiting,) = [one for one in kernel.asks() if one.state is RequestState.WAITING]
        assert waiting.request.crop is not None
        (kept,) = msgspec.json.decode((root.places.state_dir / TICKETS_FILE).read_bytes())
        stored = kept["ask"]["request"]
        assert (stored["crop"], stored["cropTo"]) == (None, None)
