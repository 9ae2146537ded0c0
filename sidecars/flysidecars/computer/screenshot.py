"""Takes a PNG of the whole screen with the first program of the session that works."""

from __future__ import annotations

import os

from flysidecars.computer.session_type import MACOS, UNTESTED, WAYLAND, X11
from flysidecars.run_program import environment, find_program, run
from flysidecars.sdk import Unavailable

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
MAX_PNG_BYTES = 256 * 1024 * 1024
LIMIT_S = 10.0
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    X11: (
        ("scrot", "--silent"),
        ("gnome-screenshot", "-f"),
        ("spectacle", "-b", "-n", "-f", "-o"),
    ),
    WAYLAND: (
        ("grim", "-t", "png"),
        ("gnome-screenshot", "-f"),
        ("spectacle", "-b", "-n", "-f", "-o"),
    ),
    MACOS: (("screencapture", "-x", "-t", "png"),),
}
"""The screenshot programs of each session type, best first. The path to save to is their last argument."""
REMEDIES = {
    X11: "install scrot (Debian and Ubuntu: apt install scrot)",
    WAYLAND: "install grim (Debian and Ubuntu: apt install grim); for GNOME gnome-screenshot",
    MACOS: "screencapture is part of macOS: allow screen recording for the terminal in its privacy settings",
}
_VARIABLES = ("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")


class Picture:
    """A PNG file, its size in pixels, and the program that took it."""

    __slots__ = ("engine", "height", "png", "warnings", "width")

    def __init__(
        self, png: bytes, width: int, height: int, engine: str, warnings: tuple[str, ...] = ()
    ) -> None:
        self.png = png
        self.width = width
        self.height = height
        self.engine = engine
        self.warnings = warnings


def take_screenshot(scratch: str, session: str) -> Picture:
    """Take a picture of the screen. `scratch` is a private folder for programs that write a file.

    Raises `Unavailable` if no display answers or no program returns a picture.
    """
    why = "no program for it is installed"
    if session == X11:
        by_mss = _mss_picture()
        if isinstance(by_mss, Picture):
            return by_mss
        from flysidecars.computer.x11.xdotool import require_desktop

        require_desktop()
        why = by_mss
    for name, *arguments in COMMANDS[session]:
        program = find_program(name)
        if program is None:
            continue
        saved = _run_and_read(program, arguments, scratch)
        picture = read_png(saved, name, (UNTESTED,) if session == MACOS else ())
        if picture is not None:
            return picture
        why = f"{name} gave no picture"
    raise Unavailable(f"the screen cannot be captured: {why}", REMEDIES[session])


def require_screenshot_program(session: str) -> None:
    """Raise `Unavailable` if no screenshot program of the session is installed. X11 needs none: the Python
    package mss is a dependency."""
    if session != X11 and not any(find_program(name) for name, *_ in COMMANDS[session]):
        names = " or ".join(name for name, *_ in COMMANDS[session])
        raise Unavailable(f"{names} is not installed", REMEDIES[session])


def _mss_picture() -> Picture | str:
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
    return "mss gave no picture" if png is None else Picture(png, grabbed.width, grabbed.height, "mss")


def _run_and_read(program: str, arguments: list[str], scratch: str) -> bytes:
    """Run a screenshot program and return the file that it saved; empty if it failed."""
    path = os.path.join(scratch, f".shot-{os.getpid()}-{os.urandom(6).hex()}.png")
    try:
        if not run((program, *arguments, path), b"", LIMIT_S, environment(*_VARIABLES)).ok:
            return b""
        with open(path, "rb") as file:
            return file.read(MAX_PNG_BYTES)
    except FileNotFoundError:
        return b""
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def read_png(data: bytes, engine: str = "", warnings: tuple[str, ...] = ()) -> Picture | None:
    """The picture in the bytes of a PNG file; None for other bytes."""
    if not data.startswith(PNG_MAGIC) or data[12:16] != b"IHDR":
        return None
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    return Picture(data, width, height, engine, warnings)
