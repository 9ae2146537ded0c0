"""What a pointer or keyboard action would hit: taken by the kernel before anyone is asked."""

from __future__ import annotations

from typing import Protocol

from flycore.executive.stop import Stop, failed
from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.canonical import JsonObject
from flycore.model.enums import Code

TARGETED = ("computer.mouse", "computer.keyboard")
"""Tools whose effect depends on which window is in front."""


class Window(Value, frozen=True, kw_only=True):
    """A window as the display knows it."""

    id: int
    title: str
    pid: int = 0


class Seat(Value, frozen=True, kw_only=True):
    """Windows and processes of the open consoles, which no tool may touch."""

    window_ids: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()

    def holds(self, window: Window) -> bool:
        """Whether the window belongs to a console."""
        return window.id in self.window_ids or (window.pid != 0 and window.pid in self.pids)


class DesktopUnreadable(Exception):  # noqa: N818 - says what is, like the rest of the tree
    """The display cannot be asked; the text says why and what to install."""


class Desktop(Protocol):
    """Reads the display. Raises DesktopUnreadable."""

    async def focused(self) -> Window | None:
        """The window that has the keyboard focus."""
        ...

    async def window(self, window_id: int) -> Window | None:
        """The window of that id, None when it is gone."""
        ...

    async def windows(self) -> tuple[Window, ...]:
        """All visible windows that have a title."""
        ...


def choose(named: str, windows: tuple[Window, ...]) -> Window | str:
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


async def take_preview(
    desktop: Desktop, seat: Seat, tool: str, input: JsonObject, earlier: Preview | None = None
) -> Preview | Stop | None:
    """The target of a pointer or keyboard action; None for tools that have none.

    `earlier` is what was seen when the call arrived: then that window is looked at again, whichever has
    the focus by now (whoever approved has just used the console's). A console's own window, or none at
    all, stops the call before anyone is asked.
    """
    if tool not in TARGETED:
        return None
    named = input.get("window")
    try:
        window = await _find(desktop, named if isinstance(named, str) else None, earlier)
    except DesktopUnreadable as error:
        return failed(Code.FAILED, str(error), "flytui doctor says what this machine lacks")
    if isinstance(window, str):
        return failed(Code.INVALID_INPUT, f"name a window: {window}", "computer.window lists them")
    if seat.holds(window):
        return failed(
            Code.INVALID_INPUT,
            "name a window: the one meant is the console's own, which no tool may touch",
            "computer.window lists the others",
        )
    return Preview(window_id=str(window.id), title=window.title, pid=window.pid)


async def _find(desktop: Desktop, named: str | None, earlier: Preview | None) -> Window | str:
    if earlier is not None:
        return await desktop.window(int(earlier.window_id)) or "the one that was meant is gone"
    if named is None:
        return await desktop.focused() or "no window has the focus"
    return choose(named, await desktop.windows())
