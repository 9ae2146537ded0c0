"""The type of the desktop session: X11, Wayland or macOS."""

from __future__ import annotations

import os
import sys

from flysidecars.sdk import JsonObject, Unavailable

X11, WAYLAND, MACOS = "x11", "wayland", "macos"
UNTESTED = "macOS: the command was written after its manual and has never been tried"


def session_type(config: JsonObject) -> str:
    """`x11`, `wayland` or `macos`: from `config.session`, else from the platform and the environment.

    A session with both displays is Wayland with XWayland. Raises `Unavailable` for an unknown type.
    """
    configured = config.get("session")
    if configured is not None and configured not in (X11, WAYLAND, MACOS):
        raise Unavailable("config.session names no kind of desktop", f"write {X11}, {WAYLAND} or {MACOS}")
    if configured is not None:
        return str(configured)
    if sys.platform == "darwin":
        return MACOS
    return WAYLAND if os.environ.get("WAYLAND_DISPLAY") else X11


def has_x11() -> bool:
    """Whether an X11 display is set, which may be XWayland's."""
    return bool(os.environ.get("DISPLAY"))
