"""Runs xdotool, and checks what the X11 tools need."""

from __future__ import annotations

from flysidecars.computer.input_program import run_input_program
from flysidecars.run_program import ProgramResult, find_program
from flysidecars.sdk import ToolFailed, Unavailable

_VARIABLES = ("DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")

REMEDY = "install xdotool (Debian and Ubuntu: apt install xdotool)"


def xdotool(*arguments: str, stdin: bytes = b"") -> ProgramResult:
    """Run xdotool to its end. Raises as `run_input_program` does."""
    return run_input_program("xdotool", REMEDY, arguments, stdin, _VARIABLES)


def run_xdotool(*arguments: str, stdin: bytes = b"") -> None:
    """Run xdotool. Raises `ToolFailed` (`xdotool-failed`) with the end of its stderr."""
    ran = xdotool(*arguments, stdin=stdin)
    # xdotool exits with 0 although it ignored a key that it does not know.
    if not ran.ok or b"No such key name" in ran.stderr:
        raise ToolFailed(
            "xdotool-failed", f"xdotool {arguments[0]} failed", exitCode=ran.code, stderr=ran.stderr_text()
        )


def require_desktop() -> None:
    """Raise `Unavailable` unless an X server answers."""
    from flysidecars.computer.x11.windows import Display

    with Display():
        return


def require_xdotool() -> None:
    """Raise `Unavailable` unless xdotool is on PATH."""
    if find_program("xdotool") is None:
        raise Unavailable("xdotool is not installed", REMEDY)


def require_window_program() -> None:
    """Raise `Unavailable` unless a program that gives windows the focus is on PATH: xdotool or wmctrl."""
    if find_program("wmctrl") is None:
        require_xdotool()


def activate_by_manager(number: str) -> bool:
    """Ask the window manager to give the window the focus, by wmctrl where xdotool is not installed. Return
    whether that program did."""
    if find_program("xdotool") is not None or find_program("wmctrl") is None:
        return xdotool("windowactivate", number).ok
    return run_input_program("wmctrl", REMEDY, ("-i", "-a", number), b"", _VARIABLES).ok
