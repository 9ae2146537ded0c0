"""The widget of one field with its label, control and notes, and the list of all fields of a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, TextArea

from flytui.console.forms.inputs import ChoiceInput, ItemCounter, VisibleInput, VisibleTextArea
from flytui.console.forms.json_editor import JsonArea
from flytui.console.forms.layout import (
    Control,
    LayoutEntry,
    branch_labels,
    label_line,
    note_lines,
    option_labels,
)
from flytui.console.forms.option_list import OptionListScreen
from flytui.console.forms.validate import InputProblem
from flytui.console.forms.values import (
    MAX_ITEMS,
    ArrayValue,
    ChoiceValue,
    FormValue,
    Path,
    TextValue,
    UnionValue,
    initial_value,
    union_value,
)
from flytui.console.widgets.lines import LineBar
from flytui.text.lines import wrap

INDENT = 2
MAX_INDENT = 12
"""In cells. Deeper groups are not indented any further."""


class FieldWidget(Vertical):
    """Shows an entry of the form. It posts `Edited` for each change that the person makes."""

    DEFAULT_CSS = """
    FieldWidget { height: auto; margin-bottom: 1; }
    FieldWidget JsonArea {
        height: auto; min-height: 3; max-height: 10; border: none; padding: 0 1; background: $panel;
    }
    FieldWidget JsonArea:focus { border: none; background: $panel-lighten-1; }
    """

    class Edited(Message):
        """The person changed the value at `path`."""

        def __init__(self, path: Path, form_value: FormValue) -> None:
            self.path = path
            self.form_value = form_value
            super().__init__()

    def __init__(self, entry: LayoutEntry) -> None:
        super().__init__()
        self.entry = entry
        self._problems: Sequence[InputProblem] = ()
        self._tried = False
        self._known_text: str | None = None
        """The text that the control and the form have exchanged last."""
        self._label = LineBar(lambda width: wrap(label_line(self.entry), width, INDENT))
        self.control = self._control()
        self._notes = LineBar(lambda width: note_lines(self.entry, self._problems, width, self._tried))
        self.styles.margin = (0, 1, 1, min(MAX_INDENT, INDENT * entry.depth))

    def compose(self) -> ComposeResult:
        """Place the label, the control and the notes."""
        yield self._label
        if self.control is not None:
            yield self.control
        yield self._notes

    def set_entry(self, entry: LayoutEntry) -> None:
        """Show another entry for the same field. The control keeps its cursor where its text is the same."""
        self.entry = entry
        match self.control, entry.form_value:
            case (VisibleInput() | VisibleTextArea() | JsonArea()) as box, TextValue(text):
                self._set_text(box, text)
            case ChoiceInput() as choice, (ChoiceValue(at) | UnionValue(at)):
                choice.set_options(self._option_labels(), at)
            case ItemCounter() as counter, _:
                counter.refresh()
        self._label.redraw()
        self._notes.redraw()

    def _set_text(self, box: VisibleInput | VisibleTextArea | JsonArea, text: str) -> None:
        # The form gives back what the control told it. More may have been typed since, and must stay.
        if text == self._known_text:
            return
        self._known_text = text
        if not isinstance(box, JsonArea):
            box.set_text(text)
        elif box.text != text:
            box.text = text

    def show_problems(self, problems: Sequence[InputProblem], tried: bool) -> None:
        """Show what is wrong with the value. `tried` says whether the person tried to send the form
        already."""
        self._problems, self._tried = problems, tried
        self._notes.redraw()

    def _control(self) -> Widget | None:
        entry = self.entry
        text = entry.form_value.text if isinstance(entry.form_value, TextValue) else ""
        match entry.control:
            case Control.LINE | Control.SECRET:
                return VisibleInput(text, password=entry.control is Control.SECRET)
            case Control.AREA:
                return VisibleTextArea(text)
            case Control.JSON:
                return JsonArea(text, soft_wrap=True)
            case Control.CHOICE | Control.BRANCH:
                at = entry.form_value.at if isinstance(entry.form_value, ChoiceValue | UnionValue) else -1
                return ChoiceInput(self._option_labels(), at)
            case Control.ITEMS:
                return ItemCounter(self._count)
        return None

    def _count(self) -> int:
        return len(self.entry.form_value.items) if isinstance(self.entry.form_value, ArrayValue) else 0

    def _option_labels(self) -> Sequence[str]:
        field = self.entry.field
        branch = self.entry.control is Control.BRANCH
        return branch_labels(field) if branch else option_labels(field.options)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _on_text_changed(self, event: Message) -> None:
        event.stop()
        # The message may be old: more was typed, or another entry was set, since it was sent. So the text is
        # taken from the control.
        form_value = self.entry.form_value
        if not isinstance(form_value, TextValue):
            return
        text = self.control.text if isinstance(self.control, JsonArea) else ""
        if isinstance(self.control, VisibleInput | VisibleTextArea):
            text = self.control.plain
        if text != form_value.text:
            self._known_text = text
            self._edit(msgspec.structs.replace(form_value, text=text, explicit=False))

    @on(ChoiceInput.Changed)
    def _on_choice_changed(self, event: ChoiceInput.Changed) -> None:
        event.stop()
        self._choose(event.at)

    @on(ChoiceInput.ListRequested)
    def _on_list_requested(self, event: ChoiceInput.ListRequested) -> None:
        event.stop()

        def on_chosen(at: int | None) -> None:
            if at is not None:
                self._choose(at)

        at = self.entry.form_value.at if isinstance(self.entry.form_value, ChoiceValue | UnionValue) else -1
        self.app.push_screen(OptionListScreen(self.entry.label, self._option_labels(), at), on_chosen)

    @on(ItemCounter.Changed)
    def _on_count_changed(self, event: ItemCounter.Changed) -> None:
        event.stop()
        form_value, item = self.entry.form_value, self.entry.field.item
        if not isinstance(form_value, ArrayValue) or item is None:
            return
        if not event.more:
            self._edit(msgspec.structs.replace(form_value, items=form_value.items[:-1], explicit=False))
        elif len(form_value.items) < MAX_ITEMS:
            self._edit(msgspec.structs.replace(form_value, items=(*form_value.items, initial_value(item))))

    def _choose(self, at: int) -> None:
        if at == -1 and self.entry.control is Control.BRANCH and not self.entry.path:
            return  # the whole input cannot be left out
        branch = self.entry.control is Control.BRANCH
        self._edit(union_value(self.entry.field, at) if branch else ChoiceValue(at))

    def _edit(self, form_value: FormValue) -> None:
        self.post_message(self.Edited(self.entry.path, form_value))


class FieldList(VerticalScroll, can_focus=False):
    """The widgets of all fields. A field that stays keeps its widget, its cursor and the focus."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._field_widgets: dict[tuple[Path, Control], FieldWidget] = {}

    @on(events.DescendantFocus)
    def _show_focused(self) -> None:
        """Scroll to the label and the notes of the field that has the focus."""
        widget = self.focused()
        if widget is not None:
            self.call_after_refresh(widget.scroll_visible, animate=False)

    @property
    def field_widgets(self) -> Sequence[FieldWidget]:
        """The widgets from top to bottom."""
        return tuple(self._field_widgets.values())

    async def set_entries(self, entries: Sequence[LayoutEntry]) -> None:
        """Show these entries: remove widgets of fields that are gone, and mount new ones at their places."""
        old_widgets = self._field_widgets
        by_key = {(entry.path, entry.control): entry for entry in entries}
        await self.remove_children([widget for key, widget in old_widgets.items() if key not in by_key])
        self._field_widgets = {
            key: old_widgets.get(key) or FieldWidget(entry) for key, entry in by_key.items()
        }
        last: FieldWidget | None = None
        new: list[FieldWidget] = []
        for key, widget in self._field_widgets.items():
            if key not in old_widgets:
                new.append(widget)
                continue
            await self._mount(new, last)
            new, last = [], widget
            widget.set_entry(by_key[key])
        await self._mount(new, last)

    async def _mount(self, new: Sequence[FieldWidget], after: FieldWidget | None) -> None:
        if new and (after is not None or not self.children):
            await self.mount(*new, after=after)
        elif new:
            await self.mount(*new, before=0)

    def set_values(self, entries: Sequence[LayoutEntry]) -> None:
        """Show other values in the same fields."""
        for entry in entries:
            widget = self._field_widgets[entry.path, entry.control]
            if widget.entry != entry:
                widget.set_entry(entry)

    def show_problems(self, problems: Mapping[Path, Sequence[InputProblem]], tried: bool) -> None:
        """Show each problem below its field."""
        for widget in self.field_widgets:
            widget.show_problems(problems.get(widget.entry.path, ()), tried)
        self._show_focused()

    def focused(self) -> FieldWidget | None:
        """The widget whose control has the focus."""
        at = self.screen.focused
        return next(
            (widget for widget in self.field_widgets if at is not None and widget.control is at), None
        )

    def focus_on(self, path: Path) -> None:
        """Give the focus to the field at the path, or to the first one where there is none."""
        editable = [widget for widget in self.field_widgets if widget.control is not None]
        first = editable[0] if editable else None
        widget = next((widget for widget in editable if widget.entry.path == path), first)
        if widget is not None and widget.control is not None:
            self.screen.set_focus(widget.control)
