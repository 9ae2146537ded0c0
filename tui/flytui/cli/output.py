"""What a command prints. Text from outside is made safe here and JSON is ASCII: nothing goes out raw."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

import click
import msgspec

from flysafe.text import safe_lines, safe_text, strict_text

if TYPE_CHECKING:
    from flycore.model.catalog import Catalog
    from flytui.cli.invocation import Invocation
    from flytui.text.lines import StyledLine


UNBOUNDED = 1_000_000
"""Width of a line that goes to a file or a pipe: nothing is wrapped, so that a search finds it."""
NARROWEST = 40
GAP = "  "
BORDER = 3
"""Cells between the columns of a drawn table."""
BELOW = "    "
LEAST_LAST = 40
"""Cells a table's last column keeps; where there is less, it stands on lines of its own."""


def print_line(text: str = "") -> None:
    """Print text to standard output; each of its lines is made safe."""
    for line in safe_lines(text):
        click.echo(line)


def print_strict(text: str) -> None:
    """Print text that a person decides by: look-alike letters and long runs of spaces are tokens, too."""
    for line in text.split("\n"):
        click.echo(strict_text(line))


def print_error(text: str) -> None:
    """Print prose to standard error; each of its lines is made safe. Where nobody can be told any more, what
    the command does goes on, and ends as it would."""
    try:
        for line in safe_lines(text):
            click.echo(line, err=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let what is still to be written to the stream go nowhere: it cannot be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def print_json(document: object) -> None:
    """Print one JSON document: a value of ours or plain JSON."""
    click.echo(json.dumps(msgspec.to_builtins(document), indent=2))


def print_readable_json(value: object) -> None:
    """Print a value as JSON for people: indented, readable letters, what cannot be seen as tokens."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False))


def wants_colour(invocation: Invocation, environ: Mapping[str, str] | None = None) -> bool:
    """Whether colour and boxes are wanted: a terminal, and nobody asked for plain text."""
    surroundings = os.environ if environ is None else environ
    plain = invocation.plain or surroundings.get("NO_COLOR") or surroundings.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def at_terminal() -> bool:
    """Whether a console can be drawn and typed into: keys come from standard input, and it is drawn on
    standard error where standard output is piped, so all three have to be the terminal, and one that
    moves its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty() and not dumb()


def dumb() -> bool:
    """Whether the terminal says that it only prints."""
    return os.environ.get("TERM") == "dumb"


def can_ask(*, err: bool = False) -> bool:
    """Whether a person sees a question and can type the answer: `err` where it goes to standard error."""
    return sys.stdin.isatty() and (sys.stderr if err else sys.stdout).isatty()


def ask_yes_no(question: str, *, err: bool = False) -> bool:
    """Ask the person at this terminal. Only a typed yes is one; no option and no variable says it."""
    click.echo(f"{question} y/N ", nl=False, err=err)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def count_of(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def width() -> int:
    """Cells of the terminal; UNBOUNDED where standard output is none."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return max(shutil.get_terminal_size().columns, NARROWEST)


def clock_time(seconds: float) -> str:
    """A Unix time as the person's own clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def table(invocation: Invocation, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings. Nothing is cut: the last column wraps on a terminal, and where the others
    have no room beside each other, each row becomes lines `HEADING  value`."""
    safe = [[safe_text(cell) for cell in row] for row in rows]
    room = width()
    before_last = sum(size + BORDER for size in _sizes(headings, safe)) + BORDER
    if wants_colour(invocation) and room - before_last >= LEAST_LAST:
        _rich_table(headings, safe)
        return
    for line in plain_table(headings, safe, room):
        click.echo(line)


def _sizes(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Cells that each column but the last one needs."""
    from flytui.text.wrap import cell_width

    return [max(cell_width(row[at]) for row in [headings, *rows]) for at in range(len(headings) - 1)]


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """The table as lines of at most `room` cells where words allow it. Cells have to be safe already."""
    from flytui.text.wrap import cell_width, wrap_words

    sizes = _sizes(headings, rows)
    indent = sum(sizes) + len(GAP) * len(sizes)
    if indent - len(GAP) > room:
        return _records(headings, rows, room)
    lines = []
    for row in [headings, *rows]:
        cells = zip(row, sizes, strict=False)
        head = "".join(cell + " " * (size - cell_width(cell)) + GAP for cell, size in cells)
        if room - indent < LEAST_LAST:
            below = wrap_words(row[-1], room - len(BELOW)) if row[-1] else []
            lines += [head.rstrip(), *(BELOW + part for part in below)]
            continue
        first, *more = wrap_words(row[-1], room - indent)
        lines += [(head + first).rstrip(), *(" " * indent + part for part in more)]
    return lines


def _records(headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """Each row as lines of heading and value, an empty line between two rows."""
    from flytui.text.wrap import wrap_words

    label = max(map(len, headings)) + len(GAP)
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for heading, cell in zip(headings, row, strict=False):
            first, *more = wrap_words(cell, max(room - label, 1))
            lines.append(f"{heading:<{label}}{first}".rstrip())
            lines += [" " * label + part for part in more]
    return lines


GLYPHS = {
    **dict.fromkeys("●✓", "green"),
    **dict.fromkeys("◐○▲±✗?", "yellow"),
    **dict.fromkeys("▶◌", "cyan"),
    "⊘": "dim",
}
"""Colours of a cell by the glyph it begins with; the word beside it says the same. None is red: that is for
what cannot wait."""


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings[:-1]:
        drawn.add_column(Text(heading), no_wrap=True, overflow="fold")
    drawn.add_column(Text(headings[-1]), overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=GLYPHS.get(cell[:1], "")) for cell in row))
    Console(markup=False, highlight=False, emoji=False).print(drawn)


COLOURS = {
    "good": "green",
    "warn": "yellow",
    "bad": "yellow",
    "accent": "cyan",
    "alarm": "red",
    "key": "cyan",
}
"""Terminal colours of the console's tones; the words carry the meaning."""


def print_lines(invocation: Invocation, lines: Iterable[StyledLine]) -> None:
    """Print the console's lines, whose spans are safe already."""
    coloured = wants_colour(invocation)
    for line in lines:
        parts = [
            click.style(
                part.text,
                fg=COLOURS.get(part.tone.value),
                bold=part.tone.value in ("strong", "alarm", "head"),
                dim=part.tone.value == "dim",
            )
            if coloured
            else part.text
            for part in line
        ]
        click.echo("".join(parts).rstrip())


# A name that nothing has: what was meant instead.


EXIT_UNKNOWN = 3


def nearest_names(catalog: Catalog, name: str, *, sidecars: bool) -> tuple[str, ...]:
    """Names of tools (and sidecars) close to that one, the nearest first."""
    from flycore.model.suggest import nearest

    names = [view.capability.name for view in catalog.capabilities]
    names += [view.id for view in catalog.sidecars] if sidecars else []
    return nearest(name, names)


def print_not_found(name: str, near: tuple[str, ...], *, sidecars: bool) -> int:
    """Say that there is no such tool (or sidecar), with the nearest names; the exit code for it."""
    what = "tool or sidecar" if sidecars else "tool"
    hint = f"did you mean {' or '.join(near)}?" if near else "flytui catalog lists every tool"
    print_error(f"no {what} is named {name}: {hint}")
    return EXIT_UNKNOWN
