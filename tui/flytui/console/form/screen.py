"""The test-call form: fields made from the input schema, or the same input as JSON. F5 calls the tool.

It holds no decision: the call goes the way of every caller's. The form is left before anything is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea

from flycore.model.catalog import CapabilityView
from flycore.model.json import JsonObject
from flytui.console.approvals.edit import JsonArea, json_text
from flytui.console.desk import Desk, Topic
from flytui.console.form.block import FieldWidget, FieldList
from flytui.console.form.drafts import FormValue, ObjectValue, ArrayValue, Way, value_at, fresh, put
from flytui.console.form.entries import MAX_ENTRIES, Entry, layout_entries, placed, layout_shape
from flytui.console.form.fields import Kind, schema_fields
from flytui.console.form.items import with_item_added_or_removed
from flytui.console.form.outcome import begin_call
from flytui.console.form.reading import FormResult, value_for, read_form, read_json
from flytui.console.form.showing import problem_count, foot_lines, key_pairs, tool_lines
from flytui.console.header import alert_lines, header_lines
from flytui.console.paint import Line, keys_fitting
from flytui.console.screens.traits import ScreenTraits
from flytui.console.views import LineBar


class FormScreen(ScreenTraits, Screen[None]):
    """One tool's input, to be written and sent."""

    closes_for_view = True
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

    def __init__(self, desk: Desk, view: CapabilityView) -> None:
        super().__init__()
        self._desk = desk
        self._view = view
        self._schema = view.capability.input_schema
        self._field = schema_fields(self._schema)
        self._draft: FormValue = fresh(self._field)
        self._entries: Sequence[Entry] = ()
        self._reading = FormResult({})
        self._raw = False
        self._tried = self._sent = False
        self._example = -1
        self._body = FieldList(id="form")
        self._area = JsonArea("", id="form-json", soft_wrap=True)

    def compose(self) -> ComposeResult:
        """Header, the tool, its fields or its JSON, what is wrong, what waits, keys."""
        yield LineBar(lambda width: header_lines(self._desk, "Test call", width), id="header")
        yield LineBar(self._top, id="form-top")
        yield self._body
        yield self._area
        yield LineBar(self._foot, id="form-foot")
        yield LineBar(lambda width: alert_lines(self._desk, width), id="alert")
        yield LineBar(self._keys, id="keys")

    async def on_mount(self) -> None:
        """Start with what was written here last."""
        last = self._desk.inputs.get(self._view.capability.name)
        if last is not None:
            await self._load(last)
        elif self._field.kind is Kind.JSON:
            await self._load({})
        else:
            await self._fill(self._draft)
        self._focus_first()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show fresh values round the form; what the person writes stays."""
        catalog = self._desk.catalog
        view = catalog.capability(self._view.capability.name) if catalog else None
        self._view = view or self._view
        self._redraw()

    @on(FieldWidget.Edited)
    async def _edited(self, event: FieldWidget.Edited) -> None:
        event.stop()
        if value_at(self._draft, event.path) is not None:
            await self._fill(put(self._draft, event.path, event.draft))

    @on(TextArea.Changed, "#form-json")
    def _json_written(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._raw:
            self._reading = read_json(self._area.text, self._schema)
            self._redraw()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        """Enter sends nothing: it goes to the next field."""
        event.stop()
        self.focus_next()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self._redraw()

    def action_leave(self) -> None:
        """Back; what was written is there again the next time."""
        self.dismiss()

    def on_unmount(self) -> None:
        """However the form was left, what was written is kept."""
        if self._reading.broken is None:
            self._desk.inputs[self._view.capability.name] = self._reading.input

    def action_send(self) -> None:
        """Call the tool, where the input fits."""
        if self._reading.problems and not self._reading.broken:
            self._tried = True
            self._show()
            self._to_first_problem()
            key = self._desk.keys.shown("form.insist")
            self._say(f"not sent: {problem_count(self._reading)}. {key} sends it all the same")
        else:
            self.action_insist()

    def action_insist(self) -> None:
        """Call the tool with what stands here; the kernel says what it thinks of it."""
        broken = self._reading.broken
        if broken is not None:
            self._tried = True
            self._show()
            self._to_first_problem()
            self._say(f"there is nothing to send: {broken.pointer} {broken.message}")
        elif not self._sent:
            self._sent = True
            desk, view = self._desk, self._view
            page = begin_call(
                self.app, desk, view.capability.name, self._reading.input, lambda: FormScreen(desk, view)
            )
            self.app.switch_screen(page)

    async def action_json(self) -> None:
        """The input as JSON, exactly what is sent; or back to its fields."""
        broken = self._reading.broken
        if broken is not None:
            self._say(f"first: {broken.pointer} {broken.message}")
        elif not self._raw:
            self._write(self._reading.input)
        elif not await self._load(self._reading.input):
            self._say("this input has no place in the fields: it stays JSON")
        self._focus_first()

    async def action_example(self) -> None:
        """The next example of the tool's own; after the last one an empty form."""
        examples = self._view.capability.examples
        self._tried = False
        self._example += 1
        if self._example < len(examples):
            await self._load(examples[self._example])
            self._say(f"example {self._example + 1} of {len(examples)}")
        else:
            self._example = -1
            empty = read_form(self._field, fresh(self._field), self._schema).input
            await (self._load(empty) if self._field.kind is Kind.JSON else self._fill(fresh(self._field)))
            self._say("an empty form" if examples else "the tool has no examples: an empty form")
        self._focus_first()

    async def action_item(self, more: bool) -> None:
        """An item more after the one that keys go to, or without it."""
        block = None if self._raw else self._body.focused()
        found = with_item_added_or_removed(self._field, self._draft, block.entry.path if block else (), more)
        if found is None:
            self._say("keys go to no item of an array")
        else:
            draft, path = found
            await self._fill(draft)
            self._body.focus_on(path)

    async def _load(self, value: JsonObject) -> bool:
        """Show an input: in the fields where they hold it, else as JSON. Whether it is in the fields."""
        draft = value_for(self._field, value)
        drawn = (
            isinstance(draft, ObjectValue | Way) and len(layout_entries(self._field, draft)) <= MAX_ENTRIES
        )
        if drawn:
            self._raw = False
            await self._fill(draft)
        else:
            self._write(value)
        return drawn

    def _write(self, value: JsonObject) -> None:
        self._raw = True
        self._area.text = json_text(value)
        self._reading = read_json(self._area.text, self._schema)
        self._show()

    async def _fill(self, draft: FormValue) -> None:
        """Take what stands in the fields; widgets come and go only where the fields do."""
        entries = layout_entries(self._field, draft)
        if len(entries) > MAX_ENTRIES:
            self._say("more fields than can be drawn: write it as JSON")
            return
        same = layout_shape(entries) == layout_shape(self._entries)
        self._draft, self._entries = draft, entries
        self._reading = read_form(self._field, draft, self._schema)
        if same:
            self._body.take(entries)
        else:
            await self._body.set_entries(entries)
        self._show()

    def _show(self) -> None:
        self._body.display = not self._raw
        self._area.display = self._raw
        at, _ = placed(self._entries, self._reading.problems)
        if not self._raw:
            self._body.say(at, self._tried)
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query("FormScreen > Bar").results(LineBar):
            bar.redraw()

    def _focus_first(self) -> None:
        if self._raw:
            self.set_focus(self._area)
        else:
            self._body.focus_on(())

    def _to_first_problem(self) -> None:
        at, _ = placed(self._entries, self._reading.problems)
        path = next((entry.path for entry in self._entries if entry.path in at), None)
        if path is not None and not self._raw:
            self._body.focus_on(path)

    def _say(self, notice: str) -> None:
        self._desk.notice = notice
        self._redraw()

    def _top(self, width: int) -> Sequence[Line]:
        return tool_lines(self._view, self._raw, width)

    def _foot(self, width: int) -> Sequence[Line]:
        _, nowhere = placed(self._entries, self._reading.problems)
        return foot_lines(self._reading, self._reading.problems if self._raw else nowhere, width)

    def _keys(self, width: int) -> Sequence[Line]:
        block = None if self._raw else self._body.focused()
        path = block.entry.path if block else ()
        in_array = any(
            isinstance(value_at(self._draft, path[:length]), ArrayValue) for length in range(1, len(path) + 1)
        )
        json_only = self._field.kind is Kind.JSON
        pairs = key_pairs(self._reading, self._raw, json_only, in_array)
        return [keys_fitting(self._desk.keys.hints(pairs), width)]
