"""The Grants view: leases, rules and blocks. `d` revokes one, `z` undoes that.

A change after which more calls run unasked (a deny rule or a block that ends, a lease or an allow rule that
comes back) needs the same key a second time. Every other change is done at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from flycore.model.errors import FlyError
from flytui.console.catalog.catalog_rows import Heading
from flytui.console.grants.grant_rows import (
    COLUMN_TITLES,
    BlockRow,
    GrantRow,
    LeaseRow,
    RuleRow,
    grant_columns,
)
from flytui.console.screens.base import PageScreen, PressAgainScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, truncated, wrapped

_EMPTY_TEXT = (
    "There is no grant: every call that needs a person asks you.",
    "",
    (
        "On a card, l makes a lease: the same caller may go on for some minutes and calls, unasked. u writes"
        " a rule into your own policy.jsonc. b blocks a tool for every caller. All of them appear here, with"
        " how often they were used, and d takes one away."
    ),
)
_SHOWN = frozenset((Topic.LEASES, Topic.RULES, Topic.BLOCKS))


class GrantsView(Vertical):
    """The list of all leases, rules and blocks that are in force."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "take_away", "Revoke", show=False, id="grants.revoke"),
        Binding("z", "undo", "Undo", show=False, id="grants.undo"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("grants.revoke", "revoke"),
        ("grants.undo", "undo"),
        ("list.open", "details"),
    ]

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._state = state
        self._list = VirtualList(id="grant-rows")
        self._empty = LineView(self._empty_lines, id="grants-empty")
        self._titles = LineBar(self._title_lines, id="grant-titles")
        self._undoable: list[GrantRow] = []
        """What was revoked in this view, oldest first."""

    def compose(self) -> ComposeResult:
        """Yield the column headings, the list, and the text that is shown while the list is empty."""
        yield self._titles
        yield self._list
        yield self._empty

    def on_mount(self) -> None:
        """Show what is known."""
        self.changed(_SHOWN)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show the rows again where a grant was made, used, or has ended."""
        if not topics & _SHOWN:
            return
        rows = grant_rows(self._state)
        self._list.set_rows(rows)
        self._list.display = bool(rows)
        self._empty.display = not rows
        self._titles.redraw()
        self._empty.rebuild()

    def focus_here(self) -> None:
        """Give the list the focus."""
        self.screen.set_focus(self._list)

    def action_take_away(self) -> None:
        """End the lease, remove the rule, or unblock the tool under the cursor."""
        row = self._row
        if row is None:
            return
        if self._state.no_decision_reason:
            self._show_notice(self._state.no_decision_reason)
            return
        if not row.removal_loosens:
            self.run_worker(self._take_away(row), group="grants")
            return
        what = "unblocks it" if isinstance(row, BlockRow) else "takes it out"
        self._confirm("grants.revoke", f"End {row.description}?", what, partial(self._take_away, row))

    def action_undo(self) -> None:
        """Undo the last revocation of this view."""
        last = self._undoable[-1] if self._undoable else None
        if self._state.no_decision_reason:
            self._show_notice(self._state.no_decision_reason)
        elif last is None:
            self._show_notice("nothing was revoked here")
        elif last.removal_loosens:
            self.run_worker(self._undo(), group="grants")
        else:
            self._confirm("grants.undo", f"Bring back {last.description}?", "brings it back", self._undo)

    def _confirm(self, id: str, question: str, does: str, then: Callable[[], Awaitable[None]]) -> None:
        """Ask for the same key again, and run `then` where it is pressed."""

        def answered(again: bool | None) -> None:
            if again:
                self.run_worker(then, group="grants")

        lines = (question, "More is let through than now.")
        self.app.push_screen(
            PressAgainScreen(self._state.keys.keys_for(id), lines, does, "leaves it"), answered
        )

    async def _take_away(self, row: GrantRow) -> None:
        approver = self._state.approver
        try:
            if isinstance(row, LeaseRow):
                why_not = "" if await approver.revoke(row.lease.id) else "it had ended already"
            elif isinstance(row, RuleRow):
                outcome = await approver.remove_rule(row.rule.where, row.rule.digest)
                why_not = "" if outcome.accepted else outcome.why_not
            else:
                why_not = "" if await approver.unblock(row.block.tool) else "it could not be unblocked now"
        except FlyError as error:
            why_not = str(error)
        if why_not:
            self._show_notice(f"{row.description}: {why_not}")
            return
        self._undoable.append(row)
        self._show_notice(f"ended: {row.description}. {self._state.keys.label('grants.undo')} brings it back")

    async def _undo(self) -> None:
        try:
            outcome = await self._state.approver.undo()
        except FlyError as error:
            self._show_notice(f"not undone: {error}")
            return
        row = self._undoable[-1]
        # Refused only because a tool controls the desktop: the person can undo it once that has ended.
        if outcome.accepted or not self._state.desktop_controlled:
            self._undoable.pop()
        self._show_notice(
            f"in force again: {row.description}" if outcome.accepted else f"not undone: {outcome.why_not}"
        )

    @on(VirtualList.Chosen)
    def _chosen(self, event: VirtualList.Chosen) -> None:
        event.stop()
        first = self._row
        if first is None:
            return

        def lines(width: int) -> Sequence[StyledLine]:
            rows = [row for row in grant_rows(self._state) if row.key == first.key]
            shown = rows[0] if rows else first
            return shown.details(width) if not isinstance(shown, Heading) else []

        self.app.push_screen(PageScreen(self._state, "Grants", lines))

    @property
    def _row(self) -> GrantRow | None:
        row = self._list.row
        return row if isinstance(row, (LeaseRow, RuleRow, BlockRow)) else None

    def _show_notice(self, notice: str) -> None:
        self._state.shared.notice = notice
        self.post_message(LineBar.Stale())

    def tick(self) -> None:
        """Draw the time again that each lease has left."""
        if self.display and self._list.display:
            self.changed(_SHOWN)

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        if not grant_rows(self._state):
            return []
        return [
            truncated(
                (
                    StyledText("  "),
                    *grant_columns([span(title, Tone.DIM) for title in COLUMN_TITLES], width - 4),
                ),
                width,
            )
        ]

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return [(), *wrapped([line(span(f" {text}")) for text in _EMPTY_TEXT], width, 1)]


def grant_rows(state: ConsoleState) -> list[GrantRow | Heading]:
    """All grants that are in force now, each kind under its heading. A kind without grants has no heading."""
    now = state.now()
    kinds: list[tuple[str, list[GrantRow]]] = [
        ("leases", [LeaseRow(lease, now) for lease in state.leases if _is_active(lease.expires_at, now)]),
        ("your rules", [RuleRow(rule, now) for rule in state.rules]),
        ("blocked", [BlockRow(block, now) for block in state.blocks]),
    ]
    return [row for title, rows in kinds if rows for row in (Heading(title), *rows)]


def _is_active(expires_at: float, now: float) -> bool:
    return not expires_at or now < expires_at
