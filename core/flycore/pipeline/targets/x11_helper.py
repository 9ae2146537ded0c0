"""The program that reads an X11 display for the kernel, in a process of its own: a server that hangs, or an
error for which Xlib ends its program, does not end or delay the kernel.

Its arguments are a question and numbers:

    focused          the window with the focus, and in its `behind` those behind it, front-most first
    listed           the visible windows that have a title
    known ID         that window, if there is one
    under X Y        the windows under the point, outermost first
    point X Y        a picture of the screen around the point
    window ID        a picture of that window

It prints one line of JSON: `windows`, each with id, title and pid, or the `width`, `height` and `cross` of a
picture; the pixels of a picture follow that line, row by row, 3 bytes each. Where it cannot read the display
it exits with 1 and a sentence on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flysafe.x11_reader import DisplayUnavailable, Window, X11Reader

MOST_SIZE = (96, 48)
"""Width and height of the largest picture, in pixels: about as many as a card has room for."""
POINT_AREA = (192, 96)
"""Width and height of the part of the screen that is shown around a point, in pixels."""
MAX_LISTED_TITLE = 4096
"""Characters of the longest title of a window that is listed."""


class DisplayUnreadable(Exception):
    """The display cannot be read; the message says why."""


class Box(NamedTuple):
    """A rectangle of the screen, in pixels."""

    left: int
    top: int
    width: int
    height: int

    def within(self, outer: Box) -> Box:
        """The part of the box that lies in `outer`."""
        left, top = max(self.left, outer.left), max(self.top, outer.top)
        right = min(self.left + self.width, outer.left + outer.width)
        bottom = min(self.top + self.height, outer.top + outer.height)
        return Box(left, top, max(0, right - left), max(0, bottom - top))


def area_round_point(x: int, y: int, screen: Box) -> Box:
    """The part of the screen that is shown around a point. At the screen's edge it is moved, not cut."""
    width, height = min(POINT_AREA[0], screen.width), min(POINT_AREA[1], screen.height)
    left = min(max(x - width // 2, screen.left), screen.left + screen.width - width)
    top = min(max(y - height // 2, screen.top), screen.top + screen.height - height)
    return Box(left, top, width, height)


def scaled(width: int, height: int) -> tuple[int, int]:
    """The size within MOST_SIZE that keeps the shape. No picture is made larger."""
    times = min(1.0, MOST_SIZE[0] / width, MOST_SIZE[1] / height)
    return max(1, round(width * times)), max(1, round(height * times))


def _shown(what: str, numbers: list[int], screen: Box) -> Box:
    """The part of the screen that the question is about."""
    if what == "window":
        with X11Reader() as display:
            found = display.window(*numbers)
        if found is None:
            raise DisplayUnreadable("there is no such window")
        place = found.geometry
        box = Box(place.x, place.y, place.width, place.height).within(screen)
    else:
        x, y = numbers
        there = Box(x, y, 1, 1).within(screen)
        box = area_round_point(x, y, screen) if there.width and there.height else there
    if not box.width or not box.height:
        raise DisplayUnreadable("it lies outside the screen")
    return box


def _picture(what: str, numbers: list[int]) -> tuple[dict[str, object], bytes]:
    """The line and the pixels of a picture."""
    from mss import MSS, ScreenShotError
    from PIL import Image

    try:
        with MSS() as screen:
            whole = screen.monitors[0]
            area = Box(whole["left"], whole["top"], whole["width"], whole["height"])
            box = _shown(what, numbers, area)
            shot = screen.grab(box._asdict())
    except ScreenShotError as failed:
        raise DisplayUnreadable(str(failed)) from failed
    size = scaled(box.width, box.height)
    pixels = Image.frombytes("RGB", (shot.width, shot.height), shot.rgb).resize(size, Image.Resampling.BOX)
    line: dict[str, object] = {"width": size[0], "height": size[1]}
    if what == "point":
        x, y = numbers
        line["cross"] = [(x - box.left) * size[0] // box.width, (y - box.top) * size[1] // box.height]
    return line, pixels.tobytes()


def _windows(what: str, numbers: list[int]) -> dict[str, object]:
    """The line that lists windows."""
    found: list[Window | None]
    with X11Reader() as display:
        match what:
            case "focused":
                focus = display.focused_window() or display.on_screen(display.focused())
                if focus is None:
                    return {"windows": []}
                behind = [_row(one) for one in _short(display.stacked_windows()) if one.id != focus.id]
                return {"windows": [{**_row(focus), "behind": behind}]}
            case "listed":
                found = [*_short(display.visible_windows())]
            case "known":
                found = [display.window(*numbers)]
            case _:
                found = [display.window(number) for number in display.at_point(*numbers)]
    return {"windows": [_row(one) for one in found if one is not None]}


def _row(window: Window) -> dict[str, object]:
    return {"id": window.id, "title": window.title, "pid": window.pid}


def _short(windows: Iterable[Window]) -> Iterator[Window]:
    """The windows without those whose title is too long."""
    # X11 has no limit for a title: one program could make the list longer than the kernel reads.
    return (window for window in windows if len(window.title) <= MAX_LISTED_TITLE)


def main(arguments: list[str]) -> int:
    """Read what the arguments ask for, print it, and return the exit code."""
    what, *words = arguments
    numbers = [int(word) for word in words]
    try:
        line, pixels = (
            _picture(what, numbers) if what in ("point", "window") else (_windows(what, numbers), b"")
        )
    except DisplayUnreadable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except DisplayUnavailable as missing:
        sys.stderr.write(f"{missing.reason}: {missing.remedy}\n")
        return 1
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n" + pixels)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
