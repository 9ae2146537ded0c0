"""The display of this process as a sidecar reads it: what is missing becomes the failure `unavailable`."""

from __future__ import annotations

from flysafe import x11_reader
from flysafe.x11_reader import Window
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed, Unavailable


class Display(x11_reader.X11Reader):
    """The reader. Raises `Unavailable` on entering where there is no display that can be read."""

    def __enter__(self) -> Display:
        try:
            super().__enter__()
        except x11_reader.DisplayUnavailable as missing:
            raise Unavailable(missing.reason, missing.remedy) from missing
        return self


def display_name() -> str:
    """The display this process was given. Raises `Unavailable` where it was given none."""
    try:
        return x11_reader.display_name()
    except x11_reader.DisplayUnavailable as missing:
        raise Unavailable(missing.reason, missing.remedy) from missing


# Windows as a person knows them: by title; and those that must not be touched.


MAX_FAMILY = 2048
MAX_CANDIDATES = 5


def window_brief(window: Window) -> JsonObject:
    """The window in an answer that is about something else."""
    return {"id": window.id, "title": window.title}


def window_row(window: Window, *, focused: bool) -> JsonObject:
    """The window in a list."""
    box = window.geometry
    place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    return {"id": window.id, "title": window.title, "pid": window.pid, **place, "focused": focused}


def find_window(display: Display, name: str) -> Window:
    """The window a caller means: its id, its exact title, or a part of one title only. Raises
    `InvalidInput` where that is none or more than one."""
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
    """Windows and processes that the request forbids: the consoles in which approvals are given."""

    __slots__ = ("pids", "windows")

    def __init__(self, windows: frozenset[int], pids: frozenset[int]) -> None:
        self.windows = windows
        self.pids = pids

    def require_unprotected(self, display: Display, window: int) -> None:
        """Raise `ToolFailed` (`window-refused`) where the window, one it lies in, or one inside it is
        forbidden, by id or by process."""
        family = {window, *display.ancestors(window), *_descendants(display, window)}
        if family & self.windows or any(display.pid(member) in self.pids for member in family):
            raise ToolFailed(
                "window-refused", "that window belongs to a console that decides approvals", windowId=window
            )


def protected_windows(call: Call) -> ProtectedWindows:
    """What the request forbids. Anything there that cannot be read fails the call: a refusal that is
    not understood must not be dropped."""
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
        if len(found) > MAX_FAMILY:
            raise ToolFailed("window-refused", "the window holds too many others to check", windowId=window)
    return found
