"""A picture of the whole X11 screen as PNG: by mss, else by scrot."""

from __future__ import annotations

import os

from flysidecars.desktop import require_desktop
from flysidecars.programs import find_program, run
from flysidecars.sdk import Unavailable

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
MAX_PNG_BYTES = 256 * 1024 * 1024
SCROT_LIMIT_S = 10.0


class Picture:
    """PNG bytes and their size in pixels."""

    __slots__ = ("height", "png", "width")

    def __init__(self, png: bytes, width: int, height: int) -> None:
        self.png = png
        self.width = width
        self.height = height


def take_screenshot(scratch: str) -> Picture:
    """The screen now. `scratch` is a private folder for scrot. Raises `Unavailable` where no X server
    answers or neither way gives a picture."""
    by_mss = _by_mss()
    if isinstance(by_mss, Picture):
        return by_mss
    require_desktop()
    picture = _by_scrot(scratch)
    if picture is None:
        raise Unavailable(
            f"the screen cannot be captured: {by_mss}", "install scrot (Debian and Ubuntu: apt install scrot)"
        )
    return picture


def _by_mss() -> Picture | str:
    try:
        from mss import MSS, ScreenShotError
        from mss.tools import to_png
    except ImportError:
        return "the Python package mss is not installed"
    try:
        with MSS() as screen:
            grabbed = screen.grab(screen.monitors[0])
    except ScreenShotError as failed:
        return str(failed)
    png = to_png(grabbed.rgb, grabbed.size)
    return "mss gave no picture" if png is None else Picture(png, grabbed.width, grabbed.height)


def _by_scrot(scratch: str) -> Picture | None:
    program = find_program("scrot")
    if program is None:
        return None
    path = os.path.join(scratch, f".scrot-{os.getpid()}-{os.urandom(6).hex()}.png")
    kept = ("DISPLAY", "XAUTHORITY", "HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        if not run((program, "--silent", path), b"", SCROT_LIMIT_S, environment).ok:
            return None
        with open(path, "rb") as file:
            return read_png(file.read(MAX_PNG_BYTES))
    except FileNotFoundError:
        return None
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def read_png(data: bytes) -> Picture | None:
    """A picture from the bytes of a PNG file, or None where they are none."""
    if not data.startswith(PNG_MAGIC) or data[12:16] != b"IHDR":
        return None
    return Picture(data, int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))
