"""Lines as values: all text reaches the terminal as a `StyledLine`, which is a tuple of `StyledText`.

`span()` makes text from anywhere safe to draw. A `StyledText` that is built directly must hold safe text, as
the card's lines do. There is no markup in a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from flysafe.text import safe_lines, safe_text, strict_text

if TYPE_CHECKING:
    from flycore.model.call import Picture


class Tone(StrEnum):
    """How a span is drawn. A tone never carries a meaning that the words do not."""

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
    FIRST_ROOT = "first-root"
    """The name of a root, where a console shows several; the others have a tone of their own."""
    SECOND_ROOT = "second-root"
    THIRD_ROOT = "third-root"
    FOURTH_ROOT = "fourth-root"
    QUOTE = "quote"
    """Text exactly as a caller sent it."""


class CellColours(NamedTuple):
    """The colours of a picture's cell, as red, green and blue from 0 to 255: of the character, and behind
    it."""

    fore: tuple[int, int, int]
    back: tuple[int, int, int]


class PicturePlace(NamedTuple):
    """A picture and the cells that it takes, for terminals that draw pixels over them. Its first cell is that
    of the text which has it."""

    picture: Picture
    cross: tuple[int, int] | None
    """A pixel of the picture that is marked."""
    columns: int
    rows: int


class StyledText(NamedTuple):
    """Safe text in one tone. `ink` replaces the colours of the tone."""

    text: str
    tone: Tone = Tone.PLAIN
    ink: CellColours | None = None
    place: PicturePlace | None = None
    """The picture whose first cell this is."""


StyledLine = tuple[StyledText, ...]
BLANK: StyledLine = ()


def span(text: object, tone: Tone = Tone.PLAIN) -> StyledText:
    """Text from anywhere as a span. Invisible characters, newlines among them, become visible tokens."""
    return StyledText(safe_text(str(text)), tone)


def name_span(name: str, tone: Tone = Tone.PLAIN) -> StyledText:
    """The name of a tool or an entry as a span. Letters that look like others become visible tokens: an entry
    that is not valid is shown, and its name may be anything."""
    return StyledText(strict_text(name), tone)


def line(*parts: StyledText | str) -> StyledLine:
    """A line of these parts. A string becomes a span in the plain tone."""
    return tuple(part if isinstance(part, StyledText) else span(part) for part in parts)


def keys_line(pairs: Iterable[tuple[str, str]]) -> StyledLine:
    """A key line: pairs of a key and what it does."""
    spans: list[StyledText] = []
    for key, what in pairs:
        spans += [StyledText("  " if spans else " "), span(key, Tone.KEY), span(f" {what}", Tone.DIM)]
    return tuple(spans)


def keys_fitting(
    pairs: Iterable[tuple[str, str]], width: int, more: tuple[str, str] | None = None
) -> StyledLine:
    """A key line of the pairs that fit whole into `width` cells. The most important pairs come first; `more`
    ends the line and always fits."""
    end = _piece_after(True, more) if more is not None else ()
    row: StyledLine = ()
    for pair in pairs:
        piece = _piece_after(bool(row), pair)
        if width_of((*row, *piece, *end)) <= width:
            row = (*row, *piece)
    return truncated((*row, *(end if row else end[1:])), width)


def _piece_after(parts: bool, pair: tuple[str, str]) -> StyledLine:
    """A key and what it does; with a space before it where it stands after `parts` of the line."""
    return (*((StyledText(" "),) if parts else ()), *keys_line([pair]))


def width_of(row: StyledLine) -> int:
    """The width of the line in terminal cells."""
    return sum(_cells(part.text) for part in row)


def _cells(text: str) -> int:
    """The width of a safe text in terminal cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def text_of(row: StyledLine) -> str:
    """The text of the line without its tones."""
    return "".join(part.text for part in row)


