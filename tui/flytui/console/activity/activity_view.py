"""The Activity view: the list of calls, and the call under the cursor below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flycore.model.call import Activity
from flycore.model.enums import Phase
from flycore.model.errors import FlyError
from flytui.console.activity.call_lines import (
    TITLES,
    CallRow,
    call_columns,
    call_json,
    call_lines,
    matching_calls,
)
from flytui.console.activity.call_screen import CallScreen
from flytui.console.catalog.catalog_rows import Heading
from flytui.console.screens.base import PressAgainScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.filter_line import FilterLineView
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.alike import alike_call_key, call_time, fold_alike, toggled_fold
from flytui.text.call_facts import call_effect
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, truncated, wrapped

MIN_LINES_FOR_DETAILS = 26
"""From this height, in lines, the call under the cursor is shown below the list."""
_EMPTY = (
    "No calls yet.",
    "Calls of agents, of flytui call and of any other door run here, each with its caller and its outcome.",
    "",
)
TRY_TOOL = "file.hash"
_TRY = (
    "Try it from another terminal in this folder:",
    "",
    f"  flytui call {TRY_TOOL} path=tools/external.tools.jsonc",
)


class ActivityView(FilterLineView):
    """The list of calls. Running calls come first, then finished ones."""

    ACTIONS_OFF_WHILE_TYPING = ("filter", "cancel", "copy", "unfold")

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, priority=True, id="activity.filter"),
        Binding("escape", "clear", "Clear", show=False, id="activity.clear"),
        Binding("space", "unfold", "Unfold", show=False, id="activity.unfold"),
        Binding("k", "cancel", "Cancel", show=False, id="activity.cancel"),
        Binding("y", "copy", "Copy", show=False, id="activity.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("list.open", "details"),
        ("activity.filter", "filter"),
        ("activity.cancel", "cancel the call"),
        ("activity.copy", "copy"),
        ("activity.unfold", "unfold"),
    ]
    TYPING_KEYS: ClassVar[list[tuple[str, str]]] = [
        ("Enter", "keep the filter"),
        ("activity.clear", "clear it"),
    ]

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        self._list = CallList(id="call-rows")
        super().__init__(
            self._list,
            id=id,
            filter_id="activity-filter",
            placeholder="words, caller:claude tool:web today yesterday, !not this · Enter keeps · Esc clears",
        )
        self._state = state
        self._empty = LineView(self._empty_lines, id="calls-empty")
        self._titles = LineBar(self._title_lines, id="call-titles")
        self._details = LineView(self._detail_lines, id="call-below")
        self._details.can_focus = False
        self._details_key = ""
        self._match_count = 0
        self._effects: dict[str, tuple[str, str]] = {}
        """What each call does, with the input that says so, by call id."""
        self._unfolded: frozenset[str] = frozenset()

    def compose(self) -> ComposeResult:
        """Place the list and the call under its cursor, or the text for an empty list."""
        yield self.filter_input
        yield self._titles
        yield self._list
        yield self._details
        yield self._empty

    def on_mount(self) -> None:
        """Draw the calls that are known."""
        self.changed(frozenset((Topic.ACTIVITY,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show fresh values."""
        if Topic.CATALOG in topics:
            self._effects.clear()
            self._empty.rebuild()
        if not topics & {Topic.ACTIVITY, Topic.CATALOG}:
            return
        self.apply_filter()

    def apply_filter(self) -> None:
        """Show the calls that the filter lets through."""
        now = self._state.now()
        calls = matching_calls(self._state.activity, self.filter_text, now, self._effect)
        running = self._call_rows([call for call in calls if call.result is None], now)
        finished = self._call_rows([call for call in calls if call.result is not None], now)
        self._forget_effects()
        heading = [Heading("finished")] if running and finished else []
        self._match_count = len(calls)
        # Behind another view the cursor stays on the newest call, which a person comes to see. In sight it
        # stays on its call: a key that cancels must not mean another one.
        follows = not self.display and self._list.cursor == 0
        self._list.set_rows([*running, *heading, *finished], narrowed=bool(self.filter_text))
        if follows:
            self._list.action_edge(False)
        self._list.display = bool(calls)
        self._empty.display = not calls
        self._update_layout()
        self._empty.rebuild()

    def _effect(self, call: Activity) -> str:
        """What the call does. It is kept, because a filter asks for it on every key."""
        known = self._effects.get(call.call_id)
        if known is None or known[0] != call.input_text:
            known = (call.input_text, call_effect(self._state.catalog, call))
            self._effects[call.call_id] = known
        return known[1]

    def _forget_effects(self) -> None:
        """Drop the sentences of calls that are no longer in the list."""
        if len(self._effects) > 2 * len(self._state.activity):
            kept = {call.call_id for call in self._state.activity}
            self._effects = {name: known for name, known in self._effects.items() if name in kept}

    def _call_rows(self, calls: Sequence[Activity], now: float) -> list[CallRow]:
        """A row for each group of alike calls, or for each call of a group that is unfolded."""
        rows: list[CallRow] = []
        for group in fold_alike(calls, alike_call_key, call_time):
            ids = tuple(call.call_id for call in group)
            if len(group) > 1 and self._unfolded.isdisjoint(ids):
                rows.append(CallRow(group[0], now, self._effect(group[0]), ids, len(group)))
            else:
                rows += [CallRow(call, now, self._effect(call), ids) for call in group]
        return rows

    def action_unfold(self) -> None:
        """Show each of the alike calls under the cursor in a row of its own, or all of them in one."""
        row = self._list.row
        if isinstance(row, CallRow):
            self._unfolded = toggled_fold(self._unfolded, row.group)
            self.apply_filter()

    def on_resize(self) -> None:
        """Show the call under the cursor where there is room."""
        self._update_layout()

    def _update_layout(self) -> None:
        self._details.display = self._match_count > 0 and self.size.height >= MIN_LINES_FOR_DETAILS
        self._titles.redraw()

    @on(VirtualList.Moved)
    def _on_cursor_moved(self) -> None:
        self._details.rebuild()
        row = self._list.row
        key = row.key if row else ""
        if key != self._details_key:
            self._details_key = key
            self._details.scroll_to(y=0, animate=False)

    def _detail_lines(self, width: int) -> Sequence[StyledLine]:
        row = self._list.row
        return call_lines(row.call, self._state.now(), width) if isinstance(row, CallRow) else []

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        if not self._match_count:
            return []
        titles: dict[str, StyledLine] = {name: (span(title, Tone.DIM),) for name, title in TITLES.items()}
        rows = [truncated((StyledText("  "), *call_columns(titles, width - 3)), width)]
        if self.filter_text and not self.typing:
            count = f"{self._match_count} of {len(self._state.activity)} calls"
            words = f" {count} · filter: {self.filter_text} · Esc clears"
            rows.insert(0, truncated(line(span(words, Tone.ACCENT)), width))
        return rows

    def focus_here(self) -> None:
        """Give the keys to the list."""
        self.screen.set_focus(self._list)

    def filter_line_toggled(self) -> None:
        """Draw the titles again: they name the filter while its line is closed."""
        self._titles.redraw()

    def action_copy(self) -> None:
        """Copy the call under the cursor to the terminal's clipboard, as JSON."""
        row = self._list.row
        if isinstance(row, CallRow):
            self.app.copy_to_clipboard(call_json(row.call))
            self._show_notice("the call was copied as JSON")

    def action_cancel(self) -> None:
        """Ask the person, then end the call and its whole process tree."""
        row = self._list.row
        if not isinstance(row, CallRow):
            return
        call = row.call
        if call.result is not None:
            self._show_notice(f"{call.tool} has ended already")
            return

        def on_answer(confirmed: bool | None) -> None:
            if confirmed:
                self.run_worker(self._cancel_call(call), group="cancel")

        started = call.phase is Phase.RUNNING
        state = "Its processes end; it may be half done." if started else "It has not started."
        question = (f"Cancel {call.tool}?", f"{call.caller} asked for it. {state}")
        keys = self._state.keys.keys_for("activity.cancel")
        self.app.push_screen(
            PressAgainScreen(keys, question, "cancels the call", "leaves it running"), on_answer
        )

    async def _cancel_call(self, call: Activity) -> None:
        try:
            ended = await self._state.client.cancel(call.call_id)
        except FlyError as error:
            self._show_notice(f"not cancelled: {error}")
        else:
            self._show_notice(f"{call.tool} {'cancelled' if ended else 'had ended already'}")

    def _show_notice(self, notice: str) -> None:
        self._state.shared.notice = notice
        self.post_message(LineBar.Stale())

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self._list.row
        if not isinstance(row, CallRow):
            return
        self.app.push_screen(CallScreen(self._state, row.call))

    def tick(self) -> None:
        """Draw the elapsed times again of calls that run."""
        if self.display and any(call.result is None for call in self._state.activity):
            self.changed(frozenset((Topic.ACTIVITY,)))

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        if self._state.activity:
            nothing = line(span(f" No call matches: {self.filter_text}"))
            return [(), *wrapped([nothing, line(span(" Esc clears the filter", Tone.DIM))], width, 1)]
        texts = (*_EMPTY, *(_TRY if self._state.offers(TRY_TOOL) else ()))
        return [(), *wrapped([line(span(f" {text}")) for text in texts], width, 1)]


class CallList(VirtualList, inherit_bindings=False):
    """The list of calls. Its `k` cancels a call and does not move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False, id="list.up"),
        *(binding for binding in VirtualList.BINDINGS[1:]),
    ]
