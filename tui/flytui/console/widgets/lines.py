"""The two ways lines reach the screen: a bar of fixed lines, and a virtual list that scrolls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from flytui.text.lines import BLANK, StyledLine, StyledText, Tone, truncated

TONE_CLASSES = {f"tone--{tone.value}" for tone in Tone}
LineBuilder = Callable[[int], Sequence[StyledLine]]
"""Makes the lines for a width in cells; called again whenever the width or the content changes."""


def to_strip(row: StyledLine, width: int, styles: Mapping[Tone, Style], base: Style) -> Strip:
    """The line as exactly `width` cells for Textual's line API."""
    segments = [Segment(part.text, _style(part, styles, base)) for part in truncated(row, width) if part.text]
    return Strip(segments).adjust_cell_length(width, base)


def _style(part: StyledText, styles: Mapping[Tone, Style], base: Style) -> Style:
    if part.ink is None:
        return base + styles[part.tone]
    fore, back = Color.from_rgb(*part.ink.fore), Color.from_rgb(*part.ink.back)
    return Style.from_color(fore, back)


class ThemedWidget(Widget):
    """A widget that knows the styles of all tones."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES
    _tones: dict[Tone, Style] | None = None

    def notify_style_update(self) -> None:
        """Forget styles that a theme or a class may have changed."""
        super().notify_style_update()
        self._tones = None

    @property
    def tones(self) -> Mapping[Tone, Style]:
        """Style of each tone here."""
        if self._tones is None:
            self._tones = {
                tone: self.get_component_rich_style(f"tone--{tone.value}", partial=True) for tone in Tone
            }
            background = self.background_colors[1]
            dim = background + self.get_component_styles("tone--dim").color
            self._tones[Tone.DIM] = Style.from_color(dim.rich_color)
        return self._tones


class LineBar(ThemedWidget):
    """A few lines that do not scroll; as high as what `build` gives, hidden when that is nothing."""

    ALLOW_SELECT = False

    class Stale(Message):
        """Something that the screen's bars show has changed."""

    def __init__(self, build: LineBuilder, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build = build
        self._rows: Sequence[StyledLine] = ()

    def on_mount(self) -> None:
        """Draw what there is at once."""
        self.redraw()

    def on_resize(self) -> None:
        """Another width may need other lines."""
        self.redraw()

    def redraw(self) -> None:
        """Build again; the layout is only touched when the number of lines changes."""
        rows = tuple(self._build(self.size.width or self.app.size.width))
        if rows == self._rows and self.is_mounted:
            return
        if len(rows) != len(self._rows) or not rows:
            self.styles.height = max(1, len(rows))
            self.display = bool(rows)
        self._rows = rows
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the bar."""
        row = self._rows[y] if y < len(self._rows) else BLANK
        return to_strip(row, self.size.width, self.tones, self.rich_style)


class LineView(ThemedWidget, ScrollView, can_focus=True):
    """Lines that scroll; only those on screen are drawn. Up, down, page, home and end scroll."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "LineView { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    def __init__(self, build: LineBuilder, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build = build
        self._rows: Sequence[StyledLine] = ()
        self._width = 0
        self.painted = False
        """Whether these lines have been drawn since they were built."""

    @property
    def rows(self) -> Sequence[StyledLine]:
        """The lines as they are now."""
        return self._rows

    @property
    def bottom_visible(self) -> bool:
        """Whether the last line is on screen at this scroll position and height."""
        region = self.scrollable_content_region
        if not region.height or region.width != self._width:
            return False
        return self.scroll_offset.y + region.height >= len(self._rows)

    @property
    def built_for(self) -> int:
        """The width, in cells, that the lines were made for."""
        return self._width

    def on_mount(self) -> None:
        """Draw what there is at once."""
        self.rebuild()

    def on_resize(self) -> None:
        """Wrap anew where the width changed."""
        if self.scrollable_content_region.width != self._width:
            self.rebuild()

    def rebuild(self) -> None:
        """Build the lines again, keeping the scroll position where it still exists. What `build` gives is
        kept as it is: a sequence may make its lines when they are looked at."""
        self._width = self.scrollable_content_region.width
        self._rows = self._build(self._width) if self._width else ()
        self.virtual_size = Size(self._width, len(self._rows))
        self.repaint()

    def repaint(self) -> None:
        """Draw the same lines again; until then they count as not seen."""
        self.painted = False
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        self.painted = self.painted or bool(self._rows)
        index = self.scroll_offset.y + y
        row = self._rows[index] if index < len(self._rows) else BLANK
        return to_strip(row, self.size.width, self.tones, self.rich_style)