def truncated(row: StyledLine, width: int) -> StyledLine:
    """The line cut to at most `width` cells. Where something is cut, the line ends with `…`."""
    if width <= 0:
        return ()
    if width_of(row) <= width:
        return row
    spans: list[StyledText] = []
    left = width - 1
    for part in row:
        size = _cells(part.text)
        if size <= left:
            spans.append(part)
            left -= size
            continue
        from rich.cells import set_cell_size

        spans.append(part._replace(text=set_cell_size(part.text, left).rstrip() + "…"))
        break
    return tuple(spans)


def padded(row: StyledLine, width: int) -> StyledLine:
    """The line cut or filled with spaces to exactly `width` cells."""
    cut = truncated(row, width)
    return (*cut, StyledText(" " * max(0, width - width_of(cut))))


def wrap(row: StyledLine, width: int, indent: int = 0) -> list[StyledLine]:
    """The line wrapped into lines of at most `width` cells, with all but the first indented. Nothing is lost
    but one space at each break."""
    if 2 * sum(len(part.text) for part in row) <= width:  # no character has more than two cells
        return [_merged_spans(part for part in row if part.text)]
    width = max(width, 8)
    indent = min(indent, width // 2)
    done: list[StyledLine] = []
    current: list[StyledText] = []
    used = 0
    for part, word in _split_words(row):
        size = _cells(word)
        if used + size > width and current and not word.isspace():
            done.append(_merged_spans(current))
            current, used = [StyledText(" " * indent)] if indent else [], indent
        for piece in _split_long_word(word, width - used, width - indent):
            if used + _cells(piece) > width:
                done.append(_merged_spans(current))
                current, used = [StyledText(" " * indent)] if indent else [], indent
                if piece.isspace():
                    continue
            current.append(StyledText(piece, part.tone, part.ink))
            used += _cells(piece)
    done.append(_merged_spans(current))
    return done


def wrapped(rows: Iterable[StyledLine], width: int, indent: int = 0) -> list[StyledLine]:
    """All lines, each of them wrapped."""
    return [piece for row in rows for piece in wrap(row, width, indent)]


def table_row(cells: Iterable[StyledLine], sizes: Iterable[int]) -> StyledLine:
    """Cells side by side, each cut or filled to its size, with one space after it. A cell without a size is
    left out."""
    return tuple(
        part
        for cell, size in zip(cells, sizes, strict=False)
        for part in (*padded(cell, size), StyledText(" "))
    )


def labelled(label: str, text: object, width: int, cells: int) -> list[StyledLine]:
    """A label in a column of `cells` cells, with its text wrapped beside it. An empty text gives no lines."""
    words = str(text)
    if not words:
        return []
    return wrap((*padded((StyledText(" "), span(label, Tone.DIM)), cells), span(words)), width, cells)


def text_lines(text: str, tone: Tone = Tone.PLAIN, margin: int = 0) -> list[StyledLine]:
    """A `StyledLine` for each line of the text, indented by `margin` spaces."""
    return [(StyledText(" " * margin), StyledText(piece, tone)) for piece in safe_lines(text)]


def difference_lines(difference: Sequence[str], width: int, margin: int) -> list[StyledLine]:
    """Lines `- …` and `+ …` of `flycore.model.json_diff`, each sign in its own colour, wrapped and never
    cut."""
    rows: list[StyledLine] = []
    for text in difference:
        tone = Tone.GOOD if text.startswith("+") else Tone.BAD
        rows += wrap(line(StyledText(" " * margin), StyledText(strict_text(text), tone)), width, margin + 2)
    return rows


def _merged_spans(spans: Iterable[StyledText]) -> StyledLine:
    """The spans with neighbours of the same tone joined, so that fewer style changes are sent to the
    terminal."""
    joined: list[StyledText] = []
    for part in spans:
        if joined and joined[-1].tone is part.tone and joined[-1].ink == part.ink:
            joined[-1] = part._replace(text=joined[-1].text + part.text)
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
    """The parts of a word that is too long: the first has at most `first` cells, the others at most
    `rest`."""
    if _cells(word) <= first:
        yield word
        return
    from rich.cells import get_character_cell_size

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
