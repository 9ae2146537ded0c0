"""JSON as a tree of rows: only what is open exists, so that a large output costs what is looked at. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flycore.model.json import Json, pointer_join
from flytui.console.paint import StyledLine, StyledText, Tone, span, truncated
from flytui.console.words import plural

GROUP_SIZE = 500
"""More children than that are put into groups of so many."""
MAX_TREE_TEXT = 400
"""Characters of a string on its row; it is opened for the rest."""
_OPEN_AT_FIRST = 60


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One place in the output. `key` is its JSON pointer as a fragment; a group's ends with its start."""

    key: str
    label: str
    value: Any
    depth: int
    group: tuple[int, int] | None = None
    """Of a group: from which child to which, the end left out."""
    open: bool = False

    @property
    def can_open(self) -> bool:
        """Whether there is something inside."""
        return isinstance(self.value, dict | list) and bool(self.value)

    def draw(self, width: int) -> StyledLine:
        """A sign for open or closed, its name, and its value or how much is inside."""
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
    """The rows at first: what is on top, opened as far as it is short."""
    root = TreeNode("#", "", value, 0)
    if not root.can_open:
        return [root]
    rows = with_toggled([root], 0)
    for at in range(len(rows) - 1, 0, -1):
        size = len(rows[at].value) if rows[at].can_open else 0
        if 0 < size <= _OPEN_AT_FIRST - len(rows):
            rows = with_toggled(rows, at)
    return rows


def with_toggled(rows: list[TreeNode], at: int) -> list[TreeNode]:
    """The rows after the one at `at` was opened or closed; the same rows where nothing is inside."""
    node = rows[at]
    if not node.can_open:
        return rows
    if not node.open:
        return [*rows[:at], replace(node, open=True), *children_of(node), *rows[at + 1 :]]
    end = at + 1
    while end < len(rows) and rows[end].depth > node.depth:
        end += 1
    return [*rows[:at], replace(node, open=False), *rows[end:]]


def parent_of(rows: list[TreeNode], at: int) -> int:
    """The row that the row at `at` is inside of; itself on top."""
    above = (place for place in range(at - 1, -1, -1) if rows[place].depth < rows[at].depth)
    return next(above, at)


def children_of(node: TreeNode) -> list[TreeNode]:
    """What is directly inside, in groups where that is much."""
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
