"""Filters on every line that the application draws: one against control characters, one for NO_COLOR."""

from __future__ import annotations

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from flysafe.text import line_filter


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
