"""libX11 by ctypes: the few functions that are needed, with their types."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_long, c_ubyte, c_uint, c_ulong, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW = c_ulong
VIEWABLE = 2


class Attributes(ctypes.Structure):
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


class TextProperty(ctypes.Structure):
    """XTextProperty."""

    _fields_ = (("value", c_void_p), ("encoding", c_ulong), ("format", c_int), ("count", c_ulong))


_INTS = POINTER(c_int)
_UINTS = POINTER(c_uint)
_LONGS = POINTER(c_ulong)
_STRINGS = POINTER(c_char_p)
_PROPERTY_ANSWER = (_LONGS, _INTS, _LONGS, _LONGS, POINTER(_LONGS))

SIGNATURES: Mapping[str, tuple[object, tuple[object, ...]]] = {
    "XOpenDisplay": (c_void_p, (c_char_p,)),
    "XCloseDisplay": (c_int, (c_void_p,)),
    "XDefaultRootWindow": (WINDOW, (c_void_p,)),
    "XFree": (c_int, (c_void_p,)),
    "XSync": (c_int, (c_void_p, c_int)),
    "XQueryTree": (c_int, (c_void_p, WINDOW, _LONGS, _LONGS, POINTER(_LONGS), _UINTS)),
    "XGetInputFocus": (c_int, (c_void_p, _LONGS, _INTS)),
    "XGetWindowAttributes": (c_int, (c_void_p, WINDOW, POINTER(Attributes))),
    "XGetTextProperty": (c_int, (c_void_p, WINDOW, POINTER(TextProperty), c_ulong)),
    "Xutf8TextPropertyToTextList": (c_int, (c_void_p, POINTER(TextProperty), POINTER(_STRINGS), _INTS)),
    "XFreeStringList": (None, (_STRINGS,)),
    "XTranslateCoordinates": (c_int, (c_void_p, WINDOW, WINDOW, c_int, c_int, _INTS, _INTS, _LONGS)),
    "XInternAtom": (c_ulong, (c_void_p, c_char_p, c_int)),
    "XGetWindowProperty": (
        c_int,
        (c_void_p, WINDOW, c_ulong, c_long, c_long, c_int, c_ulong, *_PROPERTY_ANSWER),
    ),
    "XStringToKeysym": (c_ulong, (c_char_p,)),
    "XDisplayKeycodes": (c_int, (c_void_p, _INTS, _INTS)),
    "XGetKeyboardMapping": (_LONGS, (c_void_p, c_ubyte, c_int, _INTS)),
    "XChangeKeyboardMapping": (c_int, (c_void_p, c_int, c_int, _LONGS, c_int)),
}

_ERROR_HANDLER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)


def _ignore(_display: int, _event: int) -> int:
    return 0


ignore_errors = _ERROR_HANDLER(_ignore)
"""libX11's own handler ends the program when a window has just gone; a failed request returns 0
to its caller anyway. Kept here because ctypes does not keep it alive."""


def load_library() -> ctypes.CDLL:
    """libX11 with typed functions and a handler that lets errors be return values. Raises `OSError`
    where it is not installed."""
    library = ctypes.CDLL("libX11.so.6")
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    library.XSetErrorHandler(ignore_errors)
    return library
