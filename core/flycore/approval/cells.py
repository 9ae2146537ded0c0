"""Text measured and wrapped by terminal cells, losing nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_ATOMS = re.compile(r"⟦[^⟧]*⟧|.", re.DOTALL)
"""A visible token is not torn apart; everything else is a character."""


def cell_width(text: str) -> int:
    """Cells the text takes on a terminal: 2 for wide and fullwidth characters, 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def wrap_exact(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells whose concatenation is the text. Empty text is one empty line.

    A combining mark stays with its character. An atom wider than `width` gets a line of its own.
    """
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    return list(_fill(_atoms(text), width))


def wrap_words(text: str, width: int) -> list[str]:
    """Like `wrap_exact`, but breaks after a space where one lies in the second half of the line."""
    if cell_width(text) <= width:
        return [text]
    lines, line = [], _Line()
    for atom in _atoms(text):
        if line.cells + atom.cells > width and line.text:
            cut = line.text.rfind(" ") + 1
            if cut <= len(line.text) // 2 or atom.text == " ":
                cut = len(line.text)
            lines.append(line.text[:cut])
            line = _Line(line.text[cut:], cell_width(line.text[cut:]))
        line = _Line(line.text + atom.text, line.cells + atom.cells)
    return [*lines, line.text]


class _Line(NamedTuple):
    text: str = ""
    cells: int = 0


def _atoms(text: str) -> Iterator[_Line]:
    for match in _ATOMS.finditer(text):
        yield _Line(match[0], cell_width(match[0]))


def _fill(atoms: Iterator[_Line], width: int) -> Iterator[str]:
    parts: list[str] = []
    cells = 0
    for atom in atoms:
        if cells + atom.cells > width and parts:
            yield "".join(parts)
            parts, cells = [], 0
        parts.append(atom.text)
        cells += atom.cells
    yield "".join(parts)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
