"""The last line of defence: whatever a widget drew, no control character reaches the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from flysafe.text import line_filter


class ControlCharacterFilter(LineFilter):
    """Replaces control, bidi and format characters in rendered segments; styles keep no links."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Segments with the same widths and nothing in them that a terminal obeys."""
        return [Segment(line_filter(text), style, None) for text, style, _ in segments]
