"""What the desktop tools stand on, asked without acting."""

from __future__ import annotations

from flysidecars.programs import find_program
from flysidecars.sdk import Unavailable
from flysidecars.x11.xdotool import REMEDY


def require_desktop() -> None:
    """Raise `Unavailable` unless an X server answers."""
    from flysidecars.x11.display import Display

    with Display():
        return


def require_xdotool() -> None:
    """Raise `Unavailable` unless xdotool is on PATH."""
    if find_program("xdotool") is None:
        raise Unavailable("xdotool is not installed", REMEDY)
