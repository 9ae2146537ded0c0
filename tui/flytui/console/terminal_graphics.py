"""How a terminal can draw pictures: the question to it, and the answer, which is believed only for a while
after it was asked.

Kitty's protocol says how to ask: send a picture of one pixel that is only checked, and after it the question
for the terminal's attributes, which every terminal answers. An answer to the first before the one to the
second means that pictures can be drawn. The attributes name sixels by the number 4.
"""

from __future__ import annotations

import fcntl
import re
import struct
import termios
import time
from collections.abc import Callable
from enum import StrEnum

import msgspec

from flytui.text.pixel_graphics import CellSize


class GraphicsProtocol(StrEnum):
    """How pictures are drawn."""

    KITTY = "kitty"
    SIXEL = "sixel"
    BLOCKS = "blocks"
    """In ordinary cells, as everywhere else."""


class Graphics(msgspec.Struct, frozen=True):
    """How the pictures of this terminal are drawn."""

    protocol: GraphicsProtocol = GraphicsProtocol.BLOCKS
    colours: int = 256
    """The most colours of a picture in sixels."""


GRAPHICS_QUESTION = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[?1;1;0S\x1b[c"
"""Asks for kitty's protocol, for the number of colours of sixels, and for the attributes."""
ANSWER_S = 2.0
"""Seconds within which an answer is believed. Over a slow line it may take a second."""
MAX_ANSWER = 64
"""The most characters of an answer in a string."""
_TERMS_WITHOUT = frozenset(("", "dumb", "linux"))
"""Values of TERM whose terminals draw no pictures. Old Linux consoles print the question."""
_KITTY = re.compile(r"Gi=31;OK")
_ATTRIBUTES = re.compile(r"\x1b\[\?(\d{0,3}(?:;\d{0,3}){0,20})c")
_REGISTERS = re.compile(r"\x1b\[\?1;0;(\d{1,6})S")
_SIXEL = "4"


def may_draw_pictures(term: str) -> bool:
    """Whether a terminal with that TERM can be asked."""
    return term not in _TERMS_WITHOUT


class GraphicsQuestion:
    """The answers to one question. Whatever comes too late, twice, or in another form is not one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._kitty = False
        self._found = Graphics()
        self._result: Graphics | None = None

    def ask(self) -> None:
        """Believe the next answers, because the question is being sent now."""
        self._until = self._clock() + ANSWER_S
        self._kitty, self._found, self._result = False, Graphics(), None

    @property
    def open(self) -> bool:
        """Whether an answer may come."""
        return self._clock() < self._until

    def take_string(self, content: str) -> bool:
        """Take the content of an APC string, and return whether it is an answer."""
        if not self.open or self._kitty or _KITTY.fullmatch(content) is None:
            return False
        self._kitty = True
        return True

    def take_sequence(self, sequence: str) -> bool:
        """Take a control sequence, and return whether it is an answer."""
        if not self.open:
            return False
        if registers := _REGISTERS.fullmatch(sequence):
            self._found = msgspec.structs.replace(self._found, colours=max(2, min(256, int(registers[1]))))
            return True
        attributes = _ATTRIBUTES.fullmatch(sequence)
        if attributes is None:
            return False
        sixel = _SIXEL in attributes[1].split(";")[1:]
        protocol = GraphicsProtocol.SIXEL if sixel else GraphicsProtocol.BLOCKS
        self._found = msgspec.structs.replace(
            self._found, protocol=GraphicsProtocol.KITTY if self._kitty else protocol
        )
        # Every terminal sends this answer last.
        self._result, self._until = self._found, float("-inf")
        return True

    def take_result(self) -> Graphics | None:
        """What was found out since the last call; None while the answers are not complete."""
        result, self._result = self._result, None
        return result


def cell_size(terminal: int) -> CellSize | None:
    """The pixels of a cell of the terminal with that open descriptor; None where it does not tell."""
    try:
        found = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return None
    rows, columns, width, height = struct.unpack("HHHH", found)
    if not rows or not columns:
        return None
    size = CellSize(width // columns, height // rows)
    return size if 2 <= size.width <= 64 and 2 <= size.height <= 128 else None
