"""What a console shows, cell by cell, as a text that is kept: the characters, and a letter for each look.

A letter is worked out from the look in 24-bit colours on the dark theme, so that a new look leaves the
letters of the others as they are. Beside it stands what becomes of it in the other variants.
"""

from __future__ import annotations

import hashlib
import os
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from rich._palettes import EIGHT_BIT_PALETTE
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.pilot import Pilot

from flytui.console.app import FlytuiApp
from flytui.console.colour_depth import ColourDepth, Rgb, contrast, usual_palettes
from flytui.console.line_filters import DepthFilter
from flytui.console.screens.armed import ArmedScreen
from flytui.console.themes import DARK_NAME, LIGHT_NAME, themes
from kits.console import HandClock, frame, settle, until

VARIANTS = tuple(
    (depth, theme) for depth in (ColourDepth.TRUE, ColourDepth.INDEXED) for theme in (DARK_NAME, LIGHT_NAME)
)
VARIANT_NAMES = ("24-bit dark", "24-bit light", "256 dark", "256 light")
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """How a cell is drawn. `_look` gives one object for each look, so that a grid compares objects."""

    fore: Color
    back: Color
    marks: str
    """`b` for bold, `i` for italic, `u` for underlined, in this order."""

    def __str__(self) -> str:
        return _words(self)

    @property
    def contrast(self) -> float:
        """The contrast of WCAG, from 1 to 21."""
        return contrast(_rgb(self.fore), _rgb(self.back))


@cache
def _look(fore: Color, back: Color, marks: str) -> Look:
    return Look(fore, back, marks)


@cache
def _words(look: Look) -> str:
    return f"{_named(look.fore)} on {_named(look.back)}{f' {look.marks}' if look.marks else ''}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the screen. The second one of a wide character has an empty text."""

    text: str
    look: Look


Grid = tuple[tuple[Cell, ...], ...]


def _rgb(colour: Color) -> Rgb:
    red, green, blue = (
        EIGHT_BIT_PALETTE[colour.number] if colour.number is not None else colour.get_truecolor()
    )
    return red, green, blue


def _named(colour: Color) -> str:
    return str(colour.number) if colour.number is not None else colour.get_truecolor().hex


def grid_of(app: FlytuiApp) -> Grid:
    """All cells of the screen, as they are sent to the terminal after all filters."""
    return tuple(tuple(_cells(strip)) for strip in app.screen._compositor.render_strips())


def _cells(strip: Iterable[Segment]) -> Iterator[Cell]:
    for segment in strip:
        assert segment.style is not None, segment
        yield from _cells_of(segment.text, segment.style)


@cache
def _cells_of(text: str, style: Style) -> tuple[Cell, ...]:
    """The cells of a segment: most segments are in many grids."""
    look, cells = _look_of(style), list[Cell]()
    for character in text:
        cells.append(Cell(character, look))
        if cell_len(character) == 2:
            cells.append(Cell("", look))
    return tuple(cells)


@cache
def _look_of(style: Style) -> Look:
    assert style.bgcolor is not None, style
    # A blank needs no colour of its own.
    fore, back = style.color or style.bgcolor, style.bgcolor
    if style.reverse:
        fore, back = back, fore
    marks = "".join(
        mark for mark, on in (("b", style.bold), ("i", style.italic), ("u", style.underline)) if on
    )
    return _look(fore, back, marks)


def text_rows(grid: Grid) -> list[str]:
    """The characters of each row, without blanks at its end."""
    return ["".join(cell.text for cell in row).rstrip() for row in grid]


async def use_variant(app: FlytuiApp, pilot: Pilot[None], depth: ColourDepth, theme: str) -> None:
    """Draw the running console in that number of colours and that theme."""
    if app.depth is not depth:
        app.depth = depth
        app._depth_filter = DepthFilter(depth, usual_palettes(os.environ))
        for made in themes(depth):
            app.register_theme(made)
        # A theme of the same name would not count as another one.
        app.theme = "textual-light" if theme == DARK_NAME else "textual-dark"
    app.theme = theme
    await _drawn_twice(app, pilot)


