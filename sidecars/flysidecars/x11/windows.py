"""Windows as a person knows them: by title; and those that must not be touched."""

from __future__ import annotations

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.x11.display import Display, Geometry

MAX_WINDOWS = 256
MAX_VISITED = 20_000
MAX_FAMILY = 2048
MAX_CANDIDATES = 5


class Window:
    """A window that exists now. `title` is text from outside, whatever it holds."""

    __slots__ = ("geometry", "id", "pid", "title")

    def __init__(self, id: int, title: str, pid: int, geometry: Geometry) -> None:
        self.id = id
        self.title = title
        self.pid = pid
        self.geometry = geometry

    def brief(self) -> JsonObject:
        """The window in an answer that is about something else."""
        return {"id": self.id, "title": self.title}

    def full(self, *, focused: bool) -> JsonObject:
        """The window in a list."""
        box = self.geometry
        place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
        return {"id": self.id, "title": self.title, "pid": self.pid, **place, "focused": focused}


def look(display: Display, window: int) -> Window | None:
    """A window by id, or None where there is none."""
    geometry = display.geometry(window)
    if geometry is None:
        return None
    return Window(window, display.title(window), display.pid(window), geometry)


def visible_windows(display: Display) -> list[Window]:
    """The windows on the screen that have a title, outer ones first, at most 256. The frames and
    buttons of a window manager have none, its own helper windows lie outside the screen."""
    screen = display.geometry(display.root)
    found: list[Window] = []
    waiting = [display.root]
    for number in waiting:
        known = display.tree(number)
        children = known[1] if known else ()
        waiting.extend(child for child in children if display.visible(child))
        window = look(display, number) if number != display.root else None
        if window is not None and window.title and screen and screen.meets(window.geometry):
            found.append(window)
        if len(found) == MAX_WINDOWS or len(waiting) > MAX_VISITED:
            break
    return found


def focused_window(display: Display) -> Window | None:
    """The window with the focus, or the nearest one around it that has a title."""
    focus = display.focused()
    for number in (focus, *display.ancestors(focus)) if focus else ():
        window = look(display, number)
        if window is not None and window.title:
            return window
    return None


def find_window(display: Display, name: str) -> Window:
    """The window a caller means: its id, its exact title, or a part of one title only. Raises
    `InvalidInput` where that is none or more than one."""
    windows = visible_windows(display)
    if name.isascii() and name.isdigit():
        number = int(name)
        window = look(display, number) if 0 < number < 2**32 and number != display.root else None
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


class Refused:
    """Windows and processes that the request forbids: the consoles in which approvals are given."""

    __slots__ = ("pids", "windows")

    def __init__(self, windows: frozenset[int], pids: frozenset[int]) -> None:
        self.windows = windows
        self.pids = pids

    def check(self, display: Display, window: int) -> None:
        """Raise `ToolFailed` (`window-refused`) where the window, one it lies in, or one inside it is
        forbidden, by id or by process."""
        family = {window, *display.ancestors(window), *_descendants(display, window)}
        if family & self.windows or any(display.pid(member) in self.pids for member in family):
            raise ToolFailed(
                "window-refused", "that window belongs to a console that decides approvals", windowId=window
            )


def refused_windows(call: Call) -> Refused:
    """What the request forbids. Anything there that cannot be read fails the call: a refusal that is
    not understood must not be dropped."""
    refuse = call.raw.get("refuse")
    if refuse is None:
        return Refused(frozenset(), frozenset())
    if not isinstance(refuse, dict):
        raise ToolFailed("invalid-request", "`refuse` of the request is not an object")
    return Refused(_numbers(refuse, "windowIds"), _numbers(refuse, "pids"))


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
