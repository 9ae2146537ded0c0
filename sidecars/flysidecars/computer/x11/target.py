"""The target window of an action: found, compared with the approved one, and given the focus."""

from __future__ import annotations

import time

from flysafe.x11_reader import Window
from flysidecars.computer.x11.windows import (
    Display,
    ProtectedWindows,
    find_window,
    protected_windows,
    window_brief,
)
from flysidecars.computer.x11.xdotool import activate_by_manager, xdotool
from flysidecars.run_program import find_program
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed

FOCUS_WAIT_S = 1.0
"""The longest wait for the focus, seconds, for each of the two ways to give it."""
POLL_S = 0.01


class TargetWindow:
    """An existing window on an open display, which the request does not forbid."""

    __slots__ = ("display", "protected", "window")

    def __init__(self, display: Display, window: Window, protected: ProtectedWindows) -> None:
        self.display = display
        self.window = window
        self.protected = protected

    def has_focus(self) -> bool:
        """Whether keys go to the window or to one inside it."""
        focus = self.display.focused()
        return bool(focus) and (focus == self.window.id or self.window.id in self.display.ancestors(focus))

    def focus(self, *, raise_window: bool = False) -> None:
        """Give the window the focus, with `raised` also the place in front of the others.

        Raises `ToolFailed` (`focus-failed`).
        """
        number = str(self.window.id)
        if self.has_focus() and not raise_window:
            return
        # Through the window manager first. Without one, or if it has just died, this fails or does nothing,
        # and the X server itself has to do it.
        if activate_by_manager(number) and self._wait_for_focus():
            return
        if find_program("xdotool") is None:  # wmctrl speaks to a window manager only
            raise ToolFailed(
                "focus-failed", "the window does not take the focus", window=window_brief(self.window)
            )
        if raise_window:
            xdotool("windowraise", number)
        xdotool("windowfocus", number)
        if not self._wait_for_focus():
            raise ToolFailed(
                "focus-failed", "the window does not take the focus", window=window_brief(self.window)
            )

    def require_focus(self) -> None:
        """Raise `ToolFailed` (`focus-lost`) unless the window has the focus."""
        if not self.has_focus():
            raise ToolFailed("focus-lost", "another window took the focus; stopped")

    def require_point(self, x: int, y: int) -> None:
        """Raise `ToolFailed` (`outside-target`) unless the point of the screen is inside the window and not
        covered by another one."""
        box = self.display.geometry(self.window.id)
        if box is None:
            raise _changed("the window has been closed")
        if not box.contains(x, y):
            place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
            raise ToolFailed("outside-target", f"({x}, {y}) is outside the target window", geometry=place)
        under = self.display.at_point(x, y)
        if self.window.id not in under:
            raise ToolFailed("outside-target", f"({x}, {y}) of the target is covered by another window")
        self.protected.require_unprotected(self.display, under[-1])

    def _wait_for_focus(self) -> bool:
        deadline = time.monotonic() + FOCUS_WAIT_S
        while not self.has_focus():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def resolve_target(call: Call, display: Display) -> TargetWindow:
    """The target window of a call, checked but not yet focused.

    The request's `target` is the window that a person approved: it must exist and still have that title and
    process. Without one (outside a flytui kernel) the target is the input's `window`, else the window with
    the focus. Raises `InvalidInput`, and `ToolFailed`: `target-changed`, `window-refused`.
    """
    refused = protected_windows(call)
    approved = call.raw.get("target")
    if approved is not None:
        window = _approved(display, approved)
    elif (name := call.optional_text("window")) is not None:
        window = find_window(display, name)
    else:
        window = _focused(display)
    refused.require_unprotected(display, window.id)
    return TargetWindow(display, window, refused)


def _focused(display: Display) -> Window:
    window = display.focused_window()
    if window is None:
        raise InvalidInput("window", "no window has the focus: name a window")
    return window


def _approved(display: Display, approved: object) -> Window:
    if not isinstance(approved, dict):
        raise ToolFailed("invalid-request", "`target` of the request is not an object")
    target: JsonObject = approved
    number, title, pid = target.get("windowId"), target.get("title"), target.get("pid")
    if type(number) is not int or not 0 < number < 2**32 or not isinstance(title, str):
        raise ToolFailed("invalid-request", "`target` of the request names no window")
    window = display.window(number) if number != display.root else None
    if window is None:
        raise _changed("the window has been closed")
    if title.strip() != window.title.strip():
        raise _changed("the window has another title now", expected=title, found=window.title)
    if isinstance(pid, int) and pid and window.pid and pid != window.pid:
        raise _changed("the window belongs to another process now")
    return window


def _changed(message: str, **fields: object) -> ToolFailed:
    return ToolFailed("target-changed", message, **fields)
