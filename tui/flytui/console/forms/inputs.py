"""The widgets a field is written with. What cannot be seen stands there as a visible token, and is still sent
as it was typed or pasted; nothing is ever read as markup."""

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


class VisibleInput(Input):
    """A line of text. `plain` is what was written; on screen stands its `safe_text`."""

    DEFAULT_CSS = """
    VisibleInput { height: 1; border: none; padding: 0 1; background: $panel; }
    VisibleInput:focus { border: none; background: $panel-lighten-1; }
    """

    def __init__(self, plain: str, *, password: bool = False) -> None:
        super().__init__(safe_text(plain), password=password, select_on_focus=False)

    @property
    def plain(self) -> str:
        """What was written."""
        return without_tokens(self.value)

    def set_text(self, plain: str) -> None:
        """Another text; nothing happens where it is the same."""
        if self.plain != plain:
            self.value = safe_text(plain)

    def replace(self, text: str, start: int, end: int) -> None:
        """Every way in which text is put in ends here."""
        super().replace(safe_text(text), start, end)

    def _on_paste(self, event: events.Paste) -> None:
        """All of it, line ends too: they become tokens."""
        event.stop()
        event.prevent_default()
        start, end = sorted(self.selection)
        self.replace(event.text[:MAX_CHARACTERS], start, end)


class VisibleTextArea(TextArea):
    """Text of several lines, each drawn as its `safe_text`."""

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
        """What was written."""
        return without_tokens(self.text)

    def set_text(self, plain: str) -> None:
        """Another text; nothing happens where it is the same."""
        if self.plain != plain:
            self.text = _visible(plain)

    def edit(self, edit: Edit) -> EditResult:
        """Every way in which text is put in ends here."""
        return super().edit(replace(edit, text=_visible(edit.text)))

    async def _on_paste(self, event: events.Paste) -> None:
        """A terminal sends the ends of pasted lines as carriage returns."""
        event.stop()
        event.prevent_default()
        self.insert(event.text[:MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n"))


def _visible(text: str) -> str:
    return "\n".join(safe_lines(text))


class ChoiceInput(ThemedWidget, can_focus=True):
    """One of several, by the arrow keys; Enter opens the whole list."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Turn { height: 1; background: $panel; } Turn:focus { background: $panel-lighten-1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Before", show=False, id="form.before"),
        Binding("right,space", "turn(1)", "Next", show=False, id="form.next"),
        Binding("enter", "list", "List", show=False, id="form.list"),
        Binding("backspace,delete", "leave_out", "Leave out", show=False, id="form.leave-out"),
    ]

    class Changed(Message):
        """Another option is chosen; -1 is none."""

        def __init__(self, at: int) -> None:
            self.at = at
            super().__init__()

    class ListRequested(Message):
        """The person wants to see all options."""

    def __init__(self, words: Sequence[str], at: int) -> None:
        super().__init__()
        self.words = words
        self.at = at

    def set_options(self, words: Sequence[str], at: int) -> None:
        """Other options, or another one chosen."""
        self.words, self.at = words, at
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The chosen one between arrows, and its place."""
        width = self.size.width
        place = span(f"{self.at + 1} of {len(self.words)} ", Tone.DIM)
        chosen = span(self.words[self.at], Tone.STRONG) if self.at >= 0 else span("left out", Tone.DIM)
        arrows = Tone.KEY if self.has_focus else Tone.DIM
        left = padded((StyledText(" ‹ ", arrows), chosen), max(0, width - 3 - width_of((place,))))
        row: StyledLine = (*left, StyledText(" › ", arrows), place)
        return to_strip(row, width, self.tones, self.rich_style)

    def on_focus(self) -> None:
        """Keys go here: the arrows are lit."""
        self.refresh()

    def on_blur(self) -> None:
        """Keys go elsewhere."""
        self.refresh()

    def on_click(self) -> None:
        """The list, where a click chooses."""
        self.action_list()

    def action_turn(self, by: int) -> None:
        """The next one or the one before; from either end to the other."""
        count = len(self.words)
        self.post_message(self.Changed((max(self.at, 0 if by < 0 else -1) + by) % count))

    def action_list(self) -> None:
        """All of them."""
        self.post_message(self.ListRequested())

    def action_leave_out(self) -> None:
        """None of them."""
        self.post_message(self.Changed(-1))


class ItemCounter(ThemedWidget, can_focus=True):
    """How many items an array has; `+` adds one, `-` takes the last out."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Tally { height: 1; background: $panel; } Tally:focus { background: $panel-lighten-1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,enter", "more", "Add", show=False, id="form.add-last"),
        Binding("minus,backspace,delete", "fewer", "Remove", show=False, id="form.remove-last"),
    ]

    class Changed(Message):
        """One item more, or the last one less."""

        def __init__(self, more: bool) -> None:
            self.more = more
            super().__init__()

    def __init__(self, count: Callable[[], int]) -> None:
        super().__init__()
        self._count = count

    def render_line(self, y: int) -> Strip:
        """The count and its keys."""
        count = self._count()
        words = span(f" {count} item{'' if count == 1 else 's'}", Tone.STRONG)
        row = line(words, span("   + ", Tone.KEY), span("add", Tone.DIM))
        if count:
            row = (*row, *line(span("   - ", Tone.KEY), span("take the last out", Tone.DIM)))
        return to_strip(row, self.size.width, self.tones, self.rich_style)

    def on_click(self) -> None:
        """A click adds."""
        self.action_more()

    def action_more(self) -> None:
        """One more item."""
        self.post_message(self.Changed(True))

    def action_fewer(self) -> None:
        """Without the last item."""
        self.post_message(self.Changed(False))
