"""A list with a cursor that draws only the rows on screen, so that ten thousand rows cost as much as
forty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from flytui.console.style import ground_style
from flytui.console.widgets.lines import ThemedWidget, to_strip
from flytui.text.lines import BLANK, StyledLine, StyledText


class ListRow(Protocol):
    """A row of a list. A row without a key is a heading: it is drawn, but the cursor never stops on it."""

    @property
    def key(self) -> str:
        """What identifies the row when the rows are replaced; `""` for a heading."""
        ...

    def draw(self, width: int) -> StyledLine:
        """The row as a line of at most `width` cells."""
        ...


class VirtualList(ThemedWidget, ScrollView, can_focus=True):
    """Shows rows. When rows are replaced, the cursor stays on the row of the same key."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "VirtualList { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="list.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page-down"),
        Binding("home", "edge(False)", "First", show=False, id="list.first"),
        Binding("end", "edge(True)", "Last", show=False, id="list.last"),
        Binding("enter", "choose", "Open", show=False, id="list.open"),
    ]

    class Moved(Message):
        """Is sent when the cursor is on another row, or its row changed."""

        def __init__(self, rows: VirtualList) -> None:
            self.rows = rows
            super().__init__()

        @property
        def control(self) -> VirtualList:
            """The list that sent the message."""
            return self.rows

    class Chosen(Moved):
        """Is sent on Enter, or on a click on the row under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[ListRow] = ()
        self._selected_key = ""
        self.cursor = 0
        self._drawn: dict[int, StyledLine] = {}
        """The rows as they were drawn last, by index."""

    @property
    def row(self) -> ListRow | None:
        """The row under the cursor; None where the list is empty."""
        if not 0 <= self.cursor < len(self._rows):
            return None
        row = self._rows[self.cursor]
        return row if row.key else None

    @property
    def row_count(self) -> int:
        """The number of rows, headings included."""
        return len(self._rows)

    def set_rows(self, rows: Sequence[ListRow], *, narrowed: bool = False) -> None:
        """Replace the rows. The cursor stays on its key, or near its old place. `narrowed` says that a filter
        chose the rows: where the cursor's row is not among them it goes to the first row, and back to its own
        once the filter lets that through again."""
        self._rows = rows
        if self.row is None or rows[self.cursor].key != self._selected_key:
            found = next(
                (at for at, row in enumerate(rows) if row.key and row.key == self._selected_key), None
            )
            near = 0 if narrowed else self.cursor
            self.cursor = self._nearest(near if found is None else found)
        if not narrowed:
            self._selected_key = self.row.key if self.row else self._selected_key
        self.virtual_size = Size(self.scrollable_content_region.width, len(rows))
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Moved(self))

    def refresh_changed(self) -> None:
        """Draw the rows on screen again where one of them would look different now."""
        first, width = self.scroll_offset.y, self.scrollable_content_region.width - 2
        there = range(first, min(len(self._rows), first + self.size.height))
        before, self._drawn = self._drawn, {}
        if any(before.get(index) != self._rows[index].draw(width) for index in there):
            self.refresh()
        else:
            self._drawn = before

    def on_resize(self) -> None:
        """Adapt the rows to the new width, and keep the cursor on screen."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self._scroll_to_cursor()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one visible row. The cursor is a bar at the left, because colour alone may not be visible."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._rows):
            return to_strip(BLANK, width, self.tones, self.base)
        drawn = self._drawn[index] = self._rows[index].draw(self.scrollable_content_region.width - 2)
        here = index == self.cursor and bool(self._rows[index].key)
        base = self.base
        if here:
            base += ground_style("panel" if self.has_focus else "surface", self.app.theme_variables)
        return to_strip((StyledText("▌ " if here else "  "), *drawn), width, self.tones, base)

    def on_focus(self) -> None:
        """Draw the cursor's row again, in the colour of a list with the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """Draw the cursor's row again, in the colour of a list without the focus."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row that was clicked, or open the row where the cursor is on it already."""
        index = self.scroll_offset.y + event.y
        if index == self.cursor and self.row is not None:
            self.post_message(self.Chosen(self))
        elif 0 <= index < len(self._rows) and self._rows[index].key:
            self._move_to(index)

    def action_move(self, step: int) -> None:
        """Move the cursor by one row up or down, past headings."""
        index = self.cursor + step
        while 0 <= index < len(self._rows) and not self._rows[index].key:
            index += step
        if 0 <= index < len(self._rows):
            self._move_to(index)

    def action_page(self, step: int) -> None:
        """Move the cursor by one screen up or down."""
        index = self.cursor + step * max(1, self.scrollable_content_region.height - 1)
        self._move_to(self._nearest(max(0, min(len(self._rows) - 1, index))))

    def action_edge(self, last: bool) -> None:
        """Move the cursor to the first or the last row."""
        self._move_to(self._nearest(len(self._rows) - 1 if last else 0))

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.row is not None:
            self.post_message(self.Chosen(self))

    def select_key(self, key: str) -> bool:
        """Put the cursor on the row of that key. Return False where there is none."""
        found = next((at for at, row in enumerate(self._rows) if row.key and row.key == key), None)
        if found is not None:
            self._move_to(found)
        return found is not None

    def _move_to(self, index: int) -> None:
        self.cursor = index
        self._selected_key = self.row.key if self.row else self._selected_key
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Moved(self))

    def _scroll_to_cursor(self) -> None:
        if self._rows and self.size.height:
            # The heading above the cursor's row is scrolled into view with it.
            top = (
                max(0, self.cursor - 1)
                if self.cursor and not self._rows[self.cursor - 1].key
                else self.cursor
            )
            height = self.cursor - top + 1
            self.scroll_to_region(
                Region(0, top, 1, height), animate=False, force=True, x_axis=False, immediate=True
            )

    def _nearest(self, index: int) -> int:
        """The index of the row with a key at or nearest to `index`; 0 where there is none."""
        count = len(self._rows)
        near = (at for away in range(count) for at in (index - away, index + away) if 0 <= at < count)
        return next((at for at in near if self._rows[at].key), 0)
