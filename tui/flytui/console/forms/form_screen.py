"""A form, whose fields are made from a schema, or which is written as JSON; and the form of a test call.

The form of a test call decides nothing: the call goes through the same steps as any caller's. Functions that
draw the lines around the fields come first, the screens below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea

from flycore.model.catalog import CapabilityView
from flycore.model.enums import Effective
from flycore.model.json import JsonObject
from flytui.console.forms.call_page import start_test_call
from flytui.console.forms.field_widget import FieldList, FieldWidget
from flytui.console.forms.json_editor import JsonArea, json_text
from flytui.console.forms.layout import (
    MAX_ENTRIES,
    LayoutEntry,
    layout_entries,
    layout_shape,
    problems_by_entry,
)
from flytui.console.forms.schema_fields import FieldKind, schema_fields
from flytui.console.forms.validate import FormResult, InputProblem, read_form, read_json, value_for
from flytui.console.forms.values import (
    ArrayValue,
    FormValue,
    ObjectValue,
    UnionValue,
    initial_value,
    value_at,
    with_item_added_or_removed,
    with_value_at,
)
from flytui.console.screens.base import ScreenTraits
from flytui.console.screens.header import alert_lines, header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar
from flytui.text.labels import STATE_LABELS, label_span, plural
from flytui.text.lines import StyledLine, StyledText, Tone, keys_fitting, line, span, truncated, wrap

MAX_PROBLEMS = 4
"""Problems listed below a form; further ones are only counted."""


def tool_lines(view: CapabilityView, raw: bool, width: int) -> list[StyledLine]:
    """The lines above a form: the tool, its state, and what policy says about it."""
    tool, stability = view.capability, view.stability
    policy = span(f"  policy {view.decision}" if view.decision else "", Tone.DIM)
    rows = [
        truncated(
            line(
                StyledText(" "),
                span(tool.name, Tone.STRONG),
                StyledText("  "),
                label_span(STATE_LABELS[stability.effective]),
                policy,
            ),
            width,
        )
    ]
    words = "exactly what is sent, as JSON" if raw else tool.summary
    rows += wrap(line(span(f" {words}", Tone.DIM)), width, 1)[:2]
    if stability.effective not in (Effective.AVAILABLE, Effective.DEGRADED):
        reasons = [f" {reason.message}" for reason in stability.reasons[:1]]
        rows += [row for text in reasons for row in wrap(line(span(text, Tone.WARN)), width, 1)[:2]]
    return rows


def problem_count(result: FormResult) -> str:
    """The number of problems, as in `2 problems, 1 required field empty`."""
    missing = sum(problem.missing for problem in result.problems)
    wrong = len(result.problems) - missing
    words = [plural(wrong, "problem")] if wrong else []
    words += [f"{plural(missing, 'required field')} empty"] if missing else []
    return ", ".join(words)


def problem_lines(result: FormResult, nowhere: Sequence[InputProblem], width: int) -> list[StyledLine]:
    """The lines below a form: the problems that belong to no field, then whether the input fits."""
    rows: list[StyledLine] = []
    for problem in nowhere[:MAX_PROBLEMS]:
        where = f"{problem.pointer}: " if problem.pointer else ""
        rows += wrap(line(span(f" ✗ {where}{problem.message}", Tone.WARN)), width, 3)[:3]
    if len(nowhere) > MAX_PROBLEMS:
        rows.append(line(span(f" and {len(nowhere) - MAX_PROBLEMS} more", Tone.WARN)))
    if result.broken is not None:
        state = span(" ✗ nothing can be sent yet", Tone.WARN)
    elif result.problems:
        only_missing = all(problem.missing for problem in result.problems)
        mark, tone = ("◌", Tone.DIM) if only_missing else ("✗", Tone.WARN)
        state = span(f" {mark} {problem_count(result)}", tone)
    else:
        state = span(" ✓ the input fits", Tone.GOOD)
    return [*rows, line(state)]


def key_pairs(
    result: FormResult, raw: bool, json_only: bool, in_array: bool, *, calls: bool
) -> list[tuple[str, str]]:
    """The ids and labels of the keys that do something now, the most needed first. `calls`: the form is that
    of a test call."""
    insist = calls and bool(result.problems) and result.broken is None
    return [
        ("form.send", "call the tool" if calls else "send the answer"),
        *([("form.insist", "call all the same")] if insist else []),
        ("form.leave", "back"),
        *([] if json_only else [("form.json", "fields" if raw else "JSON")]),
        *([("form.example", "example")] if calls else []),
        *([("form.add", "add item"), ("form.remove", "take it out")] if in_array else []),
        *([] if raw else [("Tab", "next field")]),
    ]


class FormScreen(ScreenTraits, Screen[Any]):
    """A form in which a person writes values that fit a schema. A subclass says what is above the fields
    (`_top`) and what becomes of the values (`_submit`)."""

    closes_for_view = True
    has_fields = True
    DEFAULT_CSS = """
    FormScreen #form { height: 1fr; padding: 0 1; }
    FormScreen #form-json { height: 1fr; border: none; padding: 0 1; background: $panel; }
    FormScreen #form-json:focus { border: none; }
    FormScreen #form-top, FormScreen #form-foot { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False, priority=True, id="form.leave"),
        Binding("f5,ctrl+s", "send", "Call", show=False, priority=True, id="form.send"),
        Binding("f6", "insist", "Call all the same", show=False, priority=True, id="form.insist"),
        Binding("f2", "json", "JSON", show=False, priority=True, id="form.json"),
        Binding("f3", "example", "Example", show=False, priority=True, id="form.example"),
        Binding("f7", "item(True)", "Add item", show=False, priority=True, id="form.add"),
        Binding("f8", "item(False)", "Remove item", show=False, priority=True, id="form.remove"),
    ]

    HEADING: ClassVar[str]
    CALLS: ClassVar[bool] = False
    """Whether the values are the input of a call, which may be sent although they do not fit."""

    def __init__(self, state: ConsoleState, schema: JsonObject) -> None:
        super().__init__()
        self._state = state
        self._schema = schema
        self._field = schema_fields(self._schema)
        self._form_value: FormValue = initial_value(self._field)
        self._entries: Sequence[LayoutEntry] = ()
        self._result = FormResult({})
        self._as_json = False
        self._send_attempted = False
        self._body = FieldList(id="form")
        self._area = JsonArea("", id="form-json", soft_wrap=True)

    def compose(self) -> ComposeResult:
        """Place the header, what the form is for, its fields or its JSON, the problems, alerts and keys."""
        yield LineBar(lambda width: header_lines(self._state, self.HEADING, width), id="header")
        yield LineBar(self._top, id="form-top")
        yield self._body
        yield self._area
        yield LineBar(self._foot, id="form-foot")
        yield LineBar(lambda width: alert_lines(self._state, width), id="alert")
        yield LineBar(self._keys, id="keys")

    async def on_mount(self) -> None:
        """Start with the values that were written here last."""
        last = self._last_values()
        if last is not None:
            await self._load_input(last)
        elif self._field.kind is FieldKind.JSON:
            await self._load_input({})
        else:
            await self._show_value(self._form_value)
        self._focus_first()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show fresh values around the form. What the person wrote stays."""
        self._redraw()

    @on(FieldWidget.Edited)
    async def _on_field_edited(self, event: FieldWidget.Edited) -> None:
        event.stop()
        if value_at(self._form_value, event.path) is not None:
            await self._show_value(with_value_at(self._form_value, event.path, event.form_value))

    @on(TextArea.Changed, "#form-json")
    def _on_json_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._as_json:
            self._result = read_json(self._area.text, self._schema)
            self._redraw()

    @on(Input.Submitted)
    def _on_line_submitted(self, event: Input.Submitted) -> None:
        """Move to the next field: Enter sends nothing."""
        event.stop()
        self.focus_next()

    @on(events.DescendantFocus)
    def _on_focus_moved(self) -> None:
        self._redraw()

    def action_leave(self) -> None:
        """Leave the form without sending anything."""
        self.dismiss()

    def action_send(self) -> None:
        """Send the values, if they fit."""
        if self._result.problems and not self._result.broken:
            self._send_attempted = True
            self._show()
            self._to_first_problem()
            key = self._state.keys.label("form.insist")
            more = f". {key} sends it all the same" if self.CALLS else ""
            self._show_notice(f"not sent: {problem_count(self._result)}{more}")
        else:
            self._send()

    def action_insist(self) -> None:
        """Send the values even if they do not fit, where that is possible. The kernel checks them as
        always."""
        if self.CALLS:
            self._send()

    def _send(self) -> None:
        broken = self._result.broken
        if broken is None:
            self._submit(self._result.input)
            return
        self._send_attempted = True
        self._show()
        self._to_first_problem()
        self._show_notice(f"there is nothing to send: {broken.pointer} {broken.message}")

    def _last_values(self) -> JsonObject | None:
        return None

    def _submit(self, values: JsonObject) -> None:
        raise NotImplementedError

    async def action_json(self) -> None:
        """Show the exact input that is sent as JSON, or go back to the fields."""
        broken = self._result.broken
        if broken is not None:
            self._show_notice(f"first: {broken.pointer} {broken.message}")
        elif not self._as_json:
            self._show_json(self._result.input)
        elif not await self._load_input(self._result.input):
            self._show_notice("this input does not fit the fields, so it stays JSON")
        self._focus_first()

    async def action_example(self) -> None:
        """Show an example, where the form has some."""

    async def action_item(self, more: bool) -> None:
        """Add an item after the one with the focus, or remove that one."""
        widget = None if self._as_json else self._body.focused()
        found = with_item_added_or_removed(
            self._field, self._form_value, widget.entry.path if widget else (), more
        )
        if found is None:
            self._show_notice("no item of an array has the focus")
        else:
            form_value, path = found
            await self._show_value(form_value)
            self._body.focus_on(path)

    async def _load_input(self, value: JsonObject) -> bool:
        """Show an input in the fields where it fits, otherwise as JSON. Returns whether it is in the
        fields."""
        form_value = value_for(self._field, value)
        drawn = (
            isinstance(form_value, ObjectValue | UnionValue)
            and len(layout_entries(self._field, form_value)) <= MAX_ENTRIES
        )
        if drawn:
            self._as_json = False
            await self._show_value(form_value)
        else:
            self._show_json(value)
        return drawn

    def _show_json(self, value: JsonObject) -> None:
        self._as_json = True
        self._area.text = json_text(value)
        self._result = read_json(self._area.text, self._schema)
        self._show()

    async def _show_value(self, form_value: FormValue) -> None:
        """Show a value in the fields. Widgets are mounted or removed only where fields come or go."""
        entries = layout_entries(self._field, form_value)
        if len(entries) > MAX_ENTRIES:
            self._show_notice("more fields than can be drawn: write it as JSON")
            return
        same = layout_shape(entries) == layout_shape(self._entries)
        self._form_value, self._entries = form_value, entries
        self._result = read_form(self._field, form_value, self._schema)
        if same:
            self._body.set_values(entries)
        else:
            await self._body.set_entries(entries)
        self._show()

    def _show(self) -> None:
        self._body.display = not self._as_json
        self._area.display = self._as_json
        at, _ = problems_by_entry(self._entries, self._result.problems)
        if not self._as_json:
            self._body.show_problems(at, self._send_attempted)
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query("FormScreen > LineBar").results(LineBar):
            bar.redraw()

    def _focus_first(self) -> None:
        if self._as_json:
            self.set_focus(self._area)
        else:
            self._body.focus_on(())

    def _to_first_problem(self) -> None:
        at, _ = problems_by_entry(self._entries, self._result.problems)
        path = next((entry.path for entry in self._entries if entry.path in at), None)
        if path is not None and not self._as_json:
            self._body.focus_on(path)

    def _show_notice(self, notice: str) -> None:
        self._state.shared.notice = notice
        self._redraw()

    def _top(self, width: int) -> Sequence[StyledLine]:
        raise NotImplementedError

    def _foot(self, width: int) -> Sequence[StyledLine]:
        _, nowhere = problems_by_entry(self._entries, self._result.problems)
        return problem_lines(self._result, self._result.problems if self._as_json else nowhere, width)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        widget = None if self._as_json else self._body.focused()
        path = widget.entry.path if widget else ()
        in_array = any(
            isinstance(value_at(self._form_value, path[:length]), ArrayValue)
            for length in range(1, len(path) + 1)
        )
        json_only = self._field.kind is FieldKind.JSON
        pairs = key_pairs(self._result, self._as_json, json_only, in_array, calls=self.CALLS)
        return [keys_fitting(self._state.keys.hints(pairs), width)]


class ToolFormScreen(FormScreen):
    """The form in which a person writes the input of one tool and calls it."""

    HEADING = "Test call"
    CALLS = True

    def __init__(self, state: ConsoleState, view: CapabilityView) -> None:
        super().__init__(state, view.capability.input_schema)
        self._view = view
        self._sent = False
        self._example = -1

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show fresh values around the form. What the person wrote stays."""
        catalog = self._state.catalog
        view = catalog.capability(self._view.capability.name) if catalog else None
        self._view = view or self._view
        self._redraw()

    def on_unmount(self) -> None:
        """Keep what was written, however the form was left: it is there again the next time."""
        if self._result.broken is None:
            self._state.inputs[self._view.capability.name] = self._result.input

    async def action_example(self) -> None:
        """Show the next example that the tool brings; after the last one an empty form."""
        examples = self._view.capability.examples
        self._send_attempted = False
        self._example += 1
        if self._example < len(examples):
            await self._load_input(examples[self._example])
            self._show_notice(f"example {self._example + 1} of {len(examples)}")
        else:
            self._example = -1
            empty = read_form(self._field, initial_value(self._field), self._schema).input
            await (
                self._load_input(empty)
                if self._field.kind is FieldKind.JSON
                else self._show_value(initial_value(self._field))
            )
            self._show_notice("an empty form" if examples else "the tool has no examples: an empty form")
        self._focus_first()

    def _last_values(self) -> JsonObject | None:
        return self._state.inputs.get(self._view.capability.name)

    def _submit(self, values: JsonObject) -> None:
        # A second press of the key can come before the page replaces the form. It must not call twice.
        if self._sent:
            return
        self._sent = True
        state, view = self._state, self._view
        page = start_test_call(
            self.app, state, view.capability.name, values, lambda: ToolFormScreen(state, view)
        )
        self.app.switch_screen(page)

    def _top(self, width: int) -> Sequence[StyledLine]:
        return tool_lines(self._view, self._as_json, width)
