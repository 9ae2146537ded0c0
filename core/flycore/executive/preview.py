"""What a pointer or keyboard action would hit: taken by the kernel before anyone is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from flycore.executive.shots import POINTER_TOOL, DesktopUnreadable, ScreenCamera, point_of
from flycore.executive.stop import Rejection, failed
from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.enums import Code
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry

WINDOW_TOOLS = (POINTER_TOOL, "computer.keyboard")
"""Tools whose effect depends on which window is in front."""


class Window(Value, frozen=True, kw_only=True):
    """A window as the display knows it."""

    id: int
    title: str
    pid: int = 0


class ProtectedWindows(Value, frozen=True, kw_only=True):
    """Windows and processes of the open consoles, which no tool may touch."""

    window_ids: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()

    def contains(self, window: Window) -> bool:
        """Whether the window belongs to a console."""
        return window.id in self.window_ids or (window.pid != 0 and window.pid in self.pids)


class Desktop(ScreenCamera, Protocol):
    """Reads the display. Raises DesktopUnreadable."""

    async def focused(self) -> Window | None:
        """The window that has the keyboard focus."""
        ...

    async def window(self, window_id: int) -> Window | None:
        """The window of that id, None when it is gone."""
        ...

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        """The windows that hold a point of the screen, outermost first."""
        ...

    async def windows(self) -> tuple[Window, ...]:
        """All visible windows that have a title."""
        ...


def find_window(named: str, windows: tuple[Window, ...]) -> Window | str:
    """The window that `named` means: an id, an exact title, or a part of just one title; else why not."""
    wanted = named.strip()
    by_id = [window for window in windows if wanted in (str(window.id), hex(window.id))]
    exact = [window for window in windows if window.title == named]
    part = [window for window in windows if named and named in window.title]
    for found in (by_id, exact, part):
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(f"{window.id} {window.title[:60]}" for window in found[:5])
            return f"{len(found)} windows match: name one by its id ({listed})"
    return "no visible window has that title or id"


def accepts_unchecked(entry: SidecarEntry, environ: Mapping[str, str]) -> bool:
    """Whether the entry acts on whatever has the focus: it says so in `config.allowUncheckedTarget`, which is
    part of what was trusted, and the session is Wayland, where no window can be looked at."""
    config = entry.config
    wayland = bool(environ.get("WAYLAND_DISPLAY")) and config.get("session") != "x11"
    return wayland and config.get("allowUncheckedTarget") is True


async def take_preview(
    desktop: Desktop,
    seat: ProtectedWindows,
    tool: str,
    input: JsonObject,
    earlier: Preview | None = None,
    *,
    unchecked: bool = False,
) -> Preview | Rejection | None:
    """The target of a pointer or keyboard action; None for tools that have none.

    `earlier` is what was seen when the call arrived: then that window is looked at again, whichever has
    the focus by now (whoever approved has just used the console's). A console's own window, or none at
    all, stops the call before anyone is asked. With `unchecked` nobody looks, and the preview says so.
    """
    if tool not in WINDOW_TOOLS:
        return None
    if unchecked:
        return Preview(unchecked=True)
    named = input.get("window")
    try:
        window = await _target_window(desktop, named if isinstance(named, str) else None, earlier)
        point = point_of(input) if tool == POINTER_TOOL else None
        over = await _windows_over(desktop, window, point, earlier) if isinstance(window, Window) else ()
    except DesktopUnreadable as error:
        return failed(Code.FAILED, str(error), "flytui doctor says what this machine lacks")
    if isinstance(window, str):
        return failed(Code.INVALID_INPUT, f"name a window: {window}", "computer.window lists them")
    if seat.contains(window):
        return failed(
            Code.INVALID_INPUT,
            "name a window: the one meant is the console's own, which no tool may touch",
            "computer.window lists the others",
        )
    if any(seat.contains(other) for other in over):
        return failed(
            Code.INVALID_INPUT,
            "the console's own window lies over that point",
            "bring the window that is meant to the front first: computer.window, focus",
        )
    front = next((other for other in reversed(over) if other.title), None)
    return Preview(
        window_id=str(window.id),
        title=window.title,
        pid=window.pid,
        over_id=str(front.id) if front else "",
        over=front.title if front else "",
    )


async def _windows_over(
    desktop: Desktop, window: Window, point: tuple[int, int] | None, earlier: Preview | None
) -> tuple[Window, ...]:
    """What lies at the point in place of the window that is meant. Later the same one is looked at again:
    whoever approved has brought the console to the front, and the window itself is raised before the
    action."""
    if earlier is not None:
        again = await desktop.window(int(earlier.over_id)) if earlier.over_id else None
        return (again,) if again is not None else ()
    if point is None:
        return ()
    under = await desktop.under(*point)
    return () if any(other.id == window.id for other in under) else under


async def _target_window(desktop: Desktop, named: str | None, earlier: Preview | None) -> Window | str:
    if earlier is not None:
        return await desktop.window(int(earlier.window_id)) or "the one that was meant is gone"
    if named is None:
        return await desktop.focused() or "no window has the focus"
    return find_window(named, await desktop.windows())
