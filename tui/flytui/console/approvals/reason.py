"""The one input of a decision: a reason for a refusal. Only Enter sends it, and it can only refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flytui.console.paint import Line, Tone, keys_line, line, span, wrapped
from flytui.console.views import Bar

MOST_CHARACTERS = 1_000


class ReasonScreen(ModalScreen[str | None]):
    """Gives the reason, or None when the person goes back; losing focus or the screen decides nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", show=False, priority=True)]

    def __init__(self, tool: str) -> None:
        super().__init__()
        self._tool = tool
        self._empty = False
        self._foot = Bar(self._keys)

    def compose(self) -> ComposeResult:
        """A box with a line to write on."""
        with Vertical(classes="box"):
            yield Bar(self._top)
            yield Input(id="reason", max_length=MOST_CHARACTERS, select_on_focus=False)
            yield self._foot

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter refuses with what is written; nothing written sends nothing."""
        event.stop()
        reason = " ".join(event.value.split())
        if reason:
            self.dismiss(reason)
        else:
            self._empty = True
            self._foot.redraw()

    def action_back(self) -> None:
        """Back to the card, which stays as it was."""
        self.dismiss(None)

    def _top(self, width: int) -> Sequence[Line]:
        rows = [
            line(span("Deny with a reason", Tone.STRONG)),
            line(span(f"The caller of {self._tool} is told what you write.", Tone.DIM)),
        ]
        return wrapped(rows, width)

    def _keys(self, width: int) -> Sequence[Line]:
        rows = [keys_line([("Enter", "deny and send"), ("Esc", "back to the card")])]
        if self._empty:
            rows.insert(0, line(span(" write a reason, or press Esc", Tone.WARN)))
        return wrapped(rows, width)
