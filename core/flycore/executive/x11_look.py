"""Looks at an X11 display from a process of its own, so that a server that hangs or an error that Xlib
ends its program for costs the kernel nothing.

    python -I -m flycore.executive.x11_look under X Y    ids of the windows under the point, outermost first
    python -I -m flycore.executive.x11_look point X Y    a picture of the screen round the point
    python -I -m flycore.executive.x11_look window ID    a picture of that window

Prints one line of JSON; after that of a picture come its pixels, row by row, 3 bytes each. Ends 1 with a
sentence on standard error where it cannot look.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_ulong, c_void_p
from typing import NamedTuple

MOST = (96, 48)
"""Largest picture, width and height in pixels."""
ROUND = (192, 96)
"""How much of the screen is shown round a point."""
MAX_DEPTH = 64


class CannotLook(Exception):
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


def round_point(x: int, y: int, screen: Box) -> Box:
    """What is shown round a point: at the screen's edge it is moved, not cut."""
    width, height = min(ROUND[0], screen.width), min(ROUND[1], screen.height)
    left = min(max(x - width // 2, screen.left), screen.left + screen.width - width)
    top = min(max(y - height // 2, screen.top), screen.top + screen.height - height)
    return Box(left, top, width, height)


def scaled(width: int, height: int) -> tuple[int, int]:
    """The size within MOST that keeps the shape; nothing is made larger."""
    times = min(1.0, MOST[0] / width, MOST[1] / height)
    return max(1, round(width * times)), max(1, round(height * times))


class _Xlib:
    """The few requests that are needed."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libX11.so.6")
        except OSError as missing:
            raise CannotLook("the library libX11 is not installed (apt install libx11-6)") from missing
        library.XOpenDisplay.restype, library.XOpenDisplay.argtypes = c_void_p, [c_char_p]
        library.XDefaultRootWindow.restype, library.XDefaultRootWindow.argtypes = c_ulong, [c_void_p]
        library.XTranslateCoordinates.argtypes = [
            *(c_void_p, c_ulong, c_ulong, c_int, c_int),
            *(POINTER(c_int), POINTER(c_int), POINTER(c_ulong)),
        ]
        library.XGetGeometry.argtypes = [
            *(c_void_p, c_ulong, POINTER(c_ulong), POINTER(c_int), POINTER(c_int)),
            *(POINTER(c_uint), POINTER(c_uint), POINTER(c_uint), POINTER(c_uint)),
        ]
        opened = library.XOpenDisplay(None)
        if not opened:
            raise CannotLook("the X server does not answer, or refuses this user")
        self._library, self._display = library, c_void_p(opened)
        self._root = library.XDefaultRootWindow(self._display)

    def under(self, x: int, y: int) -> list[int]:
        """Ids of the windows that hold the point, outermost first."""
        found: list[int] = []
        window = self._root
        while len(found) < MAX_DEPTH:
            _, _, child = self._translated(self._root, window, x, y)
            if not child:
                break
            window = child
            found.append(window)
        return found

    def box(self, window: int) -> Box:
        """Where a window is on the screen."""
        root, x, y = c_ulong(), c_int(), c_int()
        width, height, border, depth = c_uint(), c_uint(), c_uint(), c_uint()
        sizes = (byref(width), byref(height), byref(border), byref(depth))
        self._library.XGetGeometry(self._display, window, byref(root), byref(x), byref(y), *sizes)
        left, top, _ = self._translated(window, self._root, 0, 0)
        return Box(left, top, width.value, height.value)

    def _translated(self, source: int, target: int, x: int, y: int) -> tuple[int, int, int]:
        to_x, to_y, child = c_int(), c_int(), c_ulong()
        answers = (byref(to_x), byref(to_y), byref(child))
        self._library.XTranslateCoordinates(self._display, source, target, x, y, *answers)
        return to_x.value, to_y.value, child.value


def _shown(what: str, numbers: list[int], screen: Box) -> Box:
    """The part of the screen that is asked for."""
    if what == "window":
        box = _Xlib().box(*numbers).within(screen)
    else:
        x, y = numbers
        there = Box(x, y, 1, 1).within(screen)
        box = round_point(x, y, screen) if there.width and there.height else there
    if not box.width or not box.height:
        raise CannotLook("it lies outside the screen")
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
        raise CannotLook(str(failed)) from failed
    size = scaled(box.width, box.height)
    pixels = Image.frombytes("RGB", (shot.width, shot.height), shot.rgb).resize(size, Image.Resampling.BOX)
    line: dict[str, object] = {"width": size[0], "height": size[1]}
    if what == "point":
        x, y = numbers
        line["cross"] = [(x - box.left) * size[0] // box.width, (y - box.top) * size[1] // box.height]
    return line, pixels.tobytes()


def main(arguments: list[str]) -> int:
    """Look, and print what was seen."""
    what, *words = arguments
    numbers = [int(word) for word in words]
    try:
        line, pixels = (
            ({"under": _Xlib().under(*numbers)}, b"") if what == "under" else _picture(what, numbers)
        )
    except CannotLook as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n" + pixels)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
