"""A virtual list with a cursor: ten thousand rows cost what is on screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from flytui.console.widgets.lines import TONE_CLASSES, ThemedWidget, to_strip
from flytui.text.lines import BLANK, StyledLine, StyledText


class ListRow(Protocol):
    """What a list shows. A row without a key is a heading: drawn, never under the cursor."""

    @property
    def key(self) -> str:
        """Identity across updates, `""` for a heading."""
        ...

    def draw(self, width: int) -> StyledLine:
        """The row for that many cells."""
        ...


class VirtualList(ThemedWidget, ScrollView, can_focus=True):
    """Shows rows; the cursor keeps its row by key when rows change."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--resting", *TONE_CLASSES}
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
        """The cursor is on another row, or its row changed."""

        def __init__(self, rows: VirtualList) -> None:
            self.rows = rows
            super().__init__()

        @property
        def control(self) -> VirtualList:
            """The list it happened in."""
            return self.rows

    class Chosen(Moved):
        """Enter or a second click on the row under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[ListRow] = ()
        self._selected_key = ""
        self.cursor = 0

    @property
    def row(self) -> ListRow | None:
        """The row under the cursor, None in an empty list."""
        if not 0 <= self.cursor < len(self._rows):
            return None
        row = self._rows[self.cursor]
        return row if row.key else None

    @property
    def row_count(self) -> int:
        """How many rows there are, headings included."""
        return len(self._rows)

    def set_rows(self, rows: Sequence[ListRow], *, narrowed: bool = False) -> None:
        """Take new rows; the cursor stays on its key, or near where it was. `narrowed`: the rows were
        chosen by words, so where its row is not among them the cursor goes to the first, and back to
        its row once that is there again."""
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

    def on_resize(self) -> None:
        """Keep the cursor on screen, and lines as wide as the view."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self._scroll_to_cursor()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One visible row; the cursor is a bar at the left, not only a colour."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._rows):
            return to_strip(BLANK, width, self.tones, self.rich_style)
        drawn = self._rows[index].draw(self.scrollable_content_region.width - 2)
        here = index == self.cursor and bool(self._rows[index].key)
        base = self.rich_style
        if here:
            name = "rows--cursor" if self.has_focus else "rows--resting"
            base += self.get_component_rich_style(name, partial=True)
        return to_strip((StyledText("▌ " if here else "  "), *drawn), width, self.tones, base)

    def on_focus(self) -> None:
        """The cursor row is drawn stronger."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor row is drawn weaker."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor; on the cursor it opens the row."""
        index = self.scroll_offset.y + event.y
        if index == self.cursor and self.row is not None:
            self.post_message(self.Chosen(self))
        elif 0 <= index < len(self._rows) and self._rows[index].key:
            self._move_to(index)

    def action_move(self, step: int) -> None:
        """One row up or down, over headings."""
        index = self.cursor + step
        while 0 <= index < len(self._rows) and not self._rows[index].key:
            index += step
        if 0 <= index < len(self._rows):
            self._move_to(index)

    def action_page(self, step: int) -> None:
        """One screen up or down."""
        index = self.cursor + step * max(1, self.scrollable_content_region.height - 1)
        self._move_to(self._nearest(max(0, min(len(self._rows) - 1, index))))

    def action_edge(self, last: bool) -> None:
        """First or last row."""
        self._move_to(self._nearest(len(self._rows) - 1 if last else 0))

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.row is not None:
            self.post_message(self.Chosen(self))

    def select_key(self, key: str) -> bool:
        """Put the cursor on the row of that key; False where there is none."""
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
        """The selectable row at or nearest to `index`, 0 where there is none."""
        count = len(self._rows)
        near = (at for away in range(count) for at in (index - away, index + away) if 0 <= at < count)
        return next((at for at in near if self._rows[at].key), 0)
