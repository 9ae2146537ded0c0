"""Moves the pointer and presses its buttons inside a target window of X11.

Coordinates are pixels of the whole screen, as in a screenshot. Each point must be inside the target window
and not covered by another one.
"""

from __future__ import annotations

from flysidecars.computer.x11.target import TargetWindow
from flysidecars.computer.x11.windows import window_brief
from flysidecars.computer.x11.xdotool import run_xdotool, xdotool
from flysidecars.sdk import Call, JsonObject

CLICKS = {
    "click": ("click", "1"),
    "double_click": ("click", "--repeat", "2", "--delay", "80", "1"),
    "middle_click": ("click", "2"),
    "right_click": ("click", "3"),
}
ACTIONS = ("move", *CLICKS, "drag", "scroll")

MAX_COORDINATE = 65_535
MAX_NOTCHES = 100
DRAG_STEPS = 8
_UP, _DOWN, _LEFT, _RIGHT = "4", "5", "6", "7"


def use_mouse(call: Call, target: TargetWindow, action: str) -> JsonObject:
    """Do one action at a point of the screen. Raises `ToolFailed` (`outside-target`, `xdotool-failed`)."""
    # The move and the click are one run of xdotool, so that nothing comes between them.
    x, y = _point(call, "x", "y")
    target.require_point(x, y)
    place: JsonObject = {"action": action, "x": x, "y": y}
    move = ("mousemove", str(x), str(y))
    if action == "move":
        run_xdotool(*move)
    elif action == "drag":
        place |= _drag(call, target, x, y)
    elif action == "scroll":
        place |= _scroll(call, move)
    else:
        run_xdotool(*move, *CLICKS[action])
    return {**place, "window": window_brief(target.window)}


def _point(call: Call, x: str, y: str) -> tuple[int, int]:
    return call.integer(x, 0, MAX_COORDINATE), call.integer(y, 0, MAX_COORDINATE)


def _drag(call: Call, target: TargetWindow, x: int, y: int) -> JsonObject:
    to_x, to_y = _point(call, "toX", "toY")
    target.require_point(to_x, to_y)
    path: list[str] = []
    for step in range(1, DRAG_STEPS + 1):
        along = (x + (to_x - x) * step // DRAG_STEPS, y + (to_y - y) * step // DRAG_STEPS)
        path += ["mousemove", str(along[0]), str(along[1])]
    released = False
    try:
        run_xdotool("mousemove", str(x), str(y), "mousedown", "1", *path, "mouseup", "1")
        released = True
    finally:
        if not released:  # a button that stays down would drag whatever comes next
            xdotool("mouseup", "1")
    return {"toX": to_x, "toY": to_y}


def _scroll(call: Call, move: tuple[str, ...]) -> JsonObject:
    right = call.integer("dx", -MAX_NOTCHES, MAX_NOTCHES, 0)
    down = call.integer("dy", -MAX_NOTCHES, MAX_NOTCHES, 0)
    turns: list[str] = []
    vertical, horizontal = (_DOWN if down > 0 else _UP), (_RIGHT if right > 0 else _LEFT)
    for count, button in ((abs(down), vertical), (abs(right), horizontal)):
        if count:
            turns += ["click", "--repeat", str(count), "--delay", "10", button]
    run_xdotool(*move, *turns)
    return {"dx": right, "dy": down}
