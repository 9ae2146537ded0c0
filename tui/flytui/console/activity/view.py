"""The Activity list: running calls first, then finished ones; `k` ends one, after asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from flycore.model.call import Activity
from flycore.model.enums import Phase
from flycore.model.errors import FlyError
from flytui.console.activity.details import call_lines, elapsed
from flytui.console.catalog.model import Heading
from flytui.console.desk import Desk, Topic
from flytui.console.pages import AgainScreen, PageScreen
from flytui.console.paint import Line, Span, Tone, column, fit, line, span, wrapped
from flytui.console.rows import RowsView
from flytui.console.views import Bar, LinesView
from flytui.console.words import PHASE, STATUS, said

BAR_CELLS = 12
ROOMY = 26
"""From so many lines the call under the cursor is shown below the list."""
_TITLES = ("STATE", "TOOL", "TIME", "CALLER")
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


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call in the list."""

    call: Activity
    now: float

    @property
    def key(self) -> str:
        """The call's id."""
        return self.call.call_id

    def draw(self, width: int) -> Line:
        """State, tool, time, caller, and how far it is or how it ended."""
        call = self.call
        cells = (
            said(STATUS[call.result.status] if call.result else PHASE[call.phase]),
            span(call.tool, Tone.STRONG),
            span(elapsed(call, self.now), Tone.DIM),
            span(call.caller, Tone.DIM),
        )
        return fit((*_in_columns(cells, width), *self._end()), width)

    def _end(self) -> Line:
        call = self.call
        if call.result is not None:
            error = call.result.error
            return line(span(f"{error.code}: {error.message}", Tone.DIM)) if error else ()
        return progress_bar(call)


def _in_columns(cells: Sequence[Span], width: int) -> Line:
    """State, tool, time and, where there is room, caller, each in its column."""
    sizes = (13, 20, 9) if width < 90 else (13, 20, 16, 20 if width < 116 else 28)
    row: Line = ()
    for cell, size in zip(cells, sizes, strict=False):
        row = (*row, *column((cell,), size), Span(" "))
    return row


class ActivityView(Vertical):
    """Calls, running and finished."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cancel", "Cancel", show=False, id="activity.cancel")
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [("list.open", "details"), ("activity.cancel", "cancel the call")]

    def __init__(self, desk: Desk, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._list = CallRows(id="call-rows")
        self._empty = LinesView(self._empty_lines, id="calls-empty")
        self._titles = Bar(self._title_lines, id="call-titles")
        self._below = LinesView(self._below_lines, id="call-below")
        self._below.can_focus = False
        self._under = ""

    def compose(self) -> ComposeResult:
        """The list and the call under its cursor, or what will appear there."""
        yield self._titles
        yield self._list
        yield self._below
        yield self._empty

    def on_mount(self) -> None:
        """Elapsed times are drawn as they run."""
        self.set_interval(1.0, self._tick)
        self.changed(frozenset((Topic.ACTIVITY,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """A call started, moved or ended."""
        if Topic.CATALOG in topics:
            self._empty.rebuild()
        if Topic.ACTIVITY not in topics:
            return
        now = self._desk.now()
        running = [CallRow(call, now) for call in self._desk.activity if call.result is None]
        finished = [CallRow(call, now) for call in self._desk.activity if call.result is not None]
        heading = [Heading("finished")] if running and finished else []
        self._list.show([*running, *heading, *finished])
        self._list.display = bool(self._desk.activity)
        self._empty.display = not self._desk.activity
        self._place()
        self._empty.rebuild()

    def on_resize(self) -> None:
        """The call under the cursor is shown where there is room."""
        self._place()

    def _place(self) -> None:
        self._below.display = bool(self._desk.activity) and self.size.height >= ROOMY
        self._titles.redraw()

    @on(RowsView.Moved)
    def _moved(self) -> None:
        self._below.rebuild()
        row = self._list.row
        key = row.key if row else ""
        if key != self._under:
            self._under = key
            self._below.scroll_to(y=0, animate=False)

    def _below_lines(self, width: int) -> Sequence[Line]:
        row = self._list.row
        return call_lines(row.call, self._desk.now(), width) if isinstance(row, CallRow) else []

    def _title_lines(self, width: int) -> Sequence[Line]:
        if not self._desk.activity:
            return []
        titles = _in_columns([span(title, Tone.DIM) for title in _TITLES], width - 4)
        return [fit((Span("  "), *titles, span("HOW IT GOES", Tone.DIM)), width)]

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.screen.set_focus(self._list)

    def action_cancel(self) -> None:
        """Ask, then end the call and its whole process tree."""
        row = self._list.row
        if not isinstance(row, CallRow):
            return
        call = row.call
        if call.result is not None:
            self._say(f"{call.tool} has ended already")
            return

        def answered(again: bool | None) -> None:
            if again:
                self.run_worker(self._end(call), group="cancel")

        started = call.phase is Phase.RUNNING
        state = "Its processes end; it may be half done." if started else "It has not started."
        question = (f"Cancel {call.tool}?", f"{call.caller} asked for it. {state}")
        self.app.push_screen(AgainScreen("k", question, "cancels the call", "leaves it running"), answered)

    async def _end(self, call: Activity) -> None:
        try:
            ended = await self._desk.client.cancel(call.call_id)
        except FlyError as error:
            self._say(f"not cancelled: {error}")
        else:
            self._say(f"{call.tool} {'cancelled' if ended else 'had ended already'}")

    def _say(self, notice: str) -> None:
        self._desk.notice = notice
        self.post_message(Bar.Stale())

    @on(RowsView.Chosen)
    def _chosen(self, event: RowsView.Chosen) -> None:
        event.stop()
        row = self._list.row
        if not isinstance(row, CallRow):
            return
        first = row.call

        def lines(width: int) -> Sequence[Line]:
            calls = self._desk.activity
            call = next((call for call in calls if call.call_id == first.call_id), first)
            return call_lines(call, self._desk.now(), width)

        self.app.push_screen(PageScreen(self._desk, first.tool, lines))

    def _tick(self) -> None:
        if self.display and any(call.result is None for call in self._desk.activity):
            self.changed(frozenset((Topic.ACTIVITY,)))

    def _empty_lines(self, width: int) -> Sequence[Line]:
        texts = (*_EMPTY, *(_TRY if self._desk.offers(TRY_TOOL) else ()))
        return [(), *wrapped([line(span(f" {text}")) for text in texts], width, 1)]


class CallRows(RowsView, inherit_bindings=False):
    """Here `k` cancels, so it does not move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False, id="list.up"),
        *(binding for binding in RowsView.BINDINGS[1:]),
    ]


def progress_bar(call: Activity) -> Line:
    """A bar where the call says how far it is, then its message."""
    progress = call.progress
    if progress is None:
        return ()
    message = span(progress.message, Tone.DIM)
    if progress.progress is None or not progress.total or progress.total <= 0:
        return (message,)
    share = max(0.0, min(1.0, progress.progress / progress.total))
    filled = round(share * BAR_CELLS)
    bar = (span("━" * filled, Tone.ACCENT), span("─" * (BAR_CELLS - filled), Tone.DIM))
    return (*bar, span(f" {share:4.0%}  "), message)
