"""A difference as it is drawn: what was in one colour, what comes in another, nothing cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flysafe.text import strict_text
from flytui.console.paint import StyledLine, StyledText, Tone, line, wrap


def difference_lines(difference: Sequence[str], width: int, margin: int) -> list[StyledLine]:
    """Lines `- …` and `+ …` of `flycore.model.difference`, wrapped below their sign."""
    rows: list[StyledLine] = []
    for text in difference:
        tone = Tone.GOOD if text.startswith("+") else Tone.BAD
        rows += wrap(line(StyledText(" " * margin), StyledText(strict_text(text), tone)), width, margin + 2)
    return rows
