"""The views of a call's output: which ones there are, long texts, tables and trees.

Lines and rows are made when they are drawn, so that a large output costs only what is on screen.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any, overload

import msgspec
from rich.cells import cell_len

from flycore.model.call import Activity, Artifact
from flycore.model.json import Json, JsonObject, pointer_join
from flysafe.text import safe_text
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, padded, span, truncated


class LazyLines(Sequence[StyledLine]):
    """Paragraphs as a sequence of lines of at most `width` cells, which are cut when they are read."""

    def __init__(self, paragraphs: Iterable[tuple[str, Tone]], width: int) -> None:
        self._width = max(8, width - 1)
        self._parts = list(paragraphs)
        counts = [max(1, -(-len(text) // self._step(text))) for text, _ in self._parts]
        self._ends = list(accumulate(counts))

    def _step(self, text: str) -> int:
        # A character outside ASCII may take two cells. To measure every character would cost the whole text.
        return self._width if text.isascii() else self._width // 2

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> StyledLine: ...
    @overload
    def __getitem__(self, at: slice) -> list[StyledLine]: ...
    def __getitem__(self, at: int | slice) -> StyledLine | list[StyledLine]:
        """The line at an index, or the lines of a slice."""
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
    """The lines of the texts, each text below its heading where it has one. They are safe to draw."""
    made: list[tuple[str, Tone]] = []
    for heading, text in texts:
        if heading:
            made += [*((("", Tone.PLAIN),) if made else ()), (safe_text(heading), Tone.DIM)]
        lines = text.replace("\r\n", "\n").split("\n")
        made += [(safe_text(piece.expandtabs(4)), Tone.PLAIN) for piece in lines]
    return made


# The views of a call, and the view that suits its output best.


SHORT_LINES = 16
"""An output of at most this many lines is shown on the page of its call and not as a tree."""
MAX_COLUMNS = 24
_MAX_DEPTH = 64
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class CallView(Enum):
    """A view of a call, with its key and its title."""

    CALL = ("c", "Call")
    PICTURE = ("p", "Picture")
    TABLE = ("b", "Table")
    TEXT = ("x", "Text")
    TREE = ("t", "Tree")
    INPUT = ("i", "Input")
    STDERR = ("s", "stderr")

    @property
    def key(self) -> str:
        """The key that shows the view."""
        return self.value[0]

    @property
    def title(self) -> str:
        """The name of the view."""
        return self.value[1]


def views_of(call: Activity) -> tuple[CallView, ...]:
    """The views that have something to show for the call."""
    result = call.result
    output = result.output if result is not None else None
    has = {
        CallView.CALL: True,
        CallView.PICTURE: bool(images_of(call)),
        CallView.TABLE: bool(table_of(output)),
        CallView.TEXT: next(texts_of(output), None) is not None,
        CallView.TREE: isinstance(output, dict | list),
        CallView.INPUT: bool(call.input_text),
        CallView.STDERR: result is not None and bool(result.stderr_tail),
    }
    return tuple(view for view in CallView if has[view])


def first_view(call: Activity) -> CallView:
    """The view that is shown first: a picture, else a table, else a text, else a tree for a long output."""
    output = call.result.output if call.result is not None else None
    if images_of(call):
        return CallView.PICTURE
    if table_of(output):
        return CallView.TABLE
    if _mostly_text(output):
        return CallView.TEXT
    return CallView.TREE if isinstance(output, dict | list) and _exceeds_lines(output) else CallView.CALL


def images_of(call: Activity) -> tuple[tuple[int, Artifact], ...]:
    """The images of the call with their indices among its artifacts."""
    artifacts = call.result.artifacts if call.result is not None else ()
    return tuple((at, item) for at, item in enumerate(artifacts) if item.mime_type.lower() in _IMAGES)


def table_of(output: Json) -> list[JsonObject]:
    """The rows of an output that is a list of flat objects, or that has exactly one such list apart from its
    artifacts; empty for any other output."""
    if isinstance(output, dict):
        lists = [value for key, value in output.items() if key != "artifacts" and _is_rows(value)]
        output = lists[0] if len(lists) == 1 else None
    return output if isinstance(output, list) and _is_rows(output) else []  # type: ignore[return-value]  # checked item by item


def texts_of(value: Json, where: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every string in the output that is not empty, with the JSON pointer to it."""
    if isinstance(value, str) and value:
        yield where, value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, item in value.items():
            yield from texts_of(item, f"{where}/{key}", depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for at, item in enumerate(value):
            yield from texts_of(item, f"{where}/{at}", depth + 1)


def _is_rows(value: Json) -> bool:
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) and item for item in value):
        return False
    flat = all(
        not isinstance(cell, dict | list)
        for item in value
        if isinstance(item, dict)
        for cell in item.values()
    )
    return flat and len({key for item in value[:50] if isinstance(item, dict) for key in item}) <= MAX_COLUMNS


