"""Filters on every line that the application draws: one against control characters, one for NO_COLOR, and one
for terminals with 256 or 16 colours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich._palettes import EIGHT_BIT_PALETTE
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.palette import Palette
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from flysafe.text import line_filter
from flytui.console.colour_depth import AnsiPalette, ColourDepth, readable_text


class FilterChain(LineFilter):
    """Several filters as one. Textual keeps for each line and each filter what came of it, and looks that up
    whenever a widget is drawn, so one filter costs a third of three."""

    def __init__(self, filters: Sequence[LineFilter]) -> None:
        super().__init__()
        self.filters = tuple(filters)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments after all filters, the first of them first."""
        for one in self.filters:
            segments = one.apply(segments, background)
        return segments


class ControlCharacterFilter(LineFilter):
    """Replaces control, bidirectional and format characters in every segment, and drops control segments.

    It is the last protection against text from outside: every widget makes its text safe before.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments at the same widths, without any character that a terminal acts upon."""
        return [Segment(line_filter(text), style, None) for text, style, _ in segments]


_PLAIN = Style.from_color(RichColor.default(), RichColor.default())


class MonochromeFilter(LineFilter):
    """Removes every colour, for NO_COLOR. Bold, underline and reverse stay; text that stood out by its
    background is drawn reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with the same text at the same widths."""
        return [
            Segment(text, None if style is None else _without_colour(style, background), control)
            for text, style, control in segments
        ]


def _without_colour(style: Style, background: Color) -> Style:
    drawn = style.bgcolor
    stands_out = (
        drawn is not None
        and not drawn.is_default
        # A background stands out where text on it has to be dark and text on the screen light, or the
        # reverse.
        and Color.from_rich_color(drawn).get_contrast_text(1).rgb != background.get_contrast_text(1).rgb
    )
    return style + _PLAIN + Style(reverse=True) if stands_out else style + _PLAIN


class DepthFilter(LineFilter):
    """Replaces 24-bit colours by the numbers that a theme for 256 or 16 colours means. Colours that no theme
    names, such as those of a picture, become the nearest ones.

    With 16 colours, text that could not be read with one of the terminal's usual palettes is drawn in white
    or black, since the same number is a different colour in each of them.
    """

    def __init__(self, depth: ColourDepth, palettes: tuple[AnsiPalette, ...]) -> None:
        super().__init__()
        self._depth = depth
        self._palettes = palettes
        self._drawn: dict[tuple[Style, bool], Style] = {}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with the same text at the same widths, in colours of the depth."""
        return [
            Segment(text, None if style is None else self._restyled(style, text), control)
            for text, style, control in segments
        ]

    def _restyled(self, style: Style, text: str) -> Style:
        # Only with 16 colours is text drawn otherwise than blanks; looking at each character of a frame costs
        # more than all the rest of this filter.
        is_text = self._depth is ColourDepth.ANSI and _is_text(text) is not None
        found = self._drawn.get((style, is_text))
        if found is None:
            found = self._style(style, is_text)
            # A picture has any number of colours.
            if len(self._drawn) < MAX_STYLES:
                self._drawn[style, is_text] = found
        return found

    def _style(self, style: Style, is_text: bool) -> Style:
        text, ground = self._colour(style.color), self._colour(style.bgcolor)
        change = Style(color=text, bgcolor=ground)
        if (
            is_text
            and text is not None
            and ground is not None
            and text.number is not None
            and ground.number is not None
        ):
            number, bold = readable_text(text.number, ground.number, bool(style.bold), self._palettes)
            change = Style(color=RichColor.from_ansi(number), bgcolor=ground, bold=bold, dim=False)
        return style + change

    def _colour(self, colour: RichColor | None) -> RichColor | None:
        if colour is None or colour.triplet is None:
            # Already one of the terminal's own.
            return colour
        if self._depth is ColourDepth.ANSI:
            number = _NUMBERS_16.get(colour.triplet)
            return RichColor.from_ansi(_TABLE_16.match(colour.triplet) if number is None else number)
        number = _NUMBERS_256.get(colour.triplet)
        return colour.downgrade(ColorSystem.EIGHT_BIT) if number is None else RichColor.from_ansi(number)


MAX_STYLES = 4096
"""The most styles that are kept."""
_TABLE_16 = Palette(
    [(red, green, blue) for red, green, blue in map(EIGHT_BIT_PALETTE.__getitem__, range(16))]
)
_NUMBERS_16 = {EIGHT_BIT_PALETTE[number]: number for number in range(16)}
_NUMBERS_256 = {EIGHT_BIT_PALETTE[number]: number for number in range(16, 256)}


_is_text = re.compile(r"[^\s─-▟]").search
"""Finds a character that is read, and not only blanks, lines and blocks."""
