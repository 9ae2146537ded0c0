"""Looks at an X11 display from a process of its own, so that a server that hangs or an error that Xlib
ends its program for costs the kernel nothing.

Its arguments are a question and numbers:

    focused          the window with the focus
    listed           the visible windows that have a title
    known ID         that window, if there is one
    under X Y        the windows under the point, outermost first
    point X Y        a picture of the screen round the point
    window ID        a picture of that window

Prints one line of JSON: `windows`, each with id, title and pid, or what a picture needs; after that of a
picture come its pixels, row by row, 3 bytes each. Ends 1 with a sentence on standard error where it cannot
look.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from flysafe.x11_reader import DisplayUnavailable, X11Reader

MOST_SIZE = (96, 48)
"""Largest picture, width and height in pixels."""
POINT_AREA = (192, 96)
"""How much of the screen is shown round a point."""


MAX_LISTED_TITLE = 4096


class DisplayUnreadable(Exception):
    """Why the display cannot be looked at."""


class Box(NamedTuple):
    """A rectangle of the screen, in its pixels."""

    left: int
    top: int
    width: int
    height: int

    def within(self, outer: Box) -> Box:
        """The part that lies in the other."""
        left, top = max(self.left, outer.left), max(self.top, outer.top)
        right = min(self.left + self.width, outer.left + outer.width)
        bottom = min(self.top + self.height, outer.top + outer.height)
        return Box(left, top, max(0, right - left), max(0, bottom - top))


def area_round_point(x: int, y: int, screen: Box) -> Box:
    """What is shown round a point: at the screen's edge it is moved, not cut."""
    width, height = min(POINT_AREA[0], screen.width), min(POINT_AREA[1], screen.height)
    left = min(max(x - width // 2, screen.left), screen.left + screen.width - width)
    top = min(max(y - height // 2, screen.top), screen.top + screen.height - height)
    return Box(left, top, width, height)


def scaled(width: int, height: int) -> tuple[int, int]:
    """The size within MOST that keeps the shape; nothing is made larger."""
    times = min(1.0, MOST_SIZE[0] / width, MOST_SIZE[1] / height)
    return max(1, round(width * times)), max(1, round(height * times))


def _shown(what: str, numbers: list[int], screen: Box) -> Box:
    """The part of the screen that is asked for."""
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
    """A picture's line and pixels."""
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
    """The line about windows."""
    with X11Reader() as display:
        match what:
            case "focused":
                found = [display.focused_window() or display.window(display.focused())]
            case "listed":
                # A title has no limit of its own: one program must not make the whole list too long to read.
                found = [one for one in display.visible_windows() if len(one.title) <= MAX_LISTED_TITLE]
            case "known":
                found = [display.window(*numbers)]
            case _:
                found = [display.window(number) for number in display.at_point(*numbers)]
    rows = [{"id": one.id, "title": one.title, "pid": one.pid} for one in found if one is not None]
    return {"windows": rows}


def main(arguments: list[str]) -> int:
    """Look, and print what was seen."""
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
