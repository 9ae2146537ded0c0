"""The Audit screen shows the log as it grows, newest line last, and above it whether the log is whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import anyio
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flycore.client.audit_reader import parse_record
from flycore.model.audit import Verification
from flytui.console.audit.audit_rows import (
    TITLES,
    AuditRow,
    AuditRows,
    LineBuffer,
    RowPlaces,
    audit_columns,
    matching_places,
)
from flytui.console.audit.log_lines import empty_lines, prompt_load_lines, row_lines, verification_lines
from flytui.console.screens.base import PageScreen, run_latest
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.filter_line import FilterLineView
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, StyledText, Tone, span, truncated
from flytui.text.record_filter import RecordFilter, parse_record_filter

MAX_LINES_ON_LOOP = 2_000
"""New lines that the filter searches on the event loop. More of them are searched in a thread, so that keys
do not wait."""


class AuditView(FilterLineView):
    """The lines of the log. It reads nothing before it is shown for the first time, and follows the log while
    it is shown."""

    ACTIONS_OFF_WHILE_TYPING = ("filter", "fatigue", "verify", "copy")

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

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        self._list = VirtualList(id="audit-rows")
        super().__init__(
            self._list,
            id=id,
            filter_id="audit-filter",
            placeholder="words, caller:claude tool:web today yesterday, !not this · Enter keeps · Esc clears",
        )
        self._state = state
        self._buffer = LineBuffer()
        self._places = RowPlaces()
        """The lines that are shown: all of them, or those that the filter lets through."""
        self._opened = self._reading = self._checking = False
        self._again = self._read_once = False
        self._verification: Verification | None = None
        self._verification_bar = LineBar(self._state_lines, id="audit-state")
        self._titles = LineBar(self._title_lines, id="audit-titles")
        self._empty = LineView(self._empty_lines, id="audit-empty")

    def compose(self) -> ComposeResult:
        """Place the filter line, the state of the log, the column titles and the lines."""
        yield self.filter_input
        yield self._verification_bar
        yield self._titles
        yield self._list
        yield self._empty

    def on_mount(self) -> None:
        """Show what is known."""
        self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Read the log: whatever happened added lines to it."""
        if topics:
            self._poll()

    def focus_here(self) -> None:
        """Give the keys to the lines. The first time, check the chain too."""
        self.screen.set_focus(self._list)
        if not self._opened:
            self._opened = True
            self.action_verify()
        self._poll()

    def tick(self) -> None:
        """Read what was added to the log: some lines come without an event of the kernel."""
        self._poll()

    def _poll(self) -> None:
        if not self._opened or not self.display or self._state.audit_reader is None:
            return
        # One read at a time: the reader keeps its place in the file between two reads.
        if self._reading:
            self._again = True
            return
        self._reading = True
        self.run_worker(self._read(), group="audit-read")

    async def _read(self) -> None:
        reader = self._state.audit_reader
        try:
            while reader is not None:
                # An event that came while the log was being read may stand for a line behind what was read.
                self._again = False
                fresh = await reader.read_new()
                if fresh.replaced:
                    self._buffer, self._places = LineBuffer(), RowPlaces()
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
        """Add new lines at the end. A cursor on the last line moves to the new last line."""
        buffer = self._buffer
        tail = self._list.cursor >= self._list.row_count - 1
        buffer.add(lines)
        count = len(buffer.lines)
        start = max(0, count - len(lines))
        self._places.drop_before(buffer.dropped)
        if not self.filter_text or len(lines) <= MAX_LINES_ON_LOOP:
            self._add_places(self._places, matching_places(buffer.lines, self._filter, start, count))
        else:
            self.apply_filter()
        self._show()
        if tail:
            self._list.action_edge(True)

    def _add_places(self, places: RowPlaces, found: Sequence[int]) -> None:
        """Add the lines at these indices of the buffer."""
        buffer = self._buffer
        for place in found:
            places.add(place + buffer.dropped, buffer.lines[place])

    def _show(self) -> None:
        rows = AuditRows(self._buffer, self._places, self._state.catalog, self._state.now)
        self._list.set_rows(rows, narrowed=bool(self.filter_text))
        self._list.display, self._empty.display = bool(rows), not rows
        self._empty.rebuild()
        self._verification_bar.redraw()
        self._titles.redraw()

    def apply_filter(self) -> None:
        """Choose the lines in a worker; a worker of an earlier filter is cancelled."""
        run_latest(self, partial(self._choose_lines, self.filter_text), "audit-choose")

    @property
    def _filter(self) -> RecordFilter:
        return parse_record_filter(self.filter_text, self._state.now())

    async def _choose_lines(self, words: str) -> None:
        buffer, dropped, count = self._buffer, self._buffer.dropped, len(self._buffer.lines)
        record_filter = self._filter
        found = await anyio.to_thread.run_sync(matching_places, buffer.lines, record_filter, 0, count)
        if words != self.filter_text or buffer is not self._buffer:
            return
        # While the thread searched, lines were added at the end, and old ones dropped from the beginning.
        gone, places = buffer.dropped - dropped, RowPlaces()
        since = matching_places(buffer.lines, record_filter, max(0, count - gone), len(buffer.lines))
        self._add_places(places, [*(place - gone for place in found if place >= gone), *since])
        self._places = places
        self._show()
        if words:
            self._list.action_edge(True)

    def action_verify(self) -> None:
        """Check the chain from its beginning, in a worker."""
        if not self._checking and self._state.audit_reader is not None:
            self._checking = True
            self._verification_bar.redraw()
            self.run_worker(self._verify(), group="audit-verify")

    async def _verify(self) -> None:
        reader = self._state.audit_reader
        try:
            self._verification = await reader.verify() if reader is not None else None
        finally:
            self._checking = False
            self._verification_bar.redraw()

    def action_fatigue(self) -> None:
        """Show how much the person is asked."""
        run_latest(self, self._show_prompt_load, "audit-fatigue")

    async def _show_prompt_load(self) -> None:
        if self._state.audit_reader is None:
            return
        try:
            report = await self._state.audit_reader.approval_report()
        except OSError as error:
            self._show_notice(f"the log cannot be read: {error.strerror}")
            return
        title = "How much you are asked"
        self.app.push_screen(PageScreen(self._state, title, lambda width: prompt_load_lines(report, width)))

    def action_copy(self) -> None:
        """Copy the line under the cursor to the terminal's clipboard, as JSON."""
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
                self._state,
                f"Line {parse_record(row.raw).get('seq', '?')}",
                lambda width: row_lines(row.lines, width),
                copy=lambda: _as_json(row),
            )
            self.app.push_screen(page)

    def _show_notice(self, notice: str) -> None:
        self._state.shared.notice = notice
        self.post_message(LineBar.Stale())

    def _state_lines(self, width: int) -> Sequence[StyledLine]:
        dropped = self._buffer.dropped
        older = f", {dropped:,} older ones not shown" if dropped else ""
        return verification_lines(self._verification, self._checking, self._places.count, older, width)

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return empty_lines(known=self._read_once, filtered=bool(self.filter_text))

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        titles: dict[str, StyledLine] = {name: (span(title, Tone.DIM),) for name, title in TITLES.items()}
        return [truncated((StyledText("  "), *audit_columns(titles, width - 3)), width)]


def _as_json(row: AuditRow) -> str:
    return json.dumps(parse_record(row.raw), indent=2)
