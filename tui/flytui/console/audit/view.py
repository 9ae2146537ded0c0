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

from flycore.client.ledger import line_of
from flycore.model.audit import Verification
from flytui.console.audit.lines import (
    TITLES,
    AuditRow,
    AuditRows,
    LineBuffer,
    chosen,
    empty_lines,
    fields_lines,
    in_columns,
)
from flytui.console.audit.state import prompt_load_lines, verification_lines
from flytui.console.desk import Desk, Topic
from flytui.console.filterbox import FilterInput
from flytui.console.pages import PageScreen
from flytui.console.paint import Line, Span, Tone, fit, span
from flytui.console.rows import VirtualList
from flytui.console.views import LineBar, LineView

MAX_LINES_ON_LOOP = 2_000
"""Lines that the filter looks through on the loop."""
LOOK_SECONDS = 1.0
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

    def __init__(self, desk: Desk, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._shelf = LineBuffer()
        self._chosen: list[int] | None = None
        self._filter = ""
        self._opened = self._reading = self._checking = False
        self._again = self._known = False
        self._found: Verification | None = None
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
        self.set_interval(LOOK_SECONDS, self._look)
        self._show()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Something happened, so the log has grown."""
        if topics:
            self._look()

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.screen.set_focus(self._list)
        if not self._opened:
            self._opened = True
            self.action_verify()
        self._look()

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.screen.focused is self._box

    def _look(self) -> None:
        if not self._opened or not self.display or self._desk.ledger is None:
            return
        if self._reading:
            self._again = True
            return
        self._reading = True
        self.run_worker(self._read(), group="audit-read")

    async def _read(self) -> None:
        """Take in what has come; once more where something came meanwhile."""
        ledger = self._desk.ledger
        try:
            while ledger is not None:
                self._again = False
                fresh = await ledger.more()
                if fresh.anew:
                    self._shelf, self._chosen = LineBuffer(), [] if self._filter else None
                first, self._known = not self._known, True
                self._shelf.dropped += fresh.skipped
                if fresh.lines or fresh.anew or first:
                    self._take(fresh.lines)
                if not self._again:
                    break
        except OSError as error:
            self._say(f"the log cannot be read: {error.strerror}")
        finally:
            self._reading = False

    def _take(self, lines: Sequence[bytes]) -> None:
        """New lines at the end; a cursor that stands on the last line stays on the last."""
        shelf, before = self._shelf, self._shelf.dropped
        tail = self._list.cursor >= self._list.row_count - 1
        shelf.add(lines)
        count, gone = len(shelf.lines), shelf.dropped - before
        if self._chosen is not None and len(lines) <= MAX_LINES_ON_LOOP:
            kept = [place - gone for place in self._chosen if place >= gone]
            start = max(0, count - len(lines))
            self._chosen = [*kept, *chosen(shelf.lines, self._filter, start, count)]
        elif self._chosen is not None:
            self.run_worker(self._choose(self._filter), group="audit-choose", exclusive=True)
        self._show()
        if tail:
            self._list.action_edge(True)

    def _show(self) -> None:
        shelf = self._shelf
        rows = AuditRows(shelf.lines, shelf.dropped, self._chosen)
        self._list.show(rows, narrowed=bool(self._filter))
        self._list.display, self._empty.display = bool(rows), not rows
        self._empty.rebuild()
        self._state.redraw()
        self._titles.redraw()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.post_message(LineBar.Stale())

    @on(Input.Changed, "#audit-filter")
    def _filtering(self, event: Input.Changed) -> None:
        event.stop()
        self._filter = event.value.strip()
        self.run_worker(self._choose(self._filter), group="audit-choose", exclusive=True)

    async def _choose(self, words: str) -> None:
        """Look through all lines, beside the loop."""
        shelf, dropped, count = self._shelf, self._shelf.dropped, len(self._shelf.lines)
        found: list[int] = []
        if words:
            found = await anyio.to_thread.run_sync(chosen, shelf.lines, words, 0, count)
        if words != self._filter or shelf is not self._shelf:
            return
        gone = shelf.dropped - dropped
        kept = [place - gone for place in found if place >= gone]
        since = chosen(shelf.lines, words, max(0, count - gone), len(shelf.lines)) if words else []
        self._chosen = [*kept, *since] if words else None
        self._show()
        if words:
            self._list.action_edge(True)

    @on(Input.Submitted, "#audit-filter")
    def _filtered(self) -> None:
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
        if not self._checking and self._desk.ledger is not None:
            self._checking = True
            self._state.redraw()
            self.run_worker(self._verify(), group="audit-verify")

    async def _verify(self) -> None:
        ledger = self._desk.ledger
        try:
            self._found = await ledger.verify() if ledger is not None else None
        finally:
            self._checking = False
            self._state.redraw()

    def action_fatigue(self) -> None:
        """Whether a person is asked too much."""
        self.run_worker(self._fatigue(), group="audit-fatigue", exclusive=True)

    async def _fatigue(self) -> None:
        if self._desk.ledger is None:
            return
        try:
            report = await self._desk.ledger.fatigue()
        except OSError as error:
            self._say(f"the log cannot be read: {error.strerror}")
            return
        title = "How much you are asked"
        self.app.push_screen(PageScreen(self._desk, title, lambda width: prompt_load_lines(report, width)))

    def action_copy(self) -> None:
        """This line as JSON, to the terminal's clipboard."""
        row = self._list.row
        if isinstance(row, AuditRow):
            self.app.copy_to_clipboard(_as_json(row))
            self._say("the line was sent as JSON to the terminal's clipboard")

    @on(VirtualList.Chosen)
    def _open(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self._list.row
        if isinstance(row, AuditRow):
            page = PageScreen(
                self._desk,
                f"Line {line_of(row.raw).get('seq', '?')}",
                lambda width: fields_lines(row.raw, width),
                copy=lambda: _as_json(row),
            )
            self.app.push_screen(page)

    def _say(self, notice: str) -> None:
        self._desk.notice = notice
        self.post_message(LineBar.Stale())

    def _state_lines(self, width: int) -> Sequence[Line]:
        shelf = self._shelf
        count = len(shelf.lines) if self._chosen is None else len(self._chosen)
        kept = f", {shelf.dropped:,} older ones not shown" if shelf.dropped else ""
        return verification_lines(self._found, self._checking, count, kept, width)

    def _empty_lines(self, width: int) -> Sequence[Line]:
        return empty_lines(known=self._known, filtered=bool(self._filter))

    def _title_lines(self, width: int) -> Sequence[Line]:
        cells = [span(title, Tone.DIM) for title in TITLES[:-1]]
        return [fit((Span("  "), *in_columns(cells), span(TITLES[-1], Tone.DIM)), width)]


def _as_json(row: AuditRow) -> str:
    return json.dumps(line_of(row.raw), indent=2)
