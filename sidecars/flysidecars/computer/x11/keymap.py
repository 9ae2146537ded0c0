"""Characters that the keyboard map lacks, put on keys that nobody uses.

xdotool types such a character by giving it a spare key for the moment of the press. A program reads
the map only when it handles the press; when it is a little late, the key already means something
else, and other text arrives than was approved (seen: 240 of 260 characters wrong on a busy machine).
Here the keys are given before typing and kept until the program has had time to read them.
"""

from __future__ import annotations

import time
from ctypes import POINTER, byref, c_char_p, c_int, c_ubyte, c_ulong, c_void_p

from flysafe.x11_reader import declare
from flysidecars.computer.x11.windows import Display
from flysidecars.sdk import ToolFailed

SETTLE_S = 0.4
"""How long after its last press a key keeps its meaning."""

_LAST_LATIN_1 = 0xFF
_UNICODE = 0x0100_0000
_FIRST_USABLE = 9
"""Key code 8, the lowest there can be, is taken for no key by some programs."""


_SIGNATURES = {
    "XSync": (c_int, (c_void_p, c_int)),
    "XStringToKeysym": (c_ulong, (c_char_p,)),
    "XDisplayKeycodes": (c_int, (c_void_p, POINTER(c_int), POINTER(c_int))),
    "XGetKeyboardMapping": (POINTER(c_ulong), (c_void_p, c_ubyte, c_int, POINTER(c_int))),
    "XChangeKeyboardMapping": (c_int, (c_void_p, c_int, c_int, POINTER(c_ulong), c_int)),
}


def is_key_name(display: Display, name: str) -> bool:
    """Whether X knows a key of this name."""
    declare(display.library, _SIGNATURES)
    return bool(display.library.XStringToKeysym(name.encode()))


class SpareKeys:
    """A context manager: the keys it gave a meaning lose it on exit, after the time to settle."""

    def __init__(self, display: Display) -> None:
        declare(display.library, _SIGNATURES)
        self._display = display
        self._mapped: set[int] = set()
        self._meaning: dict[int, str] = {}
        self._last_use: dict[int, float] = {}

    def __enter__(self) -> SpareKeys:
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        bound = [code for code, character in self._meaning.items() if character]
        self._settle(bound)
        for code in bound:
            self._give(code, "")
        self._display.library.XSync(self._display.handle, 0)

    @property
    def count(self) -> int:
        """How many keys there are to give."""
        return len(self._meaning)

    def missing(self, text: str) -> list[str]:
        """The characters of `text` that the map, spare keys left aside, has no key for."""
        return sorted({character for character in text if keysym(character) not in self._mapped})

    def prepare(self, text: str) -> None:
        """Give every character of `text` a key. Raises `ToolFailed` (`untypable`) where there are
        fewer spare keys than it needs at once."""
        needed = set(self.missing(text))
        if len(needed) > self.count:
            raise ToolFailed(
                "untypable",
                f"the keyboard map has {self.count} spare keys and {len(needed)} are needed",
            )
        held = {character: code for code, character in self._meaning.items() if character in needed}
        order = sorted(self._meaning, key=lambda code: self._last_use.get(code, 0.0))
        free = [code for code in order if code not in held.values()]
        fresh = dict(zip(sorted(needed - held.keys()), free, strict=False))
        self._settle([code for code in fresh.values() if self._meaning[code]])
        for character, code in fresh.items():
            self._give(code, character)
        self._display.library.XSync(self._display.handle, 0)

    def used(self, text: str) -> None:
        """Note that `text` has just been typed."""
        now = time.monotonic()
        for code, character in self._meaning.items():
            if character and character in text:
                self._last_use[code] = now

    def _settle(self, codes: list[int]) -> None:
        last = max((self._last_use.get(code, 0.0) for code in codes), default=0.0)
        time.sleep(max(0.0, last + SETTLE_S - time.monotonic()) if last else 0.0)

    def _give(self, code: int, character: str) -> None:
        value = keysym(character) if character else 0
        self._display.library.XChangeKeyboardMapping(
            self._display.handle, code, 2, (c_ulong * 2)(value, value), 1
        )
        self._meaning[code] = character

    def _read(self) -> None:
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
                self._meaning[code] = ""
        library.XFree(table)


def keysym(character: str) -> int:
    """The key symbol of a character: itself up to Latin-1, then X11's Unicode range; tab is a key."""
    number = ord(character)
    if character == "\t":
        return 0xFF09
    return number if number <= _LAST_LATIN_1 else _UNICODE + number
