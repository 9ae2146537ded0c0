"""A screen with all options of a choice, which the person narrows down by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flytui.console.forms.inputs import VisibleInput
from flytui.console.screens.base import ScreenTraits
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, Tone, keys_fitting, line, span


class OptionRow(msgspec.Struct, frozen=True):
    """An option in the list, with its index among all options."""

    at: int
    label: str

    @property
    def key(self) -> str:
        """The index of the option."""
        return str(self.at)

    def draw(self, width: int) -> StyledLine:
        """Draw the label, made safe."""
        return line(span(self.label))


class OptionListScreen(ScreenTraits, ModalScreen[int | None]):
    """Ends with the index of the chosen option, or None when the person goes back."""

    DEFAULT_CSS = """
    OptionListScreen { align: center middle; background: $background 70%; }
    OptionListScreen .box { height: 80%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="pick.back"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="pick.up"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="pick.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, priority=True, id="pick.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, priority=True, id="pick.page-down"),
    ]

    def __init__(self, title: str, labels: Sequence[str], at: int) -> None:
        super().__init__()
        self._heading = title
        self._rows = [OptionRow(place, text) for place, text in enumerate(labels)]
        self._folded = [text.casefold() for text in labels]
        self._at = at
        self._list = VirtualList(id="pick-rows")
        # The focus stays in the line, so that letters narrow the list down at any time.
        self._list.can_focus = False
        self._box = VisibleInput("")

    def compose(self) -> ComposeResult:
        """Place the title, the filter line, the options and the keys."""
        with Vertical(classes="box"):
            yield LineBar(lambda _: [line(span(self._heading, Tone.STRONG))])
            yield self._box
            yield self._list
            yield LineBar(self._keys)

    def on_mount(self) -> None:
        """Put the cursor on the option that is chosen."""
        self._list.set_rows(self._rows)
        self._list.action_move(max(0, self._at))
        self.set_focus(self._box)

    @on(Input.Changed)
    def _on_text_changed(self, event: Input.Changed) -> None:
        event.stop()
        words = self._box.plain.casefold().split()
        found = [
            row
            for row, text in zip(self._rows, self._folded, strict=True)
            if all(word in text for word in words)
        ]
        self._list.set_rows(found, narrowed=bool(words))

    @on(Input.Submitted)
    def _on_text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._choose()

    @on(VirtualList.Chosen)
    def _on_option_clicked(self, event: VirtualList.Chosen) -> None:
        event.stop()
        self._choose()

    def _choose(self) -> None:
        row = self._list.row
        if isinstance(row, OptionRow):
            self.dismiss(row.at)

    def action_back(self) -> None:
        """Go back without a change."""
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Move the cursor of the list, while letters go to the filter line."""
        self._list.action_move(step)

    def action_page(self, step: int) -> None:
        """Move the cursor by one page."""
        self._list.action_page(step)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        pairs = [("Enter", "choose"), ("Esc", "back"), ("↑↓", "move"), ("letters", "narrow down")]
        return [keys_fitting(pairs, width)]
