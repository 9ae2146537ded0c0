"""The X11 display and its windows: finds them by title, and refuses those of consoles."""

from __future__ import annotations

from flysafe import x11_reader
from flysafe.x11_reader import Window
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed, Unavailable


class Display(x11_reader.X11Reader):
    """The X11 reader of a sidecar. Entering it raises `Unavailable` if no display can be read."""

    def __enter__(self) -> Display:
        try:
            super().__enter__()
        except x11_reader.DisplayUnavailable as missing:
            raise Unavailable(missing.reason, missing.remedy) from missing
        return self


def display_name() -> str:
    """The name of this process's display. Raises `Unavailable` if it has none."""
    try:
        return x11_reader.display_name()
    except x11_reader.DisplayUnavailable as missing:
        raise Unavailable(missing.reason, missing.remedy) from missing


MAX_DESCENDANTS = 2048
MAX_CANDIDATES = 5


def window_brief(window: Window) -> JsonObject:
    """Id and title of a window, for answers about something else."""
    return {"id": window.id, "title": window.title}


def window_row(window: Window, *, focused: bool) -> JsonObject:
    """The fields of a window in a list."""
    box = window.geometry
    place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    return {"id": window.id, "title": window.title, "pid": window.pid, **place, "focused": focused}


def find_window(display: Display, name: str) -> Window:
    """The window with this id, this exact title, or the only one whose title contains `name`. Raises
    `InvalidInput` if none or several match."""
    windows = display.visible_windows()
    if name.isascii() and name.isdigit():
        number = int(name)
        window = display.window(number) if number != display.root else None
        if window is not None:
            return window
    exact = [window for window in windows if window.title == name]
    matches = exact or [window for window in windows if name and name in window.title]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise InvalidInput("window", "no window on the screen has that title or id")
    ids = ", ".join(str(window.id) for window in matches[:MAX_CANDIDATES])
    raise InvalidInput("window", f"{len(matches)} windows match; name one by its id: {ids}")


class ProtectedWindows:
    """The windows and processes that the request forbids: the consoles in which approvals are given."""

    __slots__ = ("pids", "windows")

    def __init__(self, windows: frozenset[int], pids: frozenset[int]) -> None:
        self.windows = windows
        self.pids = pids

    def require_unprotected(self, display: Display, window: int) -> None:
        """Raise `ToolFailed` (`window-refused`) if the window, one around it or one inside it is forbidden by
        id or by process."""
        family = {window, *display.ancestors(window), *_descendants(display, window)}
        if family & self.windows or any(display.pid(member) in self.pids for member in family):
            raise ToolFailed(
                "window-refused", "that window belongs to a console that decides approvals", windowId=window
            )


def protected_windows(call: Call) -> ProtectedWindows:
    """The windows that the request forbids. Raises `ToolFailed` (`invalid-request`) if the list cannot be
    read."""
    # A prohibition that is not understood must end the call; ignoring it could let keys reach the console.
    refuse = call.raw.get("refuse")
    if refuse is None:
        return ProtectedWindows(frozenset(), frozenset())
    if not isinstance(refuse, dict):
        raise ToolFailed("invalid-request", "`refuse` of the request is not an object")
    return ProtectedWindows(_numbers(refuse, "windowIds"), _numbers(refuse, "pids"))


def _numbers(refuse: JsonObject, key: str) -> frozenset[int]:
    values = refuse.get(key, [])
    if not isinstance(values, list):
        raise ToolFailed("invalid-request", f"`refuse.{key}` of the request is not a list")
    if not all(type(value) is int and value > 0 for value in values):
        raise ToolFailed("invalid-request", f"`refuse.{key}` of the request holds something else than ids")
    return frozenset(values)


def _descendants(display: Display, window: int) -> set[int]:
    found: set[int] = set()
    waiting = [window]
    while waiting:
        known = display.tree(waiting.pop())
        children = [] if known is None else [child for child in known[1] if child not in found]
        found.update(children)
        waiting.extend(children)
        if len(found) > MAX_DESCENDANTS:
            raise ToolFailed("window-refused", "the window holds too many others to check", windowId=window)
    return found
