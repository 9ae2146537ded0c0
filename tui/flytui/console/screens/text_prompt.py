"""A box that asks for a line of text: the reason of a refusal, a reply to a caller, a reason for the log.

Only Enter gives the text, and nothing in the box can approve a request.
"""

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
    """The text field of the box."""


class TextPromptScreen(TypeaheadScreen[str | None]):
    """Asks for a line of text. The screen gives the text, or None when the person goes back. Nothing is
    decided when it loses the focus or is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="words.back")
    ]

    def __init__(
        self,
        title: str,
        note: str,
        enter: str,
        escape: str,
        *,
        may_be_empty: bool = False,
        wanted: str = "a reason",
        verbatim: bool = False,
    ) -> None:
        """Build the box. `note` explains what the text is for; `enter` and `escape` say what those keys do.
        `wanted` names what has to be written. With `verbatim`, spaces within the text stay as they are."""
        self._line = TextLineInput(id="reason", max_length=MAX_CHARACTERS, select_on_focus=False)
        super().__init__(self._line)
        self._may_be_empty = may_be_empty
        self._wanted = wanted
        self._verbatim = verbatim
        self._heading = title
        self._note = note
        self._key_hints = (("Enter", enter), ("Esc", escape))
        self._empty = False
        self._foot = LineBar(self._keys)

    def compose(self) -> ComposeResult:
        """Yield a box with title, note, text field and keys."""
        with Vertical(classes="box"):
            yield LineBar(self._top)
            yield self._line
            yield self._foot

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the text on Enter, and an empty one only where `may_be_empty`."""
        event.stop()
        reason = event.value.strip() if self._verbatim else " ".join(event.value.split())
        if reason or self._may_be_empty:
            self.dismiss(reason)
        else:
            self._empty = True
            self._foot.redraw()

    def action_back(self) -> None:
        """Close the box without a text."""
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
            rows.insert(0, line(span(f" write {self._wanted}, or press Esc", Tone.WARN)))
        return wrapped(rows, width)


class DenyReasonScreen(TextPromptScreen):
    """Asks for the reason of a refusal. Enter refuses the request with it."""

    def __init__(self, tool: str) -> None:
        note = f"The caller of {tool} receives what you write."
        super().__init__("Deny with a reason", note, "deny and send", "back to the card")
