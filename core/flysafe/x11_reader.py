"""Reads the windows of an X11 display through libX11 with ctypes: the window tree, titles, focus, positions.

Each request over the open connection takes microseconds, so a caller can check immediately before it acts.
Window ids are integers, and 0 is no window. Titles and process ids are what programs state about their own
windows, so they are text from outside. Nothing here changes the display.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_uint, c_ulong, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    Signatures = Mapping[str, tuple[object, tuple[object, ...]]]
    """Name of a function of libX11 to the types of its result and its arguments."""

MAX_DEPTH = 64
"""Depth at which window trees are cut. No toolkit needs as much, and a hostile client must not block the
caller."""
MAX_WINDOWS = 256
MAX_VISITED = 20_000

WINDOW = c_ulong
_VIEWABLE = 2
_WM_NAME = 39
"""The predefined atom of the older title property."""
_STRING = 31
_CARDINAL = 6
_ATOM = 4
_WORK_TYPES = (b"_NET_WM_WINDOW_TYPE_NORMAL", b"_NET_WM_WINDOW_TYPE_DIALOG")


class _Attributes(ctypes.Structure):
    """XWindowAttributes."""

    _fields_ = (
        *((name, c_int) for name in ("x", "y", "width", "height", "border_width", "depth")),
        ("visual", c_void_p),
        ("root", WINDOW),
        *((name, c_int) for name in ("class_", "bit_gravity", "win_gravity", "backing_store")),
        ("backing_planes", c_ulong),
        ("backing_pixel", c_ulong),
        ("save_under", c_int),
        ("colormap", c_ulong),
        ("map_installed", c_int),
        ("map_state", c_int),
        *((name, c_long) for name in ("all_event_masks", "your_event_mask", "do_not_propagate_mask")),
        ("override_redirect", c_int),
        ("screen", c_void_p),
    )


class _TextProperty(ctypes.Structure):
    """XTextProperty."""

    _fields_ = (("value", c_void_p), ("encoding", c_ulong), ("format", c_int), ("count", c_ulong))


_INTS = POINTER(c_int)
_UINTS = POINTER(c_uint)
_LONGS = POINTER(c_ulong)
_STRINGS = POINTER(c_char_p)
_PROPERTY_ANSWER = (_LONGS, _INTS, _LONGS, _LONGS, POINTER(_LONGS))

_SIGNATURES: Signatures = {
    "XOpenDisplay": (c_void_p, (c_char_p,)),
    "XCloseDisplay": (c_int, (c_void_p,)),
    "XDefaultRootWindow": (WINDOW, (c_void_p,)),
    "XFree": (c_int, (c_void_p,)),
    "XQueryTree": (c_int, (c_void_p, WINDOW, _LONGS, _LONGS, POINTER(_LONGS), _UINTS)),
    "XGetInputFocus": (c_int, (c_void_p, _LONGS, _INTS)),
    "XGetWindowAttributes": (c_int, (c_void_p, WINDOW, POINTER(_Attributes))),
    "XGetTextProperty": (c_int, (c_void_p, WINDOW, POINTER(_TextProperty), c_ulong)),
    "Xutf8TextPropertyToTextList": (c_int, (c_void_p, POINTER(_TextProperty), POINTER(_STRINGS), _INTS)),
    "XFreeStringList": (None, (_STRINGS,)),
    "XTranslateCoordinates": (c_int, (c_void_p, WINDOW, WINDOW, c_int, c_int, _INTS, _INTS, _LONGS)),
    "XInternAtom": (c_ulong, (c_void_p, c_char_p, c_int)),
    "XGetWindowProperty": (
        c_int,
        (c_void_p, WINDOW, c_ulong, c_long, c_long, c_int, c_ulong, *_PROPERTY_ANSWER),
    ),
}


def _ignore(_display: int, _event: int) -> int:
    return 0


# The default handler of libX11 ends the program for a request about a window that was just closed. A failed
# request returns 0 anyway. The object is kept here because ctypes does not keep it alive.
_ignore_errors = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(_ignore)


def declare(library: ctypes.CDLL, signatures: Signatures) -> None:
    """Give functions of the library their types; without them ctypes cuts pointers to 32 bits."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


class DisplayUnavailable(Exception):
    """There is no X11 display to read; `remedy` is what a person can do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class Geometry:
    """A rectangle in pixels of the root window."""

    __slots__ = ("height", "width", "x", "y")

    def __init__(self, x: int, y: int, width: int, height: int) -> None:
        self.x = x
        self.y = y
        self.width = width
        self.height = height

    def contains(self, x: int, y: int) -> bool:
        """Return whether the point is inside."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height

    def meets(self, other: Geometry) -> bool:
        """Return whether the two rectangles have a pixel in common."""
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height


