"""A view with a filter line above its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.containers import Vertical
from textual.widgets import Input

from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.text_input import FilterInput
from flytui.console.widgets.virtual_list import VirtualList


class FilterLineView(Vertical):
    """Rows with a filter line that is hidden until the person opens it.

    A subclass binds keys to `filter` (with priority) and `clear`, places `filter_input` and its rows, and
    says in `apply_filter` which rows are shown.
    """

    ACTIONS_OFF_WHILE_TYPING: ClassVar[tuple[str, ...]] = ("filter",)
    """Actions whose keys are text while the person types in the filter line."""
    TYPING_KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    """What the key line says while the person types in the filter line."""

    def __init__(self, rows: VirtualList, *, id: str, filter_id: str, placeholder: str) -> None:
        super().__init__(id=id)
        self._filtered_rows = rows
        self.filter_text = ""
        """The filter in force, without spaces at its ends."""
        self.filter_input = FilterInput(id=filter_id, placeholder=placeholder, select_on_focus=False)
        self.filter_input.display = False

    def apply_filter(self) -> None:
        """Show the rows that `filter_text` lets through."""
        raise NotImplementedError

    def filter_line_toggled(self) -> None:
        """Is called when the filter line was opened, or closed with its filter kept."""

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.is_attached and self.screen.focused is self.filter_input

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the person types in the filter line, letters are text and no keys of the view."""
        return not (self.typing and action in self.ACTIONS_OFF_WHILE_TYPING)

    def action_filter(self) -> None:
        """Open the filter line."""
        self.filter_input.display = True
        # The focus moves at once: `/quit` typed in one go has to be a filter, and its `q` must not quit.
        self.screen.set_focus(self.filter_input)
        self.filter_line_toggled()

    def set_filter(self, text: str) -> None:
        """Put a filter in force as if a person had written it, with its line closed."""
        self.filter_input.value = self.filter_text = text
        self._close_filter_line()
        self.apply_filter()

    def action_clear(self) -> None:
        """Remove the filter and close its line."""
        self.filter_input.value = ""
        self.filter_text = ""
        self._close_filter_line()
        self.apply_filter()

    @on(Input.Changed)
    def _on_filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        text = event.value.strip()
        # The message of a line that was cleared arrives when `action_clear` has applied it already.
        if text != self.filter_text:
            self.filter_text = text
            self.apply_filter()

    @on(Input.Submitted)
    def _on_filter_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_filter_line()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _on_focus_moved(self) -> None:
        self.post_message(LineBar.Stale())

    def _close_filter_line(self) -> None:
        self.filter_input.display = False
        self.screen.set_focus(self._filtered_rows)
        self.filter_line_toggled()
