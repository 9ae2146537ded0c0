"""Moves the mouse on Wayland with ydotool, which needs its service ydotoold."""

from __future__ import annotations

import os

from flysidecars.computer.input_program import run_input_program
from flysidecars.computer.wayland.unchecked import WARNING
from flysidecars.sdk import Call, JsonObject, ToolFailed, Unavailable

REMEDY = "install ydotool 1.0 or later, and start its service ydotoold"
INEXACT = "ydotool reaches a point by relative moves: with pointer acceleration it lands elsewhere"
CLICKS = {
    "click": ("0xC0",),
    "double_click": ("--repeat", "2", "--next-delay", "80", "0xC0"),
    "right_click": ("0xC1",),
    "middle_click": ("0xC2",),
}
ACTIONS = ("move", *CLICKS, "drag", "scroll")
DRAG_STEPS = 8
MAX_COORDINATE = 65_535
MAX_NOTCHES = 100
_DOWN, _UP = "0x40", "0x80"
_VARIABLES = ("YDOTOOL_SOCKET", "XDG_RUNTIME_DIR")


def require_service() -> None:
    """Raise `Unavailable` if the socket of ydotoold does not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [
        os.environ.get("YDOTOOL_SOCKET", ""),
        runtime and f"{runtime}/.ydotool_socket",
        "/tmp/.ydotool_socket",  # noqa: S108 - where ydotoold puts it by itself
    ]
    if not any(place and os.path.exists(place) for place in places):
        raise Unavailable("ydotoold does not run: its socket is not there", REMEDY)


def use_pointer(call: Call, action: str) -> JsonObject:
    """Do one action at a point of the screen."""
    x, y = _point(call, "x", "y")
    more = _drag_to(call) if action == "drag" else _notches(call) if action == "scroll" else {}
    _move(x, y)
    if action == "drag":
        _drag(x, y, more["toX"], more["toY"])
    elif action == "scroll":
        _run_ydotool("mousemove", "--wheel", "-x", str(more["dx"]), "-y", str(-more["dy"]))
    elif action != "move":
        _run_ydotool("click", *CLICKS[action])
    return {"action": action, "x": x, "y": y, **more, "warnings": [WARNING, INEXACT]}


def _point(call: Call, x: str, y: str) -> tuple[int, int]:
    return call.integer(x, 0, MAX_COORDINATE), call.integer(y, 0, MAX_COORDINATE)


def _drag_to(call: Call) -> dict[str, int]:
    x, y = _point(call, "toX", "toY")
    return {"toX": x, "toY": y}


def _notches(call: Call) -> dict[str, int]:
    return {name: call.integer(name, -MAX_NOTCHES, MAX_NOTCHES, 0) for name in ("dx", "dy")}


def _move(x: int, y: int) -> None:
    _run_ydotool("mousemove", "--absolute", "-x", str(x), "-y", str(y))


def _drag(x: int, y: int, to_x: int, to_y: int) -> None:
    # Released whatever happens on the way: a button that stays down would drag whatever comes next.
    try:
        _run_ydotool("click", _DOWN)
        for step in range(1, DRAG_STEPS + 1):
            _move(x + (to_x - x) * step // DRAG_STEPS, y + (to_y - y) * step // DRAG_STEPS)
    finally:
        _run_ydotool("click", _UP)


def _run_ydotool(*arguments: str) -> None:
    ran = run_input_program("ydotool", REMEDY, arguments, b"", _VARIABLES)
    if not ran.ok:
        raise ToolFailed(
            "ydotool-failed", f"ydotool {arguments[0]} failed", exitCode=ran.code, stderr=ran.stderr_text()
        )
