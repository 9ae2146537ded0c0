"""Long text as lines that are made when they are looked at: a megabyte costs what is on screen. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import overload

from flysafe.text import safe_text
from flytui.console.paint import StyledLine, StyledText, Tone


class LazyLines(Sequence[StyledLine]):
    """Paragraphs cut into lines of at most `width` cells. A character beyond ASCII may take two cells, so a
    line with one of those is cut at half as many characters."""

    def __init__(self, paragraphs: Iterable[tuple[str, Tone]], width: int) -> None:
        self._width = max(8, width - 1)
        self._parts = list(paragraphs)
        counts = [max(1, -(-len(text) // self._step(text))) for text, _ in self._parts]
        self._ends = list(accumulate(counts))

    def _step(self, text: str) -> int:
        return self._width if text.isascii() else self._width // 2

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> StyledLine: ...
    @overload
    def __getitem__(self, at: slice) -> list[StyledLine]: ...
    def __getitem__(self, at: int | slice) -> StyledLine | list[StyledLine]:
        """The line at a place; a slice makes those lines."""
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(at)
        part = bisect_right(self._ends, place)
        text, tone = self._parts[part]
        step = self._step(text)
        first = (place - (self._ends[part - 1] if part else 0)) * step
        return (StyledText(" "), StyledText(text[first : first + step], tone))


def text_paragraphs(texts: Iterable[tuple[str, str]]) -> list[tuple[str, Tone]]:
    """Texts with real line breaks, each under its heading where it has one; safe to draw."""
    made: list[tuple[str, Tone]] = []
    for heading, text in texts:
        if heading:
            made += [*((("", Tone.PLAIN),) if made else ()), (safe_text(heading), Tone.DIM)]
        lines = text.replace("\r\n", "\n").split("\n")
        made += [(safe_text(piece.expandtabs(4)), Tone.PLAIN) for piece in lines]
    return made
