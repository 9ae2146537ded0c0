"""The last line of defence: whatever a widget drew, no control character reaches the terminal."""

from __future__ import annotations

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from flysafe.text import line_filter


class ControlCharacterFilter(LineFilter):
    """Replaces control, bidi and format characters in rendered segments; styles keep no links."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Segments with the same widths and nothing in them that a terminal obeys."""
        return [Segment(line_filter(text), style, None) for text, style, _ in segments]


# NO_COLOR: lines without any colour. What stood out by its background is drawn reversed instead.


_PLAIN = Style.from_color(RichColor.default(), RichColor.default())


class MonochromeFilter(LineFilter):
    """Keeps bold, underline and reverse; takes every colour away."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text at the same widths."""
        return [
            Segment(text, None if style is None else _without_colour(style, background), control)
            for text, style, control in segments
        ]


def _without_colour(style: Style, background: Color) -> Style:
    drawn = style.bgcolor
    loud = (
        drawn is not None
        and not drawn.is_default
        # whether text on it has to be dark where text on the screen is light, or the other way round
        and Color.from_rich_color(drawn).get_contrast_text(1).rgb != background.get_contrast_text(1).rgb
    )
    return style + _PLAIN + Style(reverse=True) if loud else style + _PLAIN
