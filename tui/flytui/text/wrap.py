"""Text measured and wrapped by terminal cells, losing nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_PIECES = re.compile(r"[ -~]+|⟦[^⟧]*⟧|.", re.DOTALL)
"""Runs of printable ASCII, visible tokens, single characters."""
_ATOMS = re.compile(r"⟦[^⟧]*⟧|.", re.DOTALL)
"""Visible tokens, single characters."""


def cell_width(text: str) -> int:
    """Cells the text takes on a terminal: 2 for wide and fullwidth characters, 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def wrap_exact(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells whose concatenation is the text. Empty text is one empty line.

    A combining mark stays with its character; a token is torn only where it is wider than a line.
    """
    lines, parts, room = [], [], width
    for match in _PIECES.finditer(text):
        piece, cells = match[0], cell_width(match[0])
        tears = piece.isascii() or cells > width  # ASCII and tokens have one cell a character
        while cells > room:
            if tears:
                parts.append(piece[:room])
                piece, cells = piece[room:], cells - room
            lines.append("".join(parts))
            parts, room = [], width
        parts.append(piece)
        room -= cells
    return [*lines, "".join(parts)]


def wrap_words(text: str, width: int) -> list[str]:
    """Like `wrap_exact`, but breaks after a space where one lies in the second half of the line; so a line
    begins with a word, not with the space before it."""
    if cell_width(text) <= width:
        return [text]
    lines, line = [], _Line()
    for atom in _atoms(text, width):
        while line.cells + atom.cells > width and line.text:
            cut = line.text.rfind(" ") + 1
            if cut <= len(line.text) // 2:
                cut = len(line.text)
            lines.append(line.text[:cut])
            line = _Line(line.text[cut:], cell_width(line.text[cut:]))
        line = _Line(line.text + atom.text, line.cells + atom.cells)
    return [*lines, line.text]


class _Line(NamedTuple):
    text: str = ""
    cells: int = 0


def _atoms(text: str, width: int) -> Iterator[_Line]:
    for match in _ATOMS.finditer(text):
        cells = cell_width(match[0])
        parts = match[0] if cells > width else (match[0],)
        yield from (_Line(part, cell_width(part)) for part in parts)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
