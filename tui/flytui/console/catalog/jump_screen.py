"""The screen that jumps to a tool by letters of its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flytui.console.catalog.catalog_rows import Row, ToolRow
from flytui.console.screens.base import ScreenTraits
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.text_input import FilterInput
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.filter_query import in_order
from flytui.text.lines import StyledLine, StyledText, keys_fitting, line, name_span, padded, span, truncated


class JumpTarget(msgspec.Struct, frozen=True):
    """A row of the Catalog in the list of matches."""

    row: ToolRow

    @property
    def key(self) -> str:
        """The key of the row."""
        return self.row.key

    def draw(self, width: int) -> StyledLine:
        """Draw the state and the name."""
        return truncated((*padded((StyledText(*self.row.state),), 14), name_span(self.row.name)), width)


def ranked_targets(rows: Iterable[Row], text: str) -> list[Row]:
    """The rows whose name contains the letters in this order. Names that begin with the letters come first,
    then names that contain them together, then the others."""
    letters = "".join(text.casefold().split())
    ranks: tuple[list[Row], ...] = ([], [], [])
    for row in rows:
        name = row.filter_item.name
        if name.startswith(letters):
            ranks[0].append(row)
        elif letters in name:
            ranks[1].append(row)
        elif in_order(letters, name):
            ranks[2].append(row)
    return [row for rank in ranks for row in rank]


class JumpScreen(ScreenTraits, ModalScreen[str]):
    """Ends with the key of the chosen row, or with an empty text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False, id="jump.back"),
        Binding("up", "step(-1)", "Up", show=False, priority=True, id="jump.up"),
        Binding("down", "step(1)", "Down", show=False, priority=True, id="jump.down"),
    ]

    def __init__(self, rows: Sequence[ToolRow]) -> None:
        super().__init__()
        self._rows = rows
        self._list = VirtualList(id="jump-rows")
        self._list.can_focus = False

    def compose(self) -> ComposeResult:
        """Place the line to write in, the matches and the keys."""
        with Vertical(classes="box"):
            yield FilterInput(id="jump", placeholder="tool", select_on_focus=False)
            yield self._list
            yield LineBar(self._keys, id="jump-keys")

    def on_mount(self) -> None:
        """Show every row until something is written."""
        self._show("")

    @on(Input.Changed, "#jump")
    def _on_text_changed(self, event: Input.Changed) -> None:
        self._show(event.value)

    @on(Input.Submitted, "#jump")
    def _on_text_submitted(self) -> None:
        row = self._list.row
        self.dismiss(row.key if row is not None else "")

    @on(VirtualList.Chosen)
    def _on_target_clicked(self, event: VirtualList.Chosen) -> None:
        event.stop()
        self._on_text_submitted()

    def action_leave(self) -> None:
        """Go back without a jump."""
        self.dismiss("")

    def action_step(self, step: int) -> None:
        """Move the cursor of the list, while letters go to the line."""
        self._list.action_move(step)

    def _show(self, text: str) -> None:
        self._list.set_rows([JumpTarget(row) for row in ranked_targets(self._rows, text)])
        self._list.action_edge(False)
        for bar in self.query(LineBar):
            bar.redraw()

    def _keys(self, width: int) -> Sequence[StyledLine]:
        if not self._list.row_count:
            return [line(span(" no tool has these letters in this order"))]
        return [keys_fitting([("Enter", "go there"), ("↑↓", "choose"), ("Esc", "back")], width)]
