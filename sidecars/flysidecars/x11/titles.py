"""Reading a window's title in whichever encoding its program chose."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int

from flysidecars.x11.library import TextProperty

WM_NAME = 39
"""The predefined atom of the older title property."""
_STRING = 31


def read_title(library: ctypes.CDLL, handle: ctypes.c_void_p, window: int, atom: int) -> str:
    """One title property as text; empty where the window does not have it.

    Programs write UTF-8 into properties of every type, so UTF-8 is tried first, Latin-1 (the type
    STRING) after it; compound text is translated by libX11.
    """
    found = TextProperty()
    if not library.XGetTextProperty(handle, window, byref(found), atom) or not found.value:
        return ""
    try:
        data = ctypes.string_at(found.value, found.count) if found.format == 8 else b""
        if found.encoding == library.XInternAtom(handle, b"COMPOUND_TEXT", 0):
            data = _translated(library, handle, found) or data
        return _decoded(data, latin=found.encoding == _STRING).rstrip("\0")
    finally:
        library.XFree(found.value)


def _decoded(data: bytes, *, latin: bool) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1" if latin else "utf-8", "replace")


def _translated(library: ctypes.CDLL, handle: ctypes.c_void_p, found: TextProperty) -> bytes:
    strings = POINTER(c_char_p)()
    count = c_int()
    library.Xutf8TextPropertyToTextList(handle, byref(found), byref(strings), byref(count))
    if not strings:
        return b""
    text = strings[0] if count.value else b""
    library.XFreeStringList(strings)
    return text or b""