class Window:
    """A window at the time when it was read. `title` and `pid` are as its program states; 0 is no process."""

    __slots__ = ("geometry", "id", "pid", "title")

    def __init__(self, id: int, title: str, pid: int, geometry: Geometry) -> None:
        self.id = id
        self.title = title
        self.pid = pid
        self.geometry = geometry


def display_name() -> str:
    """Return the display from the environment of this process. Raises DisplayUnavailable."""
    name = os.environ.get("DISPLAY", "")
    if name:
        return name
    if os.environ.get("WAYLAND_DISPLAY"):
        raise DisplayUnavailable(
            "this is a Wayland session without X11 (DISPLAY is not set)",
            "log in to an X11 session, or start XWayland and set DISPLAY",
        )
    raise DisplayUnavailable(
        "there is no X11 display (DISPLAY is not set)",
        "start flytui in a terminal of the desktop, and set permissions.desktop of the entry to true",
    )


class X11Reader:
    """A connection to the display, open while this context manager is.

    Entering raises DisplayUnavailable where there is no display, the X server does not answer, or libX11 is
    missing.
    """

    def __enter__(self) -> X11Reader:
        name = display_name()
        try:
            self.library = ctypes.CDLL("libX11.so.6")
        except OSError as missing:
            raise DisplayUnavailable(
                "the library libX11 is not installed", "install it (Debian: apt install libx11-6)"
            ) from missing
        declare(self.library, _SIGNATURES)
        self.library.XSetErrorHandler(_ignore_errors)
        opened = self.library.XOpenDisplay(None)
        if not opened:
            raise DisplayUnavailable(
                f"the X server of DISPLAY={name} does not answer or refuses this user",
                "start flytui in a terminal of that desktop, or set DISPLAY and XAUTHORITY to one that runs",
            )
        self.handle = c_void_p(opened)
        self.root: int = self.library.XDefaultRootWindow(self.handle)
        self.screen = self.geometry(self.root) or Geometry(0, 0, 0, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.library.XCloseDisplay(self.handle)

    def window(self, number: int) -> Window | None:
        """Return the window with this id, or None where there is none."""
        geometry = self.geometry(number) if 0 < number < 2**32 else None
        return Window(number, self.title(number), self.pid(number), geometry) if geometry else None

    def visible_windows(self) -> list[Window]:
        """Return the windows on the screen that have a title, outer ones first, at most `MAX_WINDOWS`."""
        # Frames and buttons of a window manager have no title, and its helper windows are outside the screen.
        found: list[Window] = []
        waiting = [self.root]
        for number in waiting:
            known = self.tree(number)
            children = known[1] if known else ()
            waiting.extend(child for child in children if self.visible(child))
            window = self.on_screen(number) if number != self.root else None
            if window is not None and window.title:
                found.append(window)
            if len(found) == MAX_WINDOWS or len(waiting) > MAX_VISITED:
                break
        return found

    def stacked_windows(self) -> list[Window]:
        """Return the windows on the screen in which a person works, front-most first: those with a title that
        a window manager manages, or would, but no panel, desktop or notice."""
        known = self.tree(self.root)
        found: list[Window] = []
        for top in reversed(known[1] if known else ()):
            # The child of the root is the window itself or the frame of a window manager around it.
            window = self._titled_within(top) if self.visible(top) else None
            if window is not None and self._is_for_work(window.id):
                found.append(window)
            if len(found) == MAX_WINDOWS:
                break
        return found

    def _titled_within(self, window: int) -> Window | None:
        """Return the outermost window within this one that has a title, which may be this one."""
        waiting = [window]
        for number in waiting:
            seen = self.on_screen(number)
            if seen is not None and seen.title:
                return seen
            known = self.tree(number)
            waiting.extend(child for child in (known[1] if known else ()) if self.visible(child))
            if len(waiting) > MAX_WINDOWS:
                break
        return None

    def _is_for_work(self, window: int) -> bool:
        attributes = self._attributes(window)
        kind = self._number(window, b"_NET_WM_WINDOW_TYPE", _ATOM)
        kinds = [self.library.XInternAtom(self.handle, name, 0) for name in _WORK_TYPES]
        return attributes is not None and not attributes.override_redirect and kind in (0, *kinds)

    def focused_window(self) -> Window | None:
        """Return the window with the focus, or the nearest window around it that has a title; None where that
        is not on the screen."""
        focus = self.focused()
        for number in (focus, *self.ancestors(focus)) if focus else ():
            window = self.on_screen(number)
            if window is not None and window.title:
                return window
        return None

    def on_screen(self, number: int) -> Window | None:
        """Return the window with this id; None where there is none, or no part of it is on the screen."""
        # While no program has the focus, a window manager gives it to a window of its own outside the screen.
        window = self.window(number)
        return window if window is not None and self.screen.meets(window.geometry) else None

    def tree(self, window: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the parent (0 for the root) and the children of a window; None where it does not exist."""
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
        """Return the windows that contain this one, innermost first, without the root."""
        found: list[int] = []
        while len(found) < MAX_DEPTH and (known := self.tree(window)) is not None:
            window = known[0]
            if window in (0, self.root):
                break
            found.append(window)
        return tuple(found)

    def focused(self) -> int:
        """Return the window that gets the keys; 0 where none has the focus."""
        # With `PointerRoot` (1) the focus follows the pointer, so nobody can say which window gets the keys.
        window, revert = c_ulong(), c_int()
        self.library.XGetInputFocus(self.handle, byref(window), byref(revert))
        return 0 if window.value in (0, 1, self.root) else window.value

    def geometry(self, window: int) -> Geometry | None:
        """Return the rectangle of a window on the root window; None where it does not exist."""
        attributes = self._attributes(window)
        x, y, child = c_int(), c_int(), c_ulong()
        if attributes is None or not self.library.XTranslateCoordinates(
            self.handle, window, self.root, 0, 0, byref(x), byref(y), byref(child)
        ):
            return None
        return Geometry(x.value, y.value, attributes.width, attributes.height)

    def visible(self, window: int) -> bool:
        """Return whether the window and all windows around it are mapped."""
        attributes = self._attributes(window)
        return attributes is not None and attributes.map_state == _VIEWABLE

    def title(self, window: int) -> str:
        """Return `_NET_WM_NAME` of the window, else `WM_NAME`; empty where it has neither."""
        modern = self.library.XInternAtom(self.handle, b"_NET_WM_NAME", 0)
        return self._text(window, modern) or self._text(window, _WM_NAME)

    def at_point(self, x: int, y: int) -> tuple[int, ...]:
        """Return the windows under a point of the root window, outermost first."""
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
        """Return the process that a window states (`_NET_WM_PID`); 0 where it states none."""
        return self._number(window, b"_NET_WM_PID", _CARDINAL)

    def _number(self, window: int, name: bytes, of_type: int) -> int:
        """Return the first number of a property of that type; 0 where the window has none."""
        atom = self.library.XInternAtom(self.handle, name, 0)
        kind, form, count, left = c_ulong(), c_int(), c_ulong(), c_ulong()
        data = POINTER(c_ulong)()
        answers = (byref(kind), byref(form), byref(count), byref(left), byref(data))
        failed = self.library.XGetWindowProperty(self.handle, window, atom, 0, 1, 0, of_type, *answers)
        value = int(data[0]) if not failed and data and count.value and form.value == 32 else 0
        if data:
            self.library.XFree(data)
        return value

    def _attributes(self, window: int) -> _Attributes | None:
        attributes = _Attributes()
        found = self.library.XGetWindowAttributes(self.handle, window, byref(attributes))
        return attributes if found else None

    def _text(self, window: int, atom: int) -> str:
        """Return one title property as text; empty where the window does not have it."""
        # Programs write UTF-8 into properties of every type, so UTF-8 is tried first and Latin-1 (the type
        # STRING) after it. libX11 translates compound text.
        found = _TextProperty()
        if not self.library.XGetTextProperty(self.handle, window, byref(found), atom) or not found.value:
            return ""
        try:
            data = ctypes.string_at(found.value, found.count) if found.format == 8 else b""
            if found.encoding == self.library.XInternAtom(self.handle, b"COMPOUND_TEXT", 0):
                data = self._translated(found) or data
            return _decoded(data, latin=found.encoding == _STRING).rstrip("\0")
        finally:
            self.library.XFree(found.value)

    def _translated(self, found: _TextProperty) -> bytes:
        strings = POINTER(c_char_p)()
        count = c_int()
        self.library.Xutf8TextPropertyToTextList(self.handle, byref(found), byref(strings), byref(count))
        if not strings:
            return b""
        text = strings[0] if count.value else b""
        self.library.XFreeStringList(strings)
        return text or b""


def _decoded(data: bytes, *, latin: bool) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1" if latin else "utf-8", "replace")
