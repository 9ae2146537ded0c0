"""Flat objects as a table: columns as wide as what is in them, rows drawn when they are on screen. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from flycore.model.json import Json, JsonObject
from flysafe.text import safe_text
from flytui.console.paint import StyledLine, StyledText, Tone, padded, span, truncated

SAMPLED_ROWS = 200
"""Rows that decide how wide the columns are and which there are."""
MAX_COLUMN_CELLS = 40
_MAX_COLUMNS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Names and cells of the columns, in the order in which the rows first had them."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    numbers: tuple[bool, ...]
    """Whether a column holds nothing but numbers, which stand at the right."""

    def titles(self, width: int) -> StyledLine:
        """The line of names."""
        return self._row([span(name, Tone.DIM) for name in self.names], width)

    def row(self, item: JsonObject, width: int) -> StyledLine:
        """One object."""
        return self._row([span(_cell(item.get(name))) for name in self.names], width)

    def _row(self, cells: Sequence[StyledText], width: int) -> StyledLine:
        made: StyledLine = ()
        for cell, size, number in zip(cells, self.widths, self.numbers, strict=True):
            gap = StyledText(" " * max(0, size - cell_len(cell.text))) if number else StyledText("")
            made = (*made, *padded((gap, cell), size), StyledText("  "))
        return truncated(made, width)


@dataclass(frozen=True, slots=True)
class TableRow:
    """An object of the output."""

    at: int
    item: JsonObject
    columns: TableColumns

    @property
    def key(self) -> str:
        """Its place in the list."""
        return str(self.at)

    def draw(self, width: int) -> StyledLine:
        """Its cells."""
        return self.columns.row(self.item, width)


def columns_of(rows: Sequence[JsonObject]) -> TableColumns:
    """The columns that suit the first rows."""
    seen = rows[:SAMPLED_ROWS]
    names = tuple(dict.fromkeys(name for row in seen for name in row))
    cells = {name: [row[name] for row in seen if name in row] for name in names}
    return TableColumns(
        names,
        tuple(
            min(MAX_COLUMN_CELLS, max(cell_len(safe_text(text)) for text in (name, *map(_cell, cells[name]))))
            for name in names
        ),
        tuple(all(_is_number(value) for value in cells[name]) for name in names),
    )


def table_rows(rows: Sequence[JsonObject]) -> list[TableRow]:
    """All rows, with the columns they share."""
    columns = columns_of(rows)
    return [TableRow(at, item, columns) for at, item in enumerate(rows)]


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value[:_MAX_COLUMNS_SHOWN] if isinstance(value, str) else json.dumps(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
