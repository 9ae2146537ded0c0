"""One connection to the X server, for reading windows. Ids are plain integers; 0 is no window."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_int, c_uint, c_ulong, c_void_p

from flysidecars.sdk import Unavailable
from flysidecars.x11.library import VIEWABLE, Attributes, load_library
from flysidecars.x11.titles import WM_NAME, read_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

MAX_DEPTH = 64
"""Deeper window trees are cut: no toolkit comes near, and a hostile client must not hold us."""

_CARDINAL = 6


class Geometry:
    """A rectangle in pixels of the root window."""

    __slots__ = ("height", "width", "x", "y")

    def __init__(self, x: int, y: int, width: int, height: int) -> None:
        self.x = x
        self.y = y
        self.width = width
        self.height = height

    def contains(self, x: int, y: int) -> bool:
        """Whether the point lies inside."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height

    def meets(self, other: Geometry) -> bool:
        """Whether the two have a pixel in common."""
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height


class Display:
    """A context manager: the connection is open between enter and exit.

    Raises `Unavailable` on entering where there is no display, none that answers, or no libX11.
    """

    def __enter__(self) -> Display:
        name = display_name()
        try:
            self.library = load_library()
        except OSError as missing:
            raise Unavailable(
                "the library libX11 is not installed", "install it (Debian: apt install libx11-6)"
            ) from missing
        opened = self.library.XOpenDisplay(None)
        if not opened:
            raise Unavailable(
                f"the X server of DISPLAY={name} does not answer or refuses this user",
                "start flytui in a terminal of that desktop, or set DISPLAY and XAUTHORITY to one that runs",
            )
        self.handle = c_void_p(opened)
        self.root: int = self.library.XDefaultRootWindow(self.handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.library.XCloseDisplay(self.handle)

    def tree(self, window: int) -> tuple[int, tuple[int, ...]] | None:
        """Parent (0 for the root) and children of a window, or None where there is no such window."""
        root, parent, count = c_ulong(), c_ulong(), c_uint()
        children = POINTER(c_ulong)()
        if not self.library.XQueryTree(
            self.handle, window, byref(root), byref(parent), byref(children), byref(count)
        ):
            return None
        found = tuple(children[index] for index in range(count.value))
        if children:
            self.library.XFree(children)
        return parent.value, found

    def ancestors(self, window: int) -> tuple[int, ...]:
        """The windows that hold this one, innermost first, without the root."""
        found: list[int] = []
        while len(found) < MAX_DEPTH and (known := self.tree(window)) is not None:
            window = known[0]
            if window in (0, self.root):
                break
            found.append(window)
        return tuple(found)

    def focused(self) -> int:
        """The window that gets the keys. 0 where none has the focus, also where the server is set to
        follow the pointer (its `PointerRoot`), because then nobody can say who will get them."""
        window, revert = c_ulong(), c_int()
        self.library.XGetInputFocus(self.handle, byref(window), byref(revert))
        return 0 if window.value in (0, 1, self.root) else window.value

    def geometry(self, window: int) -> Geometry | None:
        """Where a window is on the root window, or None where there is no such window."""
        attributes = self._attributes(window)
        x, y, child = c_int(), c_int(), c_ulong()
        if attributes is None or not self.library.XTranslateCoordinates(
            self.handle, window, self.root, 0, 0, byref(x), byref(y), byref(child)
        ):
            return None
        return Geometry(x.value, y.value, attributes.width, attributes.height)

    def visible(self, window: int) -> bool:
        """Whether the window and all around it are mapped."""
        attributes = self._attributes(window)
        return attributes is not None and attributes.map_state == VIEWABLE

    def title(self, window: int) -> str:
        """`_NET_WM_NAME`, else `WM_NAME`; empty where it has none. Text from outside."""
        modern = self.library.XInternAtom(self.handle, b"_NET_WM_NAME", 0)
        return read_title(self.library, self.handle, window, modern) or read_title(
            self.library, self.handle, window, WM_NAME
        )

    def _attributes(self, window: int) -> Attributes | None:
        attributes = Attributes()
        found = self.library.XGetWindowAttributes(self.handle, window, byref(attributes))
        return attributes if found else None

    def at_point(self, x: int, y: int) -> tuple[int, ...]:
        """The windows under a point of the root window, outermost first."""
        found: list[int] = []
        window = self.root
        while len(found) < MAX_DEPTH:
            inner_x, inner_y, child = c_int(), c_int(), c_ulong()
            translated = self.library.XTranslateCoordinates(
                self.handle, self.root, window, x, y, byref(inner_x), byref(inner_y), byref(child)
            )
            if not translated or not child.value:
                break
            window = child.value
            found.append(window)
        return tuple(found)

    def pid(self, window: int) -> int:
        """The process that a window says it belongs to (`_NET_WM_PID`); 0 where it says nothing."""
        atom = self.library.XInternAtom(self.handle, b"_NET_WM_PID", 0)
        kind, form, count, left = c_ulong(), c_int(), c_ulong(), c_ulong()
        data = POINTER(c_ulong)()
        answers = (byref(kind), byref(form), byref(count), byref(left), byref(data))
        failed = self.library.XGetWindowProperty(self.handle, window, atom, 0, 1, 0, _CARDINAL, *answers)
        value = int(data[0]) if not failed and data and count.value and form.value == 32 else 0
        if data:
            self.library.XFree(data)
        return value


def display_name() -> str:
    """The display this process was given; raises `Unavailable` where it was given none."""
    name = os.environ.get("DISPLAY", "")
    if name:
        return name
    if os.environ.get("WAYLAND_DISPLAY"):
        raise Unavailable(
            "this is a Wayland session without X11 (DISPLAY is not set)",
            "log in to an X11 session, or start XWayland and set DISPLAY",
        )
    raise Unavailable(
        "there is no X11 display (DISPLAY is not set)",
        "start flytui in a terminal of the desktop, and set permissions.desktop of the entry to true",
    )
