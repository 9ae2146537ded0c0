"""The widgets that draw lines: `LineBar` for a few fixed lines, `LineView` for lines that scroll."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from flytui.console.style import dim_style, tone_style
from flytui.text.lines import BLANK, PicturePlace, StyledLine, StyledText, Tone, truncated

LineBuilder = Callable[[int], Sequence[StyledLine]]
"""Makes the lines for a width in cells. It is called again whenever the width or the content changes."""


def to_strip(row: StyledLine, width: int, styles: Mapping[Tone, Style], base: Style) -> Strip:
    """The line as a strip of exactly `width` cells, for Textual's line API."""
    segments = [Segment(part.text, _style(part, styles, base)) for part in truncated(row, width) if part.text]
    return Strip(segments).adjust_cell_length(width, base)


def _style(part: StyledText, styles: Mapping[Tone, Style], base: Style) -> Style:
    if part.ink is None:
        return base + styles[part.tone]
    fore, back = Color.from_rgb(*part.ink.fore), Color.from_rgb(*part.ink.back)
    return Style.from_color(fore, back)


class ThemedWidget(Widget):
    """A widget that draws its lines in tones."""

    _tones: dict[Tone, Style] | None = None
    _theme: Mapping[str, str] | None = None
    """The variables of the theme that `_tones` was made for."""
    _base: Style | None = None
    """The widget's own style, once it was asked for since the last painting began."""

    def notify_style_update(self) -> None:
        """Drop the cached styles, which a theme or a class may have changed."""
        super().notify_style_update()
        self._tones = self._base = None
        if self._theme is not None and self._theme is not self.app.theme_variables:
            # The lines that were drawn are kept, and no rule of the style sheet knows their tones.
            self._theme = None
            self.refresh()

    @property
    def tones(self) -> Mapping[Tone, Style]:
        """The style of each tone in this widget."""
        if self._tones is None:
            self._theme = variables = self.app.theme_variables
            self._tones = {tone: tone_style(tone, variables) for tone in Tone}
            self._tones[Tone.DIM] = dim_style(self.background_colors[1], variables)
        return self._tones

    @property
    def base(self) -> Style:
        """The widget's own style, which that of a tone is added to."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines. Textual works a widget's style out from those of all that contain it, at each time
        that it is asked: once for all lines is enough, and lines that are kept need none."""
        self._base = None
        return super().render_lines(crop)


class LineBar(ThemedWidget):
    """A few lines that do not scroll. The bar is as high as the lines that `build` gives, and hidden where it
    gives none."""

    ALLOW_SELECT = False

    class Stale(Message):
        """Is sent when something that the screen's bars show has changed."""

    def __init__(self, build: LineBuilder, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build = build
        self._rows: Sequence[StyledLine] = ()
        self._height = 1  # that of the style sheet

    def on_mount(self) -> None:
        """Draw the first lines."""
        self.redraw()

    def on_resize(self) -> None:
        """Build the lines again for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Build the lines again, and draw those that changed."""
        width = self.size.width or self.app.size.width
        before, rows = self._rows, tuple(self._build(width))
        if rows == before and self.is_mounted:
            return
        # A new height makes Textual lay the whole screen out again, so it is set only where it changes.
        if rows and len(rows) != self._height:
            self.styles.height = self._height = len(rows)
        if self.display is not bool(rows):
            self.display = bool(rows)
        self._rows = rows
        if len(rows) != len(before):
            self.refresh()
        else:
            self.refresh(*(Region(0, y, width, 1) for y, row in enumerate(rows) if row != before[y]))

    def render_line(self, y: int) -> Strip:
        """Draw one line of the bar."""
        row = self._rows[y] if y < len(self._rows) else BLANK
        return to_strip(row, self.size.width, self.tones, self.base)


class LineView(ThemedWidget, ScrollView, can_focus=True):
    """Lines that scroll. Only those on screen are drawn. Up, down, page up, page down, home and end
    scroll."""

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
        """The present lines."""
        return self._rows

    @property
    def bottom_visible(self) -> bool:
        """Whether the last line is on screen at this scroll position and height."""
        region = self.scrollable_content_region
        # Between a resize and the rebuild, the lines are those of another width.
        if not region.height or region.width != self._width:
            return False
        return self.scroll_offset.y + region.height >= len(self._rows)

    @property
    def built_for(self) -> int:
        """The width, in cells, that the lines were made for."""
        return self._width

    def on_mount(self) -> None:
        """Build the first lines."""
        self.rebuild()

    def on_resize(self) -> None:
        """Build the lines again where the width changed."""
        if self.scrollable_content_region.width != self._width:
            self.rebuild()

    def picture_places(self) -> Iterator[tuple[Region, PicturePlace]]:
        """The pictures of which every line is on screen, with the cells of the screen that each takes."""
        area, first = self.content_region, self.scroll_offset.y
        for index in range(first, min(first + area.height, len(self._rows))):
            x = area.x
            for part in self._rows[index]:
                if part.place is not None:
                    found = Region(x, area.y + index - first, part.place.columns, part.place.rows)
                    if area.contains_region(found):
                        yield found, part.place
                x += cell_len(part.text)

    def rebuild(self) -> None:
        """Build the lines again. The scroll position stays where it still exists."""
        # The sequence is not copied: it may make each of its lines only when that is read.
        self._width = self.scrollable_content_region.width
        self._rows = self._build(self._width) if self._width else ()
        self.virtual_size = Size(self._width, len(self._rows))
        self.repaint()

    def rebuild_changed(self) -> None:
        """Build the lines again where they would look different now."""
        if self._width and self._build(self._width) != self._rows:
            self.rebuild()

    def repaint(self) -> None:
        """Draw the same lines again. Until they are drawn, `painted` is False."""
        self.painted = False
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        self.painted = self.painted or bool(self._rows)
        index = self.scroll_offset.y + y
        row = self._rows[index] if index < len(self._rows) else BLANK
        return to_strip(row, self.size.width, self.tones, self.base)
