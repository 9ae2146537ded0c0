"""Binds characters that the keyboard map lacks to unused (spare) keys.

xdotool does this by itself, but only for the moment of the press. A program reads the map when it handles
the press. If it is late, the key means another character by then, and other text arrives than was approved
(measured: 240 of 260 characters wrong on a busy machine). This module binds the keys before the typing and
keeps them bound until the program has had time to read the map.
"""

from __future__ import annotations

import time
from ctypes import POINTER, byref, c_char_p, c_int, c_ubyte, c_ulong, c_void_p

from flysafe.x11_reader import declare
from flysidecars.computer.x11.windows import Display
from flysidecars.sdk import ToolFailed

SETTLE_S = 0.4
"""Seconds that a key stays bound after its last press."""

_LAST_LATIN_1 = 0xFF
_UNICODE = 0x0100_0000
_FIRST_USABLE = 9
"""The lowest key code that is used. Some programs ignore code 8, the lowest of X."""

_SIGNATURES = {
    "XSync": (c_int, (c_void_p, c_int)),
    "XStringToKeysym": (c_ulong, (c_char_p,)),
    "XDisplayKeycodes": (c_int, (c_void_p, POINTER(c_int), POINTER(c_int))),
    "XGetKeyboardMapping": (POINTER(c_ulong), (c_void_p, c_ubyte, c_int, POINTER(c_int))),
    "XChangeKeyboardMapping": (c_int, (c_void_p, c_int, c_int, POINTER(c_ulong), c_int)),
}


def is_key_name(display: Display, name: str) -> bool:
    """Whether X has a key of this name."""
    declare(display.library, _SIGNATURES)
    return bool(display.library.XStringToKeysym(name.encode()))


class SpareKeys:
    """The unused keys of the keyboard map, as a context manager that unbinds them on exit after
    `SETTLE_S`."""

    def __init__(self, display: Display) -> None:
        declare(display.library, _SIGNATURES)
        self._display = display
        self._mapped: set[int] = set()
        self._bound: dict[int, str] = {}
        self._last_use: dict[int, float] = {}

    def __enter__(self) -> SpareKeys:
        self._read_map()
        return self

    def __exit__(self, *_: object) -> None:
        bound = [code for code, character in self._bound.items() if character]
        self._wait_until_read(bound)
        for code in bound:
            self._bind(code, "")
        self._display.library.XSync(self._display.handle, 0)

    @property
    def count(self) -> int:
        """The number of spare keys."""
        return len(self._bound)

    def missing(self, text: str) -> list[str]:
        """The characters of `text` that the map has no key for, apart from spare keys."""
        return sorted({character for character in text if keysym(character) not in self._mapped})

    def prepare(self, text: str) -> None:
        """Bind a key to every character of `text`. Raises `ToolFailed` (`untypable`) if there are too few
        spare keys."""
        needed = set(self.missing(text))
        if len(needed) > self.count:
            raise ToolFailed(
                "untypable",
                f"the keyboard map has {self.count} spare keys and {len(needed)} are needed",
            )
        in_use = {character: code for code, character in self._bound.items() if character in needed}
        order = sorted(self._bound, key=lambda code: self._last_use.get(code, 0.0))
        free = [code for code in order if code not in in_use.values()]
        fresh = dict(zip(sorted(needed - in_use.keys()), free, strict=False))
        self._wait_until_read([code for code in fresh.values() if self._bound[code]])
        for character, code in fresh.items():
            self._bind(code, character)
        self._display.library.XSync(self._display.handle, 0)

    def mark_used(self, text: str) -> None:
        """Record that `text` has just been typed."""
        now = time.monotonic()
        for code, character in self._bound.items():
            if character and character in text:
                self._last_use[code] = now

    def _wait_until_read(self, codes: list[int]) -> None:
        last = max((self._last_use.get(code, 0.0) for code in codes), default=0.0)
        time.sleep(max(0.0, last + SETTLE_S - time.monotonic()) if last else 0.0)

    def _bind(self, code: int, character: str) -> None:
        value = keysym(character) if character else 0
        self._display.library.XChangeKeyboardMapping(
            self._display.handle, code, 2, (c_ulong * 2)(value, value), 1
        )
        self._bound[code] = character

    def _read_map(self) -> None:
        library, handle = self._display.library, self._display.handle
        low, high, width = c_int(), c_int(), c_int()
        library.XDisplayKeycodes(handle, byref(low), byref(high))
        count = high.value - low.value + 1
        table = library.XGetKeyboardMapping(handle, low.value, count, byref(width))
        for index in range(count):
            symbols = table[index * width.value : (index + 1) * width.value]
            code = low.value + index
            if any(symbols):
                self._mapped.update(symbols)
            elif code >= _FIRST_USABLE:
                self._bound[code] = ""
        library.XFree(table)


def keysym(character: str) -> int:
    """The keysym of a character: its code up to Latin-1, then X11's Unicode range; Tab has its own."""
    number = ord(character)
    if character == "\t":
        return 0xFF09
    return number if number <= _LAST_LATIN_1 else _UNICODE + number
