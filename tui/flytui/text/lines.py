"""Lines as values: the one road from text to the terminal.

A `Line` is a tuple of `Span`s. `span()` makes text from anywhere fit to draw; a `Span` built directly
holds text that has been made safe before (the card's). No markup exists on this road.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from flysafe.text import safe_lines, safe_text, strict_text


class Tone(StrEnum):
    """How a span is drawn. Tone never carries meaning that the words do not."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    ACCENT = "accent"
    ALARM = "alarm"
    KEY = "key"
    HEAD = "head"
    QUOTE = "quote"
    """Exactly what a caller sent."""


@dataclass(frozen=True, slots=True)
class CellColours:
    """Exact colours of a picture's cell, red, green and blue each: of the character and behind it."""

    fore: tuple[int, int, int]
    back: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class StyledText:
    """Safe text in one tone; `ink` replaces its colours."""

    text: str
    tone: Tone = Tone.PLAIN
    ink: CellColours | None = None


StyledLine = tuple[StyledText, ...]
BLANK: StyledLine = ()


def span(text: object, tone: Tone = Tone.PLAIN) -> StyledText:
    """Text from anywhere as a span: what cannot be seen becomes visible tokens, newlines too."""
    return StyledText(safe_text(str(text)), tone)


def line(*parts: StyledText | str) -> StyledLine:
    """A line; plain strings become plain spans."""
    return tuple(part if isinstance(part, StyledText) else span(part) for part in parts)


def keys_line(pairs: Iterable[tuple[str, str]]) -> StyledLine:
    """`key what` pairs, as a foot line shows them."""
    spans: list[StyledText] = []
    for key, what in pairs:
        spans += [StyledText("  " if spans else " "), span(key, Tone.KEY), span(f" {what}", Tone.DIM)]
    return tuple(spans)


def keys_fitting(pairs: Iterable[tuple[str, str]], width: int) -> StyledLine:
    """A foot line of those pairs that fit whole; pairs are given most needed first."""
    row: StyledLine = ()
    for pair in pairs:
        piece = (*((StyledText(" "),) if row else ()), *keys_line([pair]))
        if width_of(row) + width_of(piece) <= width:
            row = (*row, *piece)
    return row


def width_of(row: StyledLine) -> int:
    """Terminal cells the line takes."""
    return sum(cell_len(part.text) for part in row)


def text_of(row: StyledLine) -> str:
    """The line without its tones."""
    return "".join(part.text for part in row)


def truncated(row: StyledLine, width: int) -> StyledLine:
    """The line cut to `width` cells; a cut is shown by `…`."""
    if width <= 0:
        return ()
    if width_of(row) <= width:
        return row
    spans: list[StyledText] = []
    left = width - 1
    for part in row:
        size = cell_len(part.text)
        if size <= left:
            spans.append(part)
            left -= size
            continue
        spans.append(replace(part, text=set_cell_size(part.text, left).rstrip() + "…"))
        break
    return tuple(spans)


def padded(row: StyledLine, width: int) -> StyledLine:
    """The line cut or filled with spaces to exactly `width` cells."""
    cut = truncated(row, width)
    return (*cut, StyledText(" " * max(0, width - width_of(cut))))


def wrap(row: StyledLine, width: int, indent: int = 0) -> list[StyledLine]:
    """The line broken into lines of at most `width` cells, later ones indented; nothing is lost but
    the one space a break stands for."""
    width = max(width, 8)
    indent = min(indent, width // 2)
    done: list[StyledLine] = []
    current: list[StyledText] = []
    used = 0
    for part, word in _split_words(row):
        size = cell_len(word)
        if used + size > width and current and not word.isspace():
            done.append(_merged_spans(current))
            current, used = [StyledText(" " * indent)] if indent else [], indent
        for piece in _split_long_word(word, width - used, width - indent):
            if used + cell_len(piece) > width:
                done.append(_merged_spans(current))
                current, used = [StyledText(" " * indent)] if indent else [], indent
                if piece.isspace():
                    continue
            current.append(StyledText(piece, part.tone, part.ink))
            used += cell_len(piece)
    done.append(_merged_spans(current))
    return done


def wrapped(rows: Iterable[StyledLine], width: int, indent: int = 0) -> list[StyledLine]:
    """Every line wrapped."""
    return [piece for row in rows for piece in wrap(row, width, indent)]


def table_row(cells: Iterable[StyledLine], sizes: Iterable[int]) -> StyledLine:
    """Cells side by side, each cut or filled to its size and one space after it; a cell without a size is
    left out."""
    return tuple(
        part
        for cell, size in zip(cells, sizes, strict=False)
        for part in (*padded(cell, size), StyledText(" "))
    )


def labelled(label: str, text: object, width: int, cells: int) -> list[StyledLine]:
    """A label in a column of `cells` cells with its text wrapped beside it; nothing for an empty text."""
    words = str(text)
    if not words:
        return []
    return wrap((*padded((StyledText(" "), span(label, Tone.DIM)), cells), span(words)), width, cells)


def text_lines(text: str, tone: Tone = Tone.PLAIN, margin: int = 0) -> list[StyledLine]:
    """Text of several lines, one `Line` for each, indented by `margin`."""
    return [(StyledText(" " * margin), StyledText(piece, tone)) for piece in safe_lines(text)]


def _merged_spans(spans: Iterable[StyledText]) -> StyledLine:
    """Neighbours of one tone as one span: fewer style changes on the wire."""
    joined: list[StyledText] = []
    for part in spans:
        if joined and joined[-1].tone is part.tone and joined[-1].ink == part.ink:
            joined[-1] = replace(part, text=joined[-1].text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def _split_words(row: StyledLine) -> Iterator[tuple[StyledText, str]]:
    for part in row:
        start = 0
        for at in range(1, len(part.text) + 1):
            if at == len(part.text) or part.text[at].isspace() != part.text[at - 1].isspace():
                yield part, part.text[start:at]
                start = at


def _split_long_word(word: str, first: int, rest: int) -> Iterator[str]:
    """A word in parts that fit: the first into what is left of the line, the others into whole lines."""
    if cell_len(word) <= first:
        yield word
        return
    room, part, used = max(first, 1), "", 0
    for character in word:
        size = get_character_cell_size(character)
        if used + size > room and part:
            yield part
            room, part, used = rest, "", 0
        part += character
        used += size
    if part:
        yield part


# A difference as it is drawn: what was in one colour, what comes in another, nothing cut. Pure.


def difference_lines(difference: Sequence[str], width: int, margin: int) -> list[StyledLine]:
    """Lines `- …` and `+ …` of `flycore.model.json_diff`, wrapped below their sign."""
    rows: list[StyledLine] = []
    for text in difference:
        tone = Tone.GOOD if text.startswith("+") else Tone.BAD
        rows += wrap(line(StyledText(" " * margin), StyledText(strict_text(text), tone)), width, margin + 2)
    return rows
