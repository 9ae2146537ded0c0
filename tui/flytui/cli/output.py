"""Prints the output of commands: text, JSON and tables. Text from outside is made safe, and JSON is ASCII."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import click
import msgspec

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import nearest
from flycore.model.json import indented_json
from flysafe.text import indented_text, safe_lines, safe_text, strict_text
from flytui.cli.invocation import Invocation
from flytui.text.lines import StyledLine
from flytui.text.wrap import cell_width, wrap_words

UNBOUNDED = 1_000_000
"""The width of lines that go to a file or a pipe. Nothing is wrapped there, so that a search finds it."""
NARROWEST = 40
"""The width, in cells, that a narrower terminal is taken to have."""
GAP = "  "
BORDER = 3
"""Cells between the columns of a table that Rich draws."""
BELOW = "    "
"""The margin of a last column that is printed below its row."""
LEAST_LAST = 40
"""The least width of the last column, in cells. With less room it is printed on lines of its own."""


def print_line(text: str = "") -> None:
    """Print text to standard output, with each line made safe."""
    for line in safe_lines(text):
        _echo(line)


def _echo(line: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    if (stream.encoding or "").lower() != "utf-8":
        click.echo(line, err=err)
        return
    stream.write(line + "\n")
    stream.flush()


def print_strict(text: str, *, indented: bool = False, one_line: bool = False) -> None:
    """Print text on which a person decides. Look-alike letters and long runs of spaces become tokens as well,
    but for the spaces at the beginning of a line of an `indented` text; and newlines of `one_line`."""
    for line in [text] if one_line else text.split("\n"):
        _echo(indented_text(line) if indented else strict_text(line))


def print_error(text: str) -> None:
    """Print a message to standard error, with each line made safe."""
    # A command that cannot print its message still does its work and ends with its own exit code.
    try:
        for line in safe_lines(text):
            _echo(line, err=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send everything that is still written to the stream to the null device, since the stream failed."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def print_json(document: object) -> None:
    """Print one JSON document from a msgspec value or from plain JSON."""
    _echo(indented_json(msgspec.to_builtins(document)))


def print_readable_json(value: object) -> None:
    """Print a value as JSON for people: indented, with readable letters, and with tokens for invisible
    ones."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False))


def wants_colour(invocation: Invocation, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to print colours and boxes: on a terminal, unless the person asked for plain text."""
    variables = os.environ if environ is None else environ
    plain = invocation.plain or variables.get("NO_COLOR") or variables.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def can_ask(*, err: bool = False) -> bool:
    """Whether a person can see a question and type an answer. `err` asks on standard error."""
    return sys.stdin.isatty() and (sys.stderr if err else sys.stdout).isatty()


def ask_yes_no(question: str, *, err: bool = False) -> bool:
    """Ask the person at this terminal. Only a typed yes counts; no option and no variable answers."""
    click.echo(f"{question} y/N ", nl=False, err=err)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def count_of(number: int, what: str, several: str = "") -> str:
    """A number with its noun, as in `1 call` and `2 calls`; `several` is a plural that has more than an s."""
    return f"{number} {what if number == 1 else several or f'{what}s'}"


def terminal_width() -> int:
    """The width of the terminal in cells; UNBOUNDED where standard output is no terminal."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return max(shutil.get_terminal_size().columns, NARROWEST)


def print_table(invocation: Invocation, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their headings. Nothing is cut: on a terminal the last column is wrapped, and where
    the other columns do not fit, each row becomes several lines `HEADING value`."""
    safe = [[safe_text(cell) for cell in row] for row in rows]
    room = terminal_width()
    before_last = sum(size + BORDER for size in _sizes(headings, safe)) + BORDER
    if wants_colour(invocation) and room - before_last >= LEAST_LAST:
        _rich_table(headings, safe)
        return
    for line in plain_table(headings, safe, room):
        _echo(line)


def _sizes(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column except the last one, in cells."""
    return [max(cell_width(row[at]) for row in [headings, *rows]) for at in range(len(headings) - 1)]


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[str]:
    """The table as lines of at most `room` cells, where no word is longer. The cells have to be safe
    already."""
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
    """Each row as several lines of heading and value, with an empty line between two rows."""
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
"""The colours of cells by their first glyph; the word beside it says the same. Red is only for what is
urgent."""


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # Every command imports this module, and only a table in colours needs Rich.
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
"""The terminal colours of the console's tones. The words alone carry the meaning."""


def print_lines(invocation: Invocation, lines: Iterable[StyledLine]) -> None:
    """Print lines of the console, whose spans are safe already."""
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


# Names that do not exist.


EXIT_UNKNOWN = 3


def nearest_names(catalog: Catalog, name: str, *, sidecars: bool) -> tuple[str, ...]:
    """The names of tools, and of sidecars where wanted, that are similar to a name; the nearest one first."""
    names = [view.capability.name for view in catalog.capabilities]
    names += [view.id for view in catalog.sidecars] if sidecars else []
    return nearest(name, names)


def print_not_found(name: str, near: tuple[str, ...], *, sidecars: bool) -> int:
    """Print that there is no such tool or sidecar, with similar names, and return the exit code."""
    what = "tool or sidecar" if sidecars else "tool"
    hint = f"did you mean {' or '.join(near)}?" if near else "flytui catalog lists every tool"
    print_error(f"no {what} is named {name}: {hint}")
    return EXIT_UNKNOWN


MOST_INDENT = 40
"""Most spaces at the beginning of a line of a difference that are printed as they are."""


def print_difference(rows: Iterable[str]) -> None:
    """Print the lines of a unified diff after a blank one, with invisible characters as tokens."""
    print_line()
    for row in rows:
        _echo(_shown_row(row))


def _shown_row(row: str) -> str:
    """Return a row of a difference with every doubtful character as a token, but with its indentation."""
    # The strict form shows long runs of spaces as tokens, since they can hide what comes after them.
    text = row[1:].lstrip(" ")
    indent = len(row) - 1 - len(text)
    if indent > MOST_INDENT or not row:
        return strict_text(row)
    return f"{row[0]}{' ' * indent}{strict_text(text)}"
