"""Words that go with a decision. Only Enter gives them: for a reason that refuses, for a question that waits
on for its answer. Nothing here can approve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.text_input import OrderedKeys, TypeaheadScreen
from flytui.text.lines import StyledLine, Tone, keys_line, line, span, wrapped

MAX_CHARACTERS = 1_000


class TextLineInput(Input, OrderedKeys):
    """A line to write on."""


class TextPromptScreen(TypeaheadScreen[str | None]):
    """Gives words of the person's own, or None when they go back; losing focus or the screen decides
    nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="words.back")
    ]

    def __init__(self, title: str, note: str, enter: str, escape: str, *, may_be_empty: bool = False) -> None:
        self._line = TextLineInput(id="reason", max_length=MAX_CHARACTERS, select_on_focus=False)
        super().__init__(self._line)
        self._may_be_empty = may_be_empty
        self._heading = title
        self._note = note
        self._key_hints = (("Enter", enter), ("Esc", escape))
        self._empty = False
        self._foot = LineBar(self._keys)

    def compose(self) -> ComposeResult:
        """A box with a line to write on."""
        with Vertical(classes="box"):
            yield LineBar(self._top)
            yield self._line
            yield self._foot

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter gives what is written; nothing only where that may be."""
        event.stop()
        reason = " ".join(event.value.split())
        if reason or self._may_be_empty:
            self.dismiss(reason)
        else:
            self._empty = True
            self._foot.redraw()

    def action_back(self) -> None:
        """Back to the card, which stays as it was."""
        self.dismiss(None)

    def _top(self, width: int) -> Sequence[StyledLine]:
        rows = [
            line(span(self._heading, Tone.STRONG)),
            line(span(self._note, Tone.DIM)),
        ]
        return wrapped(rows, width)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        rows = [keys_line(self._key_hints)]
        if self._empty:
            rows.insert(0, line(span(" write a reason, or press Esc", Tone.WARN)))
        return wrapped(rows, width)


class DenyReasonScreen(TextPromptScreen):
    """The reason for a refusal; Enter refuses with it."""

    def __init__(self, tool: str) -> None:
        note = f"The caller of {tool} is told what you write."
        super().__init__("Deny with a reason", note, "deny and send", "back to the card")
