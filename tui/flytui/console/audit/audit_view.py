"""The Audit screen: the log as it grows, newest last, with its state on top."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import anyio
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from flycore.client.audit_reader import parse_record
from flycore.model.audit import Verification
from flytui.console.audit.log_lines import (
    COLUMN_TITLES,
    AuditRow,
    AuditRows,
    LineBuffer,
    audit_columns,
    empty_lines,
    fields_lines,
    matching_places,
    prompt_load_lines,
    verification_lines,
)
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.text_input import FilterInput
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, StyledText, Tone, span, truncated

MAX_LINES_ON_LOOP = 2_000
"""Lines that the filter looks through on the loop."""
POLL_SECONDS = 1.0
"""Between two looks at a log of which no event has told."""


class AuditView(Vertical):
    """Reads nothing before it is shown for the first time; then follows the log while it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, priority=True, id="audit.filter"),
        Binding("escape", "clear", "Clear", show=False, id="audit.clear"),
        Binding("f", "fatigue", "How much you are asked", show=False, id="audit.fatigue"),
        Binding("v", "verify", "Check again", show=False, id="audit.verify"),
        Binding("y", "copy", "Copy", show=False, id="audit.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("list.open", "the whole line"),
        ("audit.filter", "filter"),
        ("audit.fatigue", "how much you are asked"),
        ("audit.verify", "check again"),
        ("audit.copy", "copy"),
    ]
    TYPING_KEYS: ClassVar[list[tuple[str, str]]] = [("Enter", "keep the filter"), ("audit.clear", "clear it")]

    def __init__(self, desk: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._buffer = LineBuffer()
        self._matches: list[int] | None = None
        self._filter = ""
        self._opened = self._reading = self._checking = False
        self._again = self._read_once = False
        self._verification: Verification | None = None
        self._box = FilterInput(
            id="audit-filter",
            placeholder="words that must all occur, !word must not · Enter keeps · Esc clears",
            select_on_focus=False,
        )
        self._state = LineBar(self._state_lines, id="audit-state")
        self._titles = LineBar(self._title_lines, id="audit-titles")
        self._list = VirtualList(id="audit-rows")
        self._empty = LineView(self._empty_lines, id="audit-empty")

    def compose(self) -> ComposeResult:
        """Filter line, state, column titles, lines."""
        yield self._box
        yield self._state
        yield self._titles
        yield self._list
        yield self._empty

    def on_mount(self) -> None:
        """Start without the filter line."""
        self._box.display = False
        self.set_interval(POLL_SECONDS, self._poll)
        self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Something happened, so the log has grown."""
        if topics:
            self._poll()

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.screen.set_focus(self._list)
        if not self._opened:
            self._opened = True
            self.action_verify()
        self._poll()

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.screen.focused is self._box

    def _poll(self) -> None:
        if not self._opened or not self.display or self._desk.audit_reader is None:
            return
        if self._reading:
            self._again = True
            return
        self._reading = True
        self.run_worker(self._read(), group="audit-read")

    async def _read(self) -> None:
        """Take in what has come; once more where something came meanwhile."""
        ledger = self._desk.audit_reader
        try:
            while ledger is not None:
                self._again = False
                fresh = await ledger.read_new()
                if fresh.replaced:
                    self._buffer, self._matches = LineBuffer(), [] if self._filter else None
                first, self._read_once = not self._read_once, True
                self._buffer.dropped += fresh.skipped
                if fresh.lines or fresh.replaced or first:
                    self._append(fresh.lines)
                if not self._again:
                    break
        except OSError as error:
            self._show_notice(f"the log cannot be read: {error.strerror}")
        finally:
            self._reading = False

    def _append(self, lines: Sequence[bytes]) -> None:
        """New lines at the end; a cursor that stands on the last line stays on the last."""
        shelf, before = self._buffer, self._buffer.dropped
        tail = self._list.cursor >= self._list.row_count - 1
        shelf.add(lines)
        count, gone = len(shelf.lines), shelf.dropped - before
        if self._matches is not None and len(lines) <= MAX_LINES_ON_LOOP:
            kept = [place - gone for place in self._matches if place >= gone]
            start = max(0, count - len(lines))
            self._matches = [*kept, *matching_places(shelf.lines, self._filter, start, count)]
        elif self._matches is not None:
            self.run_worker(self._apply_filter(self._filter), group="audit-choose", exclusive=True)
        self._show()
        if tail:
            self._list.action_edge(True)

    def _show(self) -> None:
        shelf = self._buffer
        rows = AuditRows(shelf.lines, shelf.dropped, self._matches)
        self._list.set_rows(rows, narrowed=bool(self._filter))
        self._list.display, self._empty.display = bool(rows), not rows
        self._empty.rebuild()
        self._state.redraw()
        self._titles.redraw()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _on_focus_moved(self) -> None:
        self.post_message(LineBar.Stale())

    @on(Input.Changed, "#audit-filter")
    def _on_filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._filter = event.value.strip()
        self.run_worker(self._apply_filter(self._filter), group="audit-choose", exclusive=True)

    async def _apply_filter(self, words: str) -> None:
        """Look through all lines, beside the loop."""
        shelf, dropped, count = self._buffer, self._buffer.dropped, len(self._buffer.lines)
        found: list[int] = []
        if words:
            found = await anyio.to_thread.run_sync(matching_places, shelf.lines, words, 0, count)
        if words != self._filter or shelf is not self._buffer:
            return
        gone = shelf.dropped - dropped
        kept = [place - gone for place in found if place >= gone]
        since = matching_places(shelf.lines, words, max(0, count - gone), len(shelf.lines)) if words else []
        self._matches = [*kept, *since] if words else None
        self._show()
        if words:
            self._list.action_edge(True)

    @on(Input.Submitted, "#audit-filter")
    def _on_filter_submitted(self) -> None:
        self._box.display = False
        self.screen.set_focus(self._list)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter line letters are text."""
        return not (self.typing and action in ("filter", "fatigue", "verify", "copy"))

    def action_filter(self) -> None:
        """Write words that lines must hold; the focus moves before the next key is looked at."""
        self._box.display = True
        self.screen.set_focus(self._box)

    def action_clear(self) -> None:
        """No filter."""
        self._box.value = ""
        self._box.display = False
        self.screen.set_focus(self._list)

    def action_verify(self) -> None:
        """Check the chain from its beginning, beside the loop."""
        if not self._checking and self._desk.audit_reader is not None:
            self._checking = True
            self._state.redraw()
            self.run_worker(self._verify(), group="audit-verify")

    async def _verify(self) -> None:
        ledger = self._desk.audit_reader
        try:
            self._verification = await ledger.verify() if ledger is not None else None
        finally:
            self._checking = False
            self._state.redraw()

    def action_fatigue(self) -> None:
        """Whether a person is asked too much."""
        self.run_worker(self._show_prompt_load(), group="audit-fatigue", exclusive=True)

    async def _show_prompt_load(self) -> None:
        if self._desk.audit_reader is None:
            return
        try:
            report = await self._desk.audit_reader.approval_report()
        except OSError as error:
            self._show_notice(f"the log cannot be read: {error.strerror}")
            return
        title = "How much you are asked"
        self.app.push_screen(PageScreen(self._desk, title, lambda width: prompt_load_lines(report, width)))

    def action_copy(self) -> None:
        """This line as JSON, to the terminal's clipboard."""
        row = self._list.row
        if isinstance(row, AuditRow):
            self.app.copy_to_clipboard(_as_json(row))
            self._show_notice("the line was sent as JSON to the terminal's clipboard")

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self._list.row
        if isinstance(row, AuditRow):
            page = PageScreen(
                self._desk,
                f"Line {parse_record(row.raw).get('seq', '?')}",
                lambda width: fields_lines(row.raw, width),
                copy=lambda: _as_json(row),
            )
            self.app.push_screen(page)

    def _show_notice(self, notice: str) -> None:
        self._desk.notice = notice
        self.post_message(LineBar.Stale())

    def _state_lines(self, width: int) -> Sequence[StyledLine]:
        shelf = self._buffer
        count = len(shelf.lines) if self._matches is None else len(self._matches)
        kept = f", {shelf.dropped:,} older ones not shown" if shelf.dropped else ""
        return verification_lines(self._verification, self._checking, count, kept, width)

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return empty_lines(known=self._read_once, filtered=bool(self._filter))

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        cells = [span(title, Tone.DIM) for title in COLUMN_TITLES[:-1]]
        return [
            truncated((StyledText("  "), *audit_columns(cells), span(COLUMN_TITLES[-1], Tone.DIM)), width)
        ]


def _as_json(row: AuditRow) -> str:
    return json.dumps(parse_record(row.raw), indent=2)