async def resized(app: FlytuiApp, pilot: Pilot[None], clock: HandClock, size: tuple[int, int]) -> None:
    """Give the terminal that size, and wait until all is drawn for it. A screen that decides is shown with
    its keys as they are once the person has had time to read."""
    await pilot.resize_terminal(*size)
    await _drawn_twice(app, pilot)
    screen = app.screen
    if isinstance(screen, ArmedScreen):
        await until(pilot, lambda: screen._card.painted)
        screen._card.note_painted()
        clock.advance(5)
        screen._tick()
        await _drawn_twice(app, pilot)


async def _drawn_twice(app: FlytuiApp, pilot: Pilot[None]) -> None:
    """Wait until two drawings are the same: a bar that needs another number of lines moves all others. Every
    screen has a header."""
    seen: list[str] = []
    for _ in range(1_000):
        await settle(pilot)
        before, seen = seen, frame(app)
        if not seen[0].strip():
            # Textual may leave out what is below a box after a resize, until that screen is drawn itself.
            for below in app.screen_stack:
                below.refresh(layout=True)
        elif before == seen:
            return
    raise AssertionError(f"{app.screen!r} is drawn anew without end")


@dataclass(slots=True)
class Pictures:
    """What was drawn of a screen: at each size in the first variant, and at one size in all of them."""

    name: str
    sizes: dict[tuple[int, int], Grid] = field(default_factory=dict)
    variants: list[Grid] = field(default_factory=list)

    def as_text(self) -> str:
        """The screen at each size, its text first and then the letters of its looks; then what these mean."""
        looks = {cell.look for grid in self.sizes.values() for row in grid for cell in row}
        letters = _letters_of(looks)
        rows = [self.name]
        for (width, height), grid in self.sizes.items():
            rows += ["", f"── {width}×{height} ".ljust(width, "─"), *text_rows(grid)]
            rows += [f"── {width}×{height}, looks ".ljust(width, "─")]
            rows += [_shortened("".join(letters[cell.look] for cell in row)) for row in grid]
        rows += ["", "looks: " + " | ".join(VARIANT_NAMES)]
        meanings = self._meanings()
        for look, letter in sorted(letters.items(), key=lambda pair: pair[1]):
            rows += [f"{letter}  {words}" for words in sorted(meanings.get(look, {str(look)}))]
        return "\n".join(rows) + "\n"

    def _meanings(self) -> dict[Look, set[str]]:
        """The looks in all variants, by the one in the first. The variants have to show the same text."""
        text, found = text_rows(self.variants[0]), dict[Look, set[str]]()
        for name, grid in zip(VARIANT_NAMES, self.variants, strict=True):
            other = [pair for pair in zip(text, text_rows(grid), strict=True) if pair[0] != pair[1]]
            assert not other, f"another text in {name}: {other}"
        together = {
            tuple(cell.look for cell in cells)
            for rows in zip(*self.variants, strict=True)
            for cells in zip(*rows, strict=True)
        }
        for looks in together:
            found.setdefault(looks[0], set()).add(" | ".join(map(str, looks)))
        return found


def _letters_of(looks: set[Look]) -> dict[Look, str]:
    """A letter for each look. Where two would have the same one, the second has the next that is free."""
    assert len(looks) <= len(_LETTERS), f"more than {len(_LETTERS)} looks on one screen"
    found: dict[Look, str] = {}
    for look in sorted(looks, key=str):
        at = int(hashlib.sha256(str(look).encode()).hexdigest(), 16)
        while _LETTERS[at % len(_LETTERS)] in found.values():
            at += 1
        found[look] = _LETTERS[at % len(_LETTERS)]
    return found


def _shortened(letters: str) -> str:
    """The letters of a row; the last one stands for all cells to the right edge."""
    return letters.rstrip(letters[-1]) + letters[-1]
