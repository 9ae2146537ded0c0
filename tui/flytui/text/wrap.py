"""Measures and wraps text by terminal cells, without losing a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_PIECES = r"[ -~]+|⟦[^⟧]*⟧|."
"""Matches runs of printable ASCII, visible tokens, and single characters."""
_ATOMS = r"⟦[^⟧]*⟧|."
"""Matches visible tokens and single characters."""
# `re` compiles them once they are needed: lines that are short enough are not taken apart.


def cell_width(text: str) -> int:
    """The width of the text in terminal cells: 2 for wide and fullwidth characters, 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def cut_line(text: str, width: int) -> str:
    """The text, cut to `width` cells. Where something is cut, it ends with `…`. No token is parted."""
    if cell_width(text) <= width:
        return text
    kept, room = [], width - 1
    for match in re.finditer(_ATOMS, text, re.DOTALL):
        cells = cell_width(match[0])
        if cells > room:
            break
        kept.append(match[0])
        room -= cells
    return f"{''.join(kept).rstrip()}…"


def wrap_exact(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells whose concatenation is the text. Empty text gives one empty line.

    A combining mark stays with its character. A visible token is split only where it is wider than a line.
    """
    lines, parts, room = [], [], width
    for match in re.finditer(_PIECES, text, re.DOTALL):
        piece, cells = match[0], cell_width(match[0])
        # Slicing by cells is right for these two alone: ASCII and tokens have one cell for each character.
        splittable = piece.isascii() or cells > width
        while cells > room:
            if splittable:
                parts.append(piece[:room])
                piece, cells = piece[room:], cells - room
            lines.append("".join(parts))
            parts, room = [], width
        parts.append(piece)
        room -= cells
    return [*lines, "".join(parts)]


def wrap_words(text: str, width: int) -> list[str]:
    """Lines like those of `wrap_exact`, but broken after a space where the second half of the line has one,
    so that the next line begins with a word."""
    if 2 * len(text) <= width or cell_width(text) <= width:  # no character has more than two cells
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
    for match in re.finditer(_ATOMS, text, re.DOTALL):
        cells = cell_width(match[0])
        parts = match[0] if cells > width else (match[0],)
        yield from (_Line(part, cell_width(part)) for part in parts)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
