"""The widgets in which the person writes or chooses the value of a field.

A character that cannot be seen is drawn as a visible token, and sent as it was typed or pasted. Nothing is
read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Edit, EditResult

from flysafe.text import safe_lines, safe_text
from flytui.console.forms.values import without_tokens
from flytui.console.widgets.lines import ThemedWidget, to_strip
from flytui.text.lines import StyledLine, StyledText, Tone, line, padded, span, width_of

MAX_CHARACTERS = 1_000_000
"""Of one paste; what is longer is cut."""


class VisibleInput(Input):
    """A line of text. `plain` is the text that was written; the screen shows its `safe_text`."""

    DEFAULT_CSS = """
    VisibleInput { height: 1; border: none; padding: 0 1; background: $panel; }
    VisibleInput:focus { border: none; background: $panel-lighten-1; }
    """

    def __init__(self, plain: str, *, password: bool = False) -> None:
        super().__init__(safe_text(plain), password=password, select_on_focus=False)

    @property
    def plain(self) -> str:
        """The text that was written."""
        return without_tokens(self.value)

    def set_text(self, plain: str) -> None:
        """Replace the text."""
        # An equal text is left alone, because a new value would move the cursor.
        if self.plain != plain:
            self.value = safe_text(plain)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text by the `safe_text` of the new one."""
        # Textual calls this for typed keys, for pastes and for deletions.
        super().replace(safe_text(text), start, end)

    def _on_paste(self, event: events.Paste) -> None:
        """Insert all of the paste. Line ends become tokens."""
        event.stop()
        event.prevent_default()
        start, end = sorted(self.selection)
        self.replace(event.text[:MAX_CHARACTERS], start, end)


class VisibleTextArea(TextArea):
    """A text of several lines, each drawn as its `safe_text`."""

    DEFAULT_CSS = """
    VisibleTextArea {
        height: auto; min-height: 3; max-height: 10; border: none; padding: 0 1; background: $panel;
    }
    VisibleTextArea:focus { border: none; background: $panel-lighten-1; }
    """

    def __init__(self, plain: str) -> None:
        super().__init__(_visible(plain), soft_wrap=True)

    @property
    def plain(self) -> str:
        """The text that was written."""
        return without_tokens(self.text)

    def set_text(self, plain: str) -> None:
        """Replace the text."""
        # An equal text is left alone, because a new value would move the cursor.
        if self.plain != plain:
            self.text = _visible(plain)

    def edit(self, edit: Edit) -> EditResult:
        """Make an edit with the visible form of its text."""
        # Textual calls this for typed keys, for pastes and for deletions.
        return super().edit(replace(edit, text=_visible(edit.text)))

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert the pasted text."""
        event.stop()
        event.prevent_default()
        # A terminal sends the line ends of a paste as carriage returns.
        self.insert(event.text[:MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n"))


def _visible(text: str) -> str:
    return "\n".join(safe_lines(text))


class ChoiceInput(ThemedWidget, can_focus=True):
    """Chooses one of several options with the arrow keys. Enter opens a list of all of them."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    ChoiceInput { height: 1; background: $panel; }
    ChoiceInput:focus { background: $panel-lighten-1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Before", show=False, id="form.before"),
        Binding("right,space", "turn(1)", "Next", show=False, id="form.next"),
        Binding("enter", "list", "List", show=False, id="form.list"),
        Binding("backspace,delete", "leave_out", "Leave out", show=False, id="form.leave-out"),
    ]

    class Changed(Message):
        """The person chose the option at this index, or none (-1)."""

        def __init__(self, at: int) -> None:
            self.at = at
            super().__init__()

    class ListRequested(Message):
        """The person wants to choose from the list of all options."""

    def __init__(self, labels: Sequence[str], at: int) -> None:
        super().__init__()
        self.labels = labels
        self.at = at
        """The index of the chosen option, -1 for none."""

    def set_options(self, labels: Sequence[str], at: int) -> None:
        """Show other options, or another one chosen."""
        self.labels, self.at = labels, at
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the chosen option between arrows, and its number."""
        width = self.size.width
        place = span(f"{self.at + 1} of {len(self.labels)} ", Tone.DIM)
        chosen = span(self.labels[self.at], Tone.STRONG) if self.at >= 0 else span("left out", Tone.DIM)
        arrows = Tone.KEY if self.has_focus else Tone.DIM
        left = padded((StyledText(" ‹ ", arrows), chosen), max(0, width - 3 - width_of((place,))))
        row: StyledLine = (*left, StyledText(" › ", arrows), place)
        return to_strip(row, width, self.tones, self.base)

    def on_focus(self) -> None:
        """Draw the arrows bright."""
        self.refresh()

    def on_blur(self) -> None:
        """Draw the arrows dim."""
        self.refresh()

    def on_click(self) -> None:
        """Open the list, where a click chooses."""
        self.action_list()

    def action_turn(self, by: int) -> None:
        """Choose the next option or the one before; after the last one comes the first."""
        count = len(self.labels)
        self.post_message(self.Changed((max(self.at, 0 if by < 0 else -1) + by) % count))

    def action_list(self) -> None:
        """Ask for the list of all options."""
        self.post_message(self.ListRequested())

    def action_leave_out(self) -> None:
        """Choose no option."""
        self.post_message(self.Changed(-1))


class ItemCounter(ThemedWidget, can_focus=True):
    """Shows how many items an array has. `+` adds one at the end, `-` takes the last one out."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    ItemCounter { height: 1; background: $panel; }
    ItemCounter:focus { background: $panel-lighten-1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,enter", "more", "Add", show=False, id="form.add-last"),
        Binding("minus,backspace,delete", "fewer", "Remove", show=False, id="form.remove-last"),
    ]

    class Changed(Message):
        """The person wants one more item, or the last one removed."""

        def __init__(self, more: bool) -> None:
            self.more = more
            super().__init__()

    def __init__(self, count: Callable[[], int]) -> None:
        super().__init__()
        self._count = count

    def render_line(self, y: int) -> Strip:
        """Draw the count and its keys."""
        count = self._count()
        words = span(f" {count} item{'' if count == 1 else 's'}", Tone.STRONG)
        row = line(words, span("   + ", Tone.KEY), span("add", Tone.DIM))
        if count:
            row = (*row, *line(span("   - ", Tone.KEY), span("take the last out", Tone.DIM)))
        return to_strip(row, self.size.width, self.tones, self.base)

    def on_click(self) -> None:
        """Add an item."""
        self.action_more()

    def action_more(self) -> None:
        """Ask for one more item."""
        self.post_message(self.Changed(True))

    def action_fewer(self) -> None:
        """Ask for the last item to be removed."""
        self.post_message(self.Changed(False))