def _mostly_text(output: Json) -> bool:
    """Whether one text of several lines is at least half of the output's text."""
    sizes = [(len(text), "\n" in text) for _, text in texts_of(output)]
    longest, lines = max(sizes, default=(0, False))
    return lines and longest * 2 >= sum(size for size, _ in sizes)


def _exceeds_lines(value: Json, budget: int = SHORT_LINES) -> bool:
    """Whether the value takes more than `budget` lines when it is spread out. It stops reading at that
    point."""
    count, pending = 0, [value]
    while pending and count <= budget:
        item = pending.pop()
        count += 2 if isinstance(item, dict | list) else 1
        if isinstance(item, dict):
            pending.extend(list(item.values())[: budget + 1])
        elif isinstance(item, list):
            pending.extend(item[: budget + 1])
    return count > budget


# Flat objects as a table, with columns as wide as their contents.


SAMPLED_ROWS = 200
"""The first rows, which decide which columns there are and how wide they are."""
MAX_COLUMN_CELLS = 40
_MAX_CELL_CHARACTERS = 200
"""Characters of a text that are drawn in a cell, before it is cut to the width of its column."""


class TableColumns(msgspec.Struct, frozen=True):
    """The columns of a table, in the order in which the rows name them first."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    numbers: tuple[bool, ...]
    """Whether a column holds only numbers, which are aligned to the right."""

    def titles(self, width: int) -> StyledLine:
        """The line of column names."""
        return self._row([span(name, Tone.DIM) for name in self.names], width)

    def row(self, item: JsonObject, width: int) -> StyledLine:
        """The line of one object."""
        return self._row([span(_cell(item.get(name))) for name in self.names], width)

    def _row(self, cells: Sequence[StyledText], width: int) -> StyledLine:
        made: StyledLine = ()
        for cell, size, number in zip(cells, self.widths, self.numbers, strict=True):
            gap = StyledText(" " * max(0, size - cell_len(cell.text))) if number else StyledText("")
            made = (*made, *padded((gap, cell), size), StyledText("  "))
        return truncated(made, width)


class TableRow(msgspec.Struct, frozen=True):
    """An object of the output as a row."""

    at: int
    item: JsonObject
    columns: TableColumns

    @property
    def key(self) -> str:
        """The index in the list, as text."""
        return str(self.at)

    def draw(self, width: int) -> StyledLine:
        """Draw the cells."""
        return self.columns.row(self.item, width)


def columns_of(rows: Sequence[JsonObject]) -> TableColumns:
    """The columns that suit the first rows."""
    sample = rows[:SAMPLED_ROWS]
    names = tuple(dict.fromkeys(name for row in sample for name in row))
    cells = {name: [row[name] for row in sample if name in row] for name in names}
    return TableColumns(
        names,
        tuple(
            min(MAX_COLUMN_CELLS, max(cell_len(safe_text(text)) for text in (name, *map(_cell, cells[name]))))
            for name in names
        ),
        tuple(all(_is_number(value) for value in cells[name]) for name in names),
    )


def table_rows(rows: Sequence[JsonObject]) -> list[TableRow]:
    """All rows with their common columns."""
    columns = columns_of(rows)
    return [TableRow(at, item, columns) for at, item in enumerate(rows)]


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value[:_MAX_CELL_CHARACTERS] if isinstance(value, str) else json.dumps(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# JSON as a tree of rows. Only the rows of open nodes exist.


GROUP_SIZE = 500
"""Children of a node that has more of them are put into groups of this size."""
MAX_TREE_TEXT = 400
"""Characters of a text that are drawn on its row; Enter shows all of it."""
_MAX_ROWS_AT_FIRST = 60
"""Nodes are opened at first as long as the tree has at most this many rows."""


class TreeNode(msgspec.Struct, frozen=True):
    """A row of the tree. `key` is its JSON pointer as a fragment; the key of a group ends with its first
    index."""

    key: str
    label: str
    value: Any
    depth: int
    group: tuple[int, int] | None = None
    """The first child of a group and the child after its last one; None for any other node."""
    open: bool = False

    @property
    def can_open(self) -> bool:
        """Whether the node has children."""
        return isinstance(self.value, dict | list) and bool(self.value)

    def draw(self, width: int) -> StyledLine:
        """Draw the sign for open or closed, the name, and the value or the number of children."""
        sign = ("▾ " if self.open else "▸ ") if self.can_open else "  "
        label = (span(self.label, Tone.ACCENT), StyledText(": ", Tone.DIM)) if self.label else ()
        return truncated((StyledText("  " * self.depth + sign, Tone.DIM), *label, self._value_span()), width)

    def _value_span(self) -> StyledText:
        value = self.value
        if self.group is not None:
            return span("…", Tone.DIM)
        if isinstance(value, dict):
            return span(f"{{ {plural(len(value), 'key')} }}" if value else "{}", Tone.DIM)
        if isinstance(value, list):
            return span(f"[ {plural(len(value), 'item')} ]" if value else "[]", Tone.DIM)
        if isinstance(value, str):
            cut = f"… ({len(value):,} characters)" if len(value) > MAX_TREE_TEXT else ""
            return span(json.dumps(value[:MAX_TREE_TEXT], ensure_ascii=False) + cut)
        return span(json.dumps(value), Tone.STRONG)


def tree_of(value: Json) -> list[TreeNode]:
    """The rows of a new tree: the root is open, and so are nodes with few children."""
    root = TreeNode("#", "", value, 0)
    if not root.can_open:
        return [root]
    rows = with_toggled([root], 0)
    # From the last row to the first, since an opened node moves the rows behind it.
    for at in range(len(rows) - 1, 0, -1):
        size = len(rows[at].value) if rows[at].can_open else 0
        if 0 < size <= _MAX_ROWS_AT_FIRST - len(rows):
            rows = with_toggled(rows, at)
    return rows


def with_toggled(rows: list[TreeNode], at: int) -> list[TreeNode]:
    """The rows with the node at `at` opened or closed; the same rows where it has no children."""
    node = rows[at]
    if not node.can_open:
        return rows
    if not node.open:
        return [*rows[:at], msgspec.structs.replace(node, open=True), *children_of(node), *rows[at + 1 :]]
    end = at + 1
    while end < len(rows) and rows[end].depth > node.depth:
        end += 1
    return [*rows[:at], msgspec.structs.replace(node, open=False), *rows[end:]]


def parent_of(rows: list[TreeNode], at: int) -> int:
    """The index of the row that contains the row at `at`; `at` itself for the root."""
    above = (place for place in range(at - 1, -1, -1) if rows[place].depth < rows[at].depth)
    return next(above, at)


def children_of(node: TreeNode) -> list[TreeNode]:
    """The children of a node, in groups where there are too many."""
    value = node.value
    count = len(value)
    first, last = node.group or (0, count)
    if last - first > GROUP_SIZE:
        return [
            TreeNode(f"{node.key}/{start}…", f"{start} … {end - 1}", value, node.depth + 1, (start, end))
            for start in range(first, last, GROUP_SIZE)
            for end in (min(start + GROUP_SIZE, last),)
        ]
    base = node.key.rsplit("/", 1)[0] if node.group else node.key
    return [
        TreeNode(pointer_join(base, name), name, item, node.depth + 1)
        for name, item in _items(value, first, last)
    ]


def _items(value: Any, first: int, last: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from list(value.items())[first:last]
    else:
        for at in range(first, last):
            yield str(at), value[at]
