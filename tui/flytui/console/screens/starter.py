"""The screen of the starter registry: the entries for the bundled sidecars, each with what it found on this
machine and a tick. What is ticked is shown as a change of the registry, and written from there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from flycore.model.enums import Effective
from flycore.model.errors import FlyError
from flycore.model.starter import StarterEntry, StarterOffer, StarterPlan, StarterTool
from flysafe.text import indented_text, strict_text
from flytui.console.screens.base import ScreenTraits, more_keys, run_latest
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.header import alert_lines, header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.labels import plural
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    keys_fitting,
    line,
    padded,
    span,
    text_lines,
    truncated,
    wrap,
    wrapped,
)

HEADING = "First registry"
COLUMN_TITLES = ("ENTRY", "WORKS HERE", "WHAT IS MISSING")
_SIZES = (22, 14)
_TICK_CELLS = 4
_MOST_TOOLS = 4
"""Lines of tools that are shown below the list; tools in the same state for the same reason share one."""
_MARKS = {
    Effective.AVAILABLE: ("●", Tone.GOOD),
    Effective.DEGRADED: ("◐", Tone.WARN),
    Effective.UNAVAILABLE: ("○", Tone.BAD),
    Effective.DISABLED: ("⊘", Tone.DIM),
}


class StarterRow(msgspec.Struct, frozen=True):
    """One entry, as a row of the list."""

    entry: StarterEntry
    ticked: bool

    @property
    def key(self) -> str:
        """The id of the entry."""
        return self.entry.id

    def draw(self, width: int) -> StyledLine:
        """The tick, the entry, how many of its tools work here, and the first thing that is missing."""
        entry = self.entry
        tick = StyledText(" ✓  " if entry.present else "[x] " if self.ticked else "[ ] ")
        lacking = next((tool for tool in entry.tools if tool.reason), None)
        missing = "in the registry already" if entry.present else lacking.reason if lacking else ""
        return _columns((tick,), (span(entry.id, Tone.STRONG), _count_label(entry), span(missing)), width)


def starter_rows(offer: StarterOffer, left_out: frozenset[str]) -> list[StarterRow]:
    """The rows in the order of the starter text; `left_out` are the entries without a tick."""
    return [StarterRow(entry, entry.id not in left_out) for entry in offer.entries]


def entry_lines(entry: StarterEntry, width: int) -> list[StyledLine]:
    """The tools of an entry by their state here, each with what a person can do."""
    groups: dict[tuple[Effective, str], list[StarterTool]] = {}
    for tool in entry.tools:
        groups.setdefault((tool.state, tool.reason), []).append(tool)
    rows: list[StyledLine] = []
    for (state, reason), tools in list(groups.items())[:_MOST_TOOLS]:
        mark, tone = _MARKS[state]
        names = ", ".join(tool.name for tool in tools)
        text = f"{names}: {reason}" if reason else names
        rows += wrap(line(span(f" {mark} ", tone), span(text)), width, 3)
        if tools[0].command:
            command = StyledText(strict_text(shlex.join(tools[0].command)), Tone.ACCENT)
            rows += wrap(line(span("   $ ", Tone.DIM), command), width, 5)
        elif tools[0].remedy:
            rows += wrap(line(span("   → ", Tone.ACCENT), span(tools[0].remedy, Tone.DIM)), width, 5)
    return rows


def plan_lines(plan: StarterPlan, width: int) -> list[StyledLine]:
    """The change as the lines that a person decides by: a new file whole, else the difference."""
    if plan.text:
        return wrapped(text_lines(plan.text, margin=1), width, 3)
    rows: list[StyledLine] = []
    for text in plan.difference:
        tone = Tone.GOOD if text.startswith("+") else Tone.BAD if text.startswith("-") else Tone.DIM
        shown = StyledText(text[:1] + indented_text(text[1:]), tone)
        rows += wrap(line(StyledText(" "), shown), width, 3)
    return rows


def _count_label(entry: StarterEntry) -> StyledText:
    usable, count = entry.usable_tools, len(entry.tools)
    partly = Effective.DEGRADED if usable else Effective.UNAVAILABLE
    mark, tone = _MARKS[Effective.AVAILABLE if usable == count else partly]
    return span(f"{mark} {usable} of {count}", tone)


def _columns(start: StyledLine, cells: Sequence[StyledText], width: int) -> StyledLine:
    """The cells behind `start`; the last one has the rest of the width."""
    *sized, last = cells
    row = [part for cell, size in zip(sized, _SIZES, strict=True) for part in padded((cell,), size)]
    return truncated((*start, *row, last), width)


class StarterScreen(ScreenTraits, Screen[None]):
    """The list of entries, over the catalog. Space ticks, Enter shows the change that writes what is
    ticked."""

    closes_for_view = True
    of_one_kernel = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "tick", "Tick", show=False, id="starter.tick"),
        Binding("escape,q,backspace", "close", "Back", show=False, id="starter.close"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("starter.tick", "tick"),
        ("list.open", "show the change"),
        ("starter.close", "back"),
    ]

    def __init__(self, state: ConsoleState, written: Callable[[str], None]) -> None:
        """Build the screen. `written` is called with the name of the file once it is written."""
        super().__init__()
        self._state = state
        self._written = written
        self._list = VirtualList(id="starter-rows")
        self._offer: StarterOffer | None = None
        self._left_out: frozenset[str] = frozenset()
        self._outcome = "asking every program that comes with flytui what it finds here…"

    def compose(self) -> ComposeResult:
        """Yield the header, the title, the list, the tools under the cursor, the alerts and the key line."""
        yield LineBar(lambda width: header_lines(self._state, HEADING, width), id="header")
        yield LineBar(self._title_lines, id="starter-titles")
        yield self._list
        yield LineBar(self._entry_lines, id="starter-entry")
        yield LineBar(lambda width: alert_lines(self._state, width), id="alert")
        yield LineBar(self._key_lines, id="keys")

    def on_mount(self) -> None:
        """Ask the kernel for the entries."""
        self.set_focus(self._list)
        run_latest(self, self._load, "starter")

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw the lines around the list again."""
        for bar in self.query(LineBar):
            bar.redraw()

    async def _load(self) -> None:
        try:
            self._offer = await self._state.client.starter()
            self._outcome = ""
        except FlyError as error:
            self._outcome = f"the programs were not asked: {error}"
        self._rebuild()

    def _rebuild(self) -> None:
        if self._offer is not None:
            self._list.set_rows(starter_rows(self._offer, self._left_out))
        self.changed(frozenset())

    @property
    def _ticked(self) -> tuple[str, ...]:
        entries = self._offer.entries if self._offer is not None else ()
        return tuple(entry.id for entry in entries if not entry.present and entry.id not in self._left_out)

    def action_close(self) -> None:
        """Close the screen. Nothing is written."""
        self.dismiss()

    def action_tick(self) -> None:
        """Tick the entry under the cursor, or take its tick away."""
        row = self._list.row
        if isinstance(row, StarterRow):
            self._outcome = "it is in the registry already" if row.entry.present else ""
            self._left_out ^= frozenset() if row.entry.present else {row.key}
            self._rebuild()

    @on(VirtualList.Moved)
    def _moved(self) -> None:
        self.changed(frozenset())

    @on(VirtualList.Chosen)
    def _chosen(self, event: VirtualList.Chosen) -> None:
        event.stop()
        if self._state.no_decision_reason:
            self._outcome = self._state.no_decision_reason
        elif not self._ticked:
            self._outcome = "nothing is ticked: space ticks an entry"
        else:
            run_latest(self, self._show_plan, "starter")
        self.changed(frozenset())

    async def _show_plan(self) -> None:
        """Show the change, and write it once the person has confirmed it."""
        ticked = self._ticked
        try:
            plan = await self._state.client.plan_starter(ticked)
        except FlyError as error:
            self._outcome = str(error)
            self.changed(frozenset())
            return
        if plan.why_not or not plan.sidecars:
            self._outcome = plan.why_not or f"{plan.file} has these entries by now"
            self.changed(frozenset())
            return

        async def write() -> str:
            outcome = await self._state.approver.write_starter(ticked, plan.digest)
            return "" if outcome.accepted else outcome.why_not or "refused"

        def answered(yes: bool | None) -> None:
            if yes:
                self._written(plan.file)
                self.dismiss()

        count = plural(len(plan.sidecars), "entry", "entries")
        heading = f"{'Adds' if plan.difference else 'Writes'} {count} to {plan.file}"
        screen = ConfirmActionScreen(
            self._state,
            HEADING,
            heading,
            lambda width: plan_lines(plan, width),
            "write and trust it",
            write,
        )
        await self.app.push_screen(screen, answered)

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        file = self._offer.file if self._offer is not None else ""
        count = f"{plural(len(self._ticked), 'entry', 'entries')} ticked, for {file}"
        rows = wrap(line(span(f" {self._outcome or count}", Tone.STRONG)), width, 1)
        if self._offer is None:
            return rows
        start = StyledText(" " * (_TICK_CELLS + 2))
        titles = [span(title, Tone.DIM) for title in COLUMN_TITLES]
        return [*rows, _columns((start,), titles, width)]

    def _entry_lines(self, width: int) -> Sequence[StyledLine]:
        row = self._list.row
        if not isinstance(row, StarterRow):
            return []
        rows = entry_lines(row.entry, width)
        return [*rows[: max(2, self.size.height // 3)]]

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        return [keys_fitting(self._state.keys.hints(self.KEYS), width, more_keys(self._state.keys))]
