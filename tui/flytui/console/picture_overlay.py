"""Draws pictures as pixels over the cells that hold them as half blocks.

The cells are drawn in any case. So where a picture is scrolled to its middle, lies under a message, or is not
encoded yet, it is there in half blocks. The pixels are sent around the line filters, which know no pictures:
they are made from the checked pixels of a `Picture` and from nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import anyio.to_thread
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen

from flytui.console.terminal_graphics import Graphics, GraphicsProtocol
from flytui.console.widgets.lines import LineView
from flytui.text.lines import PicturePlace
from flytui.text.pixel_graphics import CellSize, kitty_picture, kitty_removal, sixel_picture

MOST_PICTURES = 8
"""The most pictures on one screen that are drawn as pixels."""


class PictureOverlay:
    """The pictures on the terminal. `write` sends text to it, and `cell` gives the size of its cells."""

    def __init__(
        self, app: App[None], write: Callable[[str], None], cell: Callable[[], CellSize | None]
    ) -> None:
        self._app = app
        self._write = write
        self._cell = cell
        self._graphics = Graphics()
        self._drawn: dict[Region, tuple[PicturePlace, int]] = {}
        """What is on the terminal, by the cells that it covers, with the number of each picture."""
        self._encoded: dict[tuple[PicturePlace, CellSize], str] = {}
        self._encoding: set[tuple[PicturePlace, CellSize]] = set()

    def use(self, graphics: Graphics) -> None:
        """Draw pictures in this way from now on."""
        self._graphics = graphics
        self.displayed(self._app.screen, None)

    def displayed(self, screen: Screen[object], update: object) -> None:
        """Draw the pictures that belong on the terminal, after `update` was drawn: those that are new, and
        those whose cells were drawn again."""
        if self._graphics.protocol is GraphicsProtocol.BLOCKS or screen is not self._app.screen:
            return
        cell = CellSize(1, 1) if self._graphics.protocol is GraphicsProtocol.KITTY else self._cell()
        wanted = dict(_places(screen)) if cell is not None else {}
        for region in [region for region in self._drawn if region not in wanted]:
            self._remove(region)
        for region, place in list(wanted.items())[:MOST_PICTURES]:
            same = region in self._drawn and self._drawn[region][0] == place
            if cell is not None and (not same or (update is not None and _touches(update, region))):
                self._draw(region, place, cell)

    def _draw(self, region: Region, place: PicturePlace, cell: CellSize) -> None:
        self._remove(region)
        if self._graphics.protocol is GraphicsProtocol.KITTY:
            taken = {number for _, number in self._drawn.values()}
            number = next(number for number in range(MOST_PICTURES + 1) if number not in taken)
            sequence = _kitty(place, number)
        else:
            number, found = 0, self._encoded.get((place, cell))
            if found is None:
                self._encode(place, cell)
                return
            sequence = found
        self._drawn[region] = place, number
        # The cursor is saved and restored: Textual believes it to be where it has put it.
        self._write(f"\x1b7\x1b[{region.y + 1};{region.x + 1}H{sequence}\x1b8")

    def _remove(self, region: Region) -> None:
        """Take the picture at that place off the terminal. Sixels go when their cells are drawn again."""
        found = self._drawn.pop(region, None)
        if found is not None and self._graphics.protocol is GraphicsProtocol.KITTY:
            self._write(kitty_removal(found[1]))

    def _encode(self, place: PicturePlace, cell: CellSize) -> None:
        """Make the sixels in a thread, because that takes a part of a second, and draw them then."""
        key, colours = (place, cell), self._graphics.colours
        if key in self._encoding:
            return
        self._encoding.add(key)

        async def encode() -> None:
            try:
                sixels = await anyio.to_thread.run_sync(sixel_picture, place, cell, colours)
            finally:
                self._encoding.discard(key)
            while len(self._encoded) >= MOST_PICTURES:
                del self._encoded[next(iter(self._encoded))]
            self._encoded[key] = sixels
            if self._app.is_running:
                self.displayed(self._app.screen, None)

        self._app.run_worker(encode(), group="pictures")


@lru_cache(maxsize=MOST_PICTURES)
def _kitty(place: PicturePlace, number: int) -> str:
    return kitty_picture(place, number)


def _places(screen: Screen[object]) -> Iterator[tuple[Region, PicturePlace]]:
    """The pictures of the screen of which every cell is seen, with these cells."""
    covered = [toast.region for toast in screen.query("Toast")]
    for view in screen.query(LineView):
        if view.display and view.is_attached:
            for region, place in view.picture_places():
                # A picture in the last line would scroll the terminal.
                inside = screen.region.contains_region(region) and region.bottom < screen.region.bottom
                if inside and not any(region.overlaps(other) for other in covered):
                    yield region, place


def _touches(update: object, region: Region) -> bool:
    """Whether any of these cells were drawn again by the update."""
    if isinstance(update, LayoutUpdate):
        return update.region.overlaps(region)
    if isinstance(update, ChopsUpdate):
        # More of a line may be drawn than its span.
        return any(region.y <= y < region.bottom for y, _, _ in update.spans)
    return True
