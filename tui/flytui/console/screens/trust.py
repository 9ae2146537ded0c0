"""The screen that asks for trust: one line for each entry that waits, riskiest first.

`enter` unfolds an entry, space leaves it out, and `a` trusts what is ticked. It is armed like a card:
everything that is listed or unfolded has to have been on screen.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flycore.model.question import TrustItem
from flysafe.text import indented_text, strict_text
from flytui.console.screens.armed import key_lines_with_state
from flytui.console.screens.armed_table import CURSOR_CELLS, ArmedTable, TableEntry
from flytui.console.screens.arming import ArmingState, KeyEffect
from flytui.console.state import ConsoleState, Topic
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, difference_lines, line, span, truncated, wrap
from flytui.text.trust_rows import (
    common_origin,
    elsewhere_lines,
    elsewhere_text,
    in_order,
    title_row,
    trust_row,
)

_ARMING = ArmingState(Risk.MEDIUM, read_whole=True)
_BORDER_CELLS = 1
"""The cells of the border at the left of the table."""
_INDENT = 4


def _change_label(item: TrustItem) -> str:
    if item.tools:
        return "± tools that changed, or are new: they wait; the server's other tools run on"
    if not item.difference:
        return "± changed since it was trusted"
    return "± changed since it was trusted; the trusted value runs on meanwhile"


class TrustScreen(ArmedTable[bool]):
    """The entries that wait for trust. A change meanwhile makes it a new question. Escape trusts nothing."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state, "Trust", _ARMING)
        self._items: tuple[TrustItem, ...] = state.trust
        self._keys = frozenset(entry_key(item) for item in self._items)
        self._left_out: frozenset[str] = frozenset()
        """The keys of the entries that are not ticked."""
        self._unfolded = _reviewed(self._items)
        self._outcome = ""
        self._cursor = self._first_key()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show entries that changed as a new question, which has to be read and is armed from the start."""
        if Topic.TRUST in topics and self._state.trust != self._items and not self._sending:
            self._items = self._state.trust
            if not self._items:
                self.dismiss(True)
                return
            known, keys = self._keys, frozenset(entry_key(item) for item in self._items)
            self._left_out &= keys
            self._unfolded = self._unfolded & keys | _reviewed(self._items) - known
            self._keys = keys
            self._cursor = self._cursor if self._cursor in keys else self._first_key()
            self._show_question(_ARMING)
        self._redraw()

    def _first_key(self) -> str:
        return entry_key(in_order(self._items)[0]) if self._items else ""

    @property
    def _ticked(self) -> tuple[TrustItem, ...]:
        return tuple(item for item in self._items if entry_key(item) not in self._left_out)

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key of the table, or one that decides."""
        key = self._state.keys.meant("card", key)
        if self._card.press(key, now) is KeyEffect.APPROVED:
            self._outcome = "" if self._ticked else "nothing is ticked: space ticks an entry"
            if self._ticked:
                self._start_sending(self._send_trust())
        elif key == "escape":
            self.dismiss()
        elif key == " ":
            self._left_out ^= {self._cursor}
            self._rebuild_table()
        elif key == "enter":
            self._unfolded ^= {self._cursor}
            self._rebuild_table()
            self._scroll_to_cursor()
        else:
            self._handle_table_key(key)

    def _approval(self) -> Coroutine[Any, Any, None]:
        return self._send_trust()

    async def _send_trust(self) -> None:
        """Send trust for exactly the digests that were shown and are ticked."""
        # Taken before the request: entries that change while it is sent are not trusted with it.
        shown = tuple((item.sidecar, item.digest) for item in self._ticked)
        try:
            obstacle = await self._state.shared.approval_obstacle()
            if obstacle:
                self._outcome = f"nothing was trusted: {obstacle}"
                return
            outcome = await self._state.approver.trust(shown)
        except FlyError as error:
            self._outcome = f"nothing was trusted: {error}"
            return
        if outcome.accepted:
            self._state.shared.notice = f"{plural(len(shown), 'entry', 'entries')} trusted"
            self.dismiss(True)
        else:
            self._outcome = f"nothing was trusted: {outcome.why_not or 'refused'}"

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        count = plural(len(self._items), "entry waits", "entries wait")
        ticked = len(self._ticked)
        row = line(
            span(f" {count} for trust", Tone.STRONG),
            span(" · none runs before that · ! is unusual", Tone.DIM),
            span("" if ticked == len(self._items) else f" · {ticked} ticked", Tone.ACCENT),
        )
        cells = _BORDER_CELLS + CURSOR_CELLS
        titles = (StyledText(" " * cells), *title_row(width - cells))
        return [*wrap(row, width, 1), *self._origin_lines(width), truncated(titles, width)]

    def _origin_lines(self, width: int) -> Sequence[StyledLine]:
        """One line for all entries that are trusted in the same folder, unchanged."""
        origin = common_origin(self._items)
        if origin is None:
            return []
        said = f" {elsewhere_text(origin, self._state.now())}"
        return wrap((StyledText(strict_text(said), Tone.GOOD),), width, 1)

    def _entries(self, width: int) -> Sequence[TableEntry]:
        return [self._entry(item, width) for item in in_order(self._items)]

    def _entry(self, item: TrustItem, width: int) -> TableEntry:
        key = entry_key(item)
        lines = [trust_row(item, ticked=key not in self._left_out, width=width)]
        # What differs is listed at once, and is the first that stands below the entry.
        lines += difference_lines(item.difference, width, _INDENT)
        if common_origin(self._items) is None:
            lines += elsewhere_lines(item, self._state.now(), width, _INDENT)
        if key in self._unfolded:
            lines += _detail_lines(item, width)
        return TableEntry(key, lines, frozenset(range(len(lines))))

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        state = span(f" {self._outcome}", Tone.WARN) if self._outcome else self._readiness()
        folded = self._cursor not in self._unfolded
        ticked = len(self._ticked)
        pairs = [
            (self._state.keys.label("card.approve"), f"trust {ticked}"),
            ("Enter", "unfold" if folded else "fold"),
            ("Space", "tick" if self._cursor in self._left_out else "leave out"),
            ("↑↓", "move"),
            ("Esc", "trust nothing now"),
        ]
        return key_lines_with_state(state, pairs if ticked else pairs[1:], width)


def _reviewed(items: Sequence[TrustItem]) -> frozenset[str]:
    """The keys of the entries that are unfolded at first: what an agent wrote is reviewed word by word."""
    return frozenset(entry_key(item) for item in items if item.facts is not None and item.facts.made_by_agent)


def entry_key(item: TrustItem) -> str:
    """What identifies an entry, as it is now."""
    return f"{item.sidecar} {item.digest}"


def _detail_lines(item: TrustItem, width: int) -> list[StyledLine]:
    """The lines of an unfolded entry: what trusting it would let run, each value whole."""
    indent = StyledText(" " * _INDENT)
    rows: list[StyledLine] = []
    if item.changed:
        rows += wrap(line(indent, span(_change_label(item), Tone.WARN)), width, _INDENT + 2)
    for text in item.lines:
        rows += wrap(line(indent, StyledText(indented_text(text))), width, _INDENT + 2)
    rows += wrap(line(indent, span(f"sha256 {item.digest}", Tone.DIM)), width, _INDENT + 2)
    return [*rows, ()]
