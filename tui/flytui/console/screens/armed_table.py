"""A table of entries on an armed screen: one line for each entry, its details below it where it is unfolded,
and a cursor.

What has been on screen is known by entry and line, so that moving the cursor, ticking and unfolding take
nothing back that was read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual.screen import ScreenResultType

from flytui.console.screens.armed import ArmedScreen
from flytui.text.lines import StyledLine, StyledText, Tone

CURSOR_CELLS = 2
"""The cells at the left of each line, in which the cursor is drawn."""


class TableEntry(msgspec.Struct, frozen=True):
    """One entry of the table as it is drawn at one width."""

    key: str
    """Identifies the entry and its content: what has another key has not been read."""
    lines: Sequence[StyledLine]
    """The line of the entry, and the lines of its details, of which there are none where it is folded."""
    required: frozenset[int] = frozenset()
    """The indexes of the lines that have to be on screen before a decision about the entry."""


class ArmedTable(ArmedScreen[ScreenResultType]):
    """An armed screen that shows a table. A subclass defines `_entries`."""

    _cursor = ""
    """The key of the entry under the cursor."""
    _places: tuple[tuple[TableEntry, int], ...] = ()
    """The entries that are drawn, each with the index of its first line."""

    def _entries(self, width: int) -> Sequence[TableEntry]:
        """The entries of the table, drawn for that width."""
        raise NotImplementedError

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        """The lines of all entries, with a mark at the one under the cursor."""
        entries = self._entries(width - CURSOR_CELLS)
        rows: list[StyledLine] = []
        places: list[tuple[TableEntry, int]] = []
        mark = StyledText("❯ ", Tone.ACCENT)
        for entry in entries:
            places.append((entry, len(rows)))
            first, *details = entry.lines
            rows.append((mark if entry.key == self._cursor else StyledText("  "), *first))
            rows += [(StyledText("  "), *row) for row in details]
        self._places = tuple(places)
        return rows

    def _required_rows(self) -> frozenset[int]:
        """The lines of all entries that have to be read."""
        return frozenset(start + at for entry, start in self._places for at in entry.required)

    def _was_shown(self, key: str) -> bool:
        """Whether all lines of the entry that have to be read have been on screen."""
        return any(
            entry.key == key and self._card.read_rows.issuperset(start + at for at in entry.required)
            for entry, start in self._places
        )

    def _rebuild_table(self) -> None:
        """Draw the table again. Lines of the same entries that were on screen still count as read."""
        read = {
            (entry.key, at)
            for entry, start in self._places
            for at in range(len(entry.lines))
            if start + at in self._card.read_rows
        }
        width = self._card.built_for
        self._card.rebuild()
        # At another width the lines of an entry wrap in other places.
        if width == self._card.built_for:
            self._card.mark_read(
                frozenset(
                    start + at
                    for entry, start in self._places
                    for at in range(len(entry.lines))
                    if (entry.key, at) in read
                )
            )
        self._redraw()
        self.call_after_refresh(self._tick)

    def _move_cursor(self, key: str) -> None:
        """Put the cursor on the entry of that key, and have all of that entry on screen where it fits."""
        self._cursor = key
        self._rebuild_table()
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        height = self._card.scrollable_content_region.height
        top = self._card.scroll_offset.y
        for entry, start in self._places:
            if entry.key == self._cursor:
                end = start + len(entry.lines)
                if start < top or end > top + height:
                    self._card.scroll_to(y=max(0, min(start, end - height)), animate=False)

    def _handle_table_key(self, key: str) -> bool:
        """Handle a key that moves the cursor, and return whether it is one."""
        keys = [entry.key for entry, _ in self._places]
        at = keys.index(self._cursor) if self._cursor in keys else 0
        steps = {"up": at - 1, "k": at - 1, "down": at + 1, "j": at + 1, "home": 0, "end": len(keys) - 1}
        if key in ("pageup", "pagedown"):
            self._turn_page(key)
            return True
        if key not in steps:
            return False
        if keys:
            self._move_cursor(keys[max(0, min(len(keys) - 1, steps[key]))])
        return True

    def _turn_page(self, key: str) -> None:
        """Scroll by a page where the details under the cursor go on there; else move the cursor by as many
        entries as fit on a page."""
        height = max(2, self._card.scrollable_content_region.height)
        top = self._card.scroll_offset.y
        keys = [entry.key for entry, _ in self._places]
        for at, (entry, start) in enumerate(self._places):
            if entry.key != self._cursor:
                continue
            below = key == "pagedown" and start + len(entry.lines) > top + height
            above = key == "pageup" and start < top
            if below or above:
                self._scroll(key)
            else:
                step = height - 1 if key == "pagedown" else 1 - height
                self._move_cursor(keys[max(0, min(len(keys) - 1, at + step))])
            return
        self._scroll(key)
