"""The Catalog view: the list of tools, the ladder of the tool under the cursor, and the pages about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Diagnostic, FixKind
from flycore.model.errors import FlyError
from flycore.model.kept_catalog import KeptCatalog
from flytui.console.catalog.catalog_rows import (
    CatalogRow,
    CatalogRows,
    RowAnnotations,
    by_key,
    changed_parts,
    drifted_tools,
    leases_by_tool,
    newest_evidence,
    rows_of,
    state_counts,
    text_needs,
)
from flytui.console.catalog.details import as_json, details_lines, diagnostics_lines, usage_of
from flytui.console.catalog.explanation import (
    PROBE_AGAIN,
    answered_by_probe,
    change_lines,
    why_json,
    why_lines,
)
from flytui.console.catalog.kept_rows import (
    KeptRows,
    KeptToolRow,
    kept_lines,
    kept_rows,
    kept_summary,
)
from flytui.console.catalog.tool_list import ToolListPane, catalog_problems, note_lines
from flytui.console.fix.fix_actions import CatalogFixActions
from flytui.console.screens.base import PageScreen, run_latest
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.ladder import headline, ladder_lines
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrapped

NOT_PROBED_DIMENSIONS = frozenset(("discovery", "manifest"))
"""Dimensions that a probe cannot change: only an edit of the registry can."""
SIDE_BY_SIDE_WIDTH = 100
"""From this width, in cells, the ladder can be shown beside the list."""
NARROWEST_LADDER, WIDEST_LADDER = 38, 76
"""Cells of the ladder beside the list. It is there by itself only where the sentences of the list leave it
the least of them."""
LIST_MARGIN = 3
"""Cells of the list besides its rows: the cursor's bar and the scroll bar."""
SECONDS_SHOWN_S = 62.0
"""Ages below a minute are drawn in seconds."""
MINUTES_STEP_S = 10.0
"""Seconds between two drawings of ages where all of them are drawn in minutes, or larger units."""
_SHOWN_FIXES = frozenset((FixKind.COMMAND, FixKind.EDIT, FixKind.PERMIT))
"""The kinds of fix that are shown before they are done; each of the others has a key of its own."""
_ROW_TOPICS = frozenset((Topic.CATALOG, Topic.TRUST, Topic.LEASES, Topic.ASKS))


class CatalogView(CatalogFixActions):
    """Every tool with its state and the reason for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "side", "Ladder", show=False, id="catalog.ladder"),
        Binding("R", "probe", "Probe again", show=False, id="catalog.probe"),
        Binding("t", "test_call", "Test call", show=False, id="catalog.test-call"),
        Binding("p", "problems", "Problems", show=False, id="catalog.problems"),
        Binding("w", "why", "Why", show=False, id="catalog.why"),
        Binding("D", "difference", "Difference", show=False, id="catalog.difference"),
        Binding("colon", "jump", "Jump", show=False, id="catalog.jump"),
        Binding("y", "copy", "Copy", show=False, id="catalog.copy"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("list.open", "details"),
        ("catalog.filter", "filter"),
        ("catalog.test-call", "test call"),
        ("catalog.why", "why"),
        *CatalogFixActions.HINTS,
        ("catalog.probe", "probe again"),
        ("catalog.group", "group"),
        ("catalog.jump", "jump"),
        ("catalog.difference", "difference"),
        ("catalog.problems", "problems"),
        ("catalog.sources", "kits and sources"),
        ("catalog.ladder", "ladder"),
        ("catalog.copy", "copy"),
    ]

    @property
    def key_hints(self) -> list[tuple[str, str]]:
        """The hints for the row under the cursor: a key that can do nothing about it is not among them."""
        row, absent = self.row, {"catalog.ladder"} if self._ladder_view.display else set[str]()
        reasons = row.stability.reasons if row is not None else ()
        fix = next((reason.fix for reason in reasons if reason.fix is not None), None)
        if fix is None or fix.kind not in _SHOWN_FIXES:
            absent.add("catalog.fix")
        if fix is None or fix.kind is not FixKind.PROBE:
            absent.add("catalog.probe")
        if row is None or not row.changed:
            absent.add("catalog.difference")
        entry = row.offered_by.entry if row is not None and row.offered_by is not None else None
        absent.add("catalog.enable" if entry is None or entry.enabled else "catalog.disable")
        if entry is None:
            absent.add("catalog.disable")
        return [hint for hint in self.KEYS if hint[0] not in absent]

    TYPING_KEYS = (("Enter", "keep the filter"), ("catalog.clear", "clear it"))

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._state = state
        self._annotations = RowAnnotations(now=state.now)
        self._rows: CatalogRows = ()
        self._kept: KeptRows = ()
        """The rows of the catalog as it was last, until there is one of the kernel."""
        self._drift: dict[str, tuple[str, ...]] = {}
        self._problems: tuple[Diagnostic, ...] = ()
        self._summary = ""
        self._newest = self._ages_due = 0.0
        """The time of the newest evidence that a row shows, and when ages are drawn again, as Unix time."""
        self._catalog: Catalog | None = None
        self._row_inputs: tuple[frozenset[str], ...] = ()
        """The values that `_rows` were made of, apart from the catalog."""
        self._ladder_wanted: bool | None = None
        """Whether the person asked for the ladder beside the list; None where the room decides."""
        self._wide = True
        self._explained_key = ""
        self.tool_list = ToolListPane(self._notes, id="list-side")
        self._ladder_view = LineView(self._ladder, id="ladder")
        self._ladder_view.can_focus = False

    def compose(self) -> ComposeResult:
        """Place the list and the ladder."""
        with Horizontal():
            yield self.tool_list
            yield self._ladder_view

    def on_mount(self) -> None:
        """Draw what is known, and fetch the metrics."""
        self._update_layout(self.app.size.width)
        self.changed(_ROW_TOPICS)
        run_latest(self, self._fetch_metrics, "metrics")

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show fresh values. Rows that did not change are used again."""
        state = self._state
        if Topic.METRICS in topics:
            self._annotations.metrics = {item.tool: item for item in state.metrics}
            self.tool_list.list.refresh()
        if state.catalog is None and state.kept is not None and not self._kept:
            self._show_kept(state.kept)
        if topics & _ROW_TOPICS and state.catalog is not None:
            self._ages_due = 0.0
            self._annotations.leases = leases_by_tool(state.catalog, state.leases)
            self._drift = drifted_tools(state.asks)
            changed, waiting = changed_parts(state.catalog, state.trust)
            row_inputs = (changed, waiting | frozenset(self._drift), self._annotations.leased_tools)
            if self._catalog is not state.catalog or self._row_inputs != row_inputs:
                self._catalog, self._row_inputs = state.catalog, row_inputs
                self._rebuild_rows(state.catalog, *row_inputs[:2])
            self.tool_list.list.refresh()

    def _show_kept(self, kept: KeptCatalog) -> None:
        self._kept = kept_rows(kept, self._state.now)
        self._summary = kept_summary(self._kept)
        if self._kept:
            self._annotations.needs = needs = self._kept[0].age.needs
            self.tool_list.set_rows(self._kept, needs)
            self._update_layout(self.app.size.width)

    def _rebuild_rows(self, catalog: Catalog, changed: frozenset[str], drifted: frozenset[str]) -> None:
        known, self._kept = by_key(self._rows), ()
        self._rows = rows_of(catalog, changed, known, self._annotations, drifted)
        self._problems, self._summary = (
            (*catalog_problems(catalog), *self._state.settings.problems),
            state_counts(self._rows),
        )
        self._newest, self._ages_due = newest_evidence(self._rows), 0.0
        self._annotations.needs = needs = text_needs(self._rows)
        self.tool_list.set_rows(self._rows, needs)
        self._update_layout(self.app.size.width)

    def focus_here(self) -> None:
        """Give the keys to the list."""
        self.tool_list.focus_here()

    def on_resize(self, event: events.Resize) -> None:
        """Show the ladder beside the list where there is room."""
        self._update_layout(event.size.width)

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor."""
        return self.tool_list.row

    def refused(self) -> bool:
        """Whether the row under the cursor is not confirmed; then a notice says so."""
        kept = self.tool_list.kept_row
        if kept is not None:
            self._notice(kept.refusal)
        return kept is not None

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.tool_list.typing

    @on(VirtualList.Moved)
    def _on_cursor_moved(self) -> None:
        ladder = self._ladder_view
        ladder.rebuild()
        self.post_message(LineBar.Stale())
        here = self.row or self.tool_list.kept_row
        key = here.key if here else ""
        if key != self._explained_key:
            self._explained_key = key
            ladder.scroll_to(y=0, animate=False)

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self.row or self.tool_list.kept_row
        if row is None:
            return

        def lines(now: CatalogRow, width: int) -> Sequence[StyledLine]:
            usage = usage_of(now.tool, self._state.metrics, self._state.activity) if now.tool else None
            return details_lines(now, self._state.now(), width, usage)

        page = self._page(row, lines, as_json)
        run_latest(self, partial(self._fetch_metrics, page), "metrics")

    def _page(
        self,
        row: CatalogRow | KeptToolRow,
        lines: Callable[[CatalogRow, int], Sequence[StyledLine]],
        copy: Callable[[CatalogRow], str],
    ) -> PageScreen:
        """Open a page about the row. The page looks the row up again whenever it is drawn, so that it is of a
        confirmed row as soon as there is one."""

        def drawn(width: int) -> Sequence[StyledLine]:
            now = by_key(self._rows).get(row.key, row)
            return kept_lines(now, width) if isinstance(now, KeptToolRow) else lines(now, width)

        def copied() -> str:
            now = by_key(self._rows).get(row.key, row)
            return now.refusal if isinstance(now, KeptToolRow) else copy(now)

        page = PageScreen(self._state, row.name, drawn, copy=copied)
        self.app.push_screen(page)
        return page

    async def _fetch_metrics(self, page: PageScreen | None = None) -> None:
        # The kernel answers only when it has read its whole log. In a worker, the first frame does not wait
        # for it.
        metrics = frozenset((Topic.METRICS,))
        try:
            await self._state.fetch(metrics)
        except FlyError:
            return  # the bar says that the kernel is gone
        self.changed(metrics)
        if page is not None and page.is_mounted:
            page.changed(metrics)

    def action_side(self) -> None:
        """Show or hide the ladder beside the list; in a narrow window, open it as a page."""
        if self._wide:
            self._ladder_wanted = not self._ladder_view.display
            self._update_layout(self.size.width)
        elif (row := self.row or self.tool_list.kept_row) is not None:
            self._page(row, self._ladder_of, as_json)

    def action_why(self) -> None:
        """Open the page on why the tool is in its state, and what a call would meet."""
        if not self.refused() and self.row is not None:
            self._page(self.row, why_lines, why_json)

    def action_difference(self) -> None:
        """Open the page on what changed since the tool was trusted and approved."""

        def lines(now: CatalogRow, width: int) -> Sequence[StyledLine]:
            return change_lines(now, self._drift.get(now.tool, ()), width)

        if not self.refused() and self.row is not None:
            self._page(self.row, lines, as_json)

    def action_jump(self) -> None:
        """Ask for a name and move the cursor to its row."""
        from flytui.console.catalog.jump_screen import JumpScreen

        def go_to(key: str | None) -> None:
            if key:
                self.tool_list.go_to(key)

        self.app.push_screen(JumpScreen(self._rows or self._kept), go_to)

    def action_probe(self) -> None:
        """Probe the sidecar of the row under the cursor."""
        row = self.row
        if self.refused() or row is None:
            return
        first = next(
            (reason for reason in row.stability.reasons if reason.dimension in NOT_PROBED_DIMENSIONS), None
        )
        if first is not None:
            self._notice(f"not probed: {first.message}")
            return
        self._notice(f"asking {row.sidecar} again; its answer shows on the ladder")
        self.run_worker(self._probe(row.sidecar), group="probe")

    def action_test_call(self) -> None:
        """Open the test-call form of the tool under the cursor."""
        row = self.row
        from flytui.console.forms.form_screen import ToolFormScreen

        if self.refused():
            return
        if row is not None and row.view is not None:
            self.app.push_screen(ToolFormScreen(self._state, row.view))
        elif row is not None:
            self._notice(f"{row.sidecar} offers no tool that could be called")

    def action_problems(self) -> None:
        """Open the page of the problems in files that a person wrote."""

        def lines(width: int) -> Sequence[StyledLine]:
            return diagnostics_lines(self._problems, width)

        self.app.push_screen(PageScreen(self._state, "Problems", lines))

    def action_copy(self) -> None:
        """Copy the row under the cursor to the terminal's clipboard, as JSON."""
        if not self.refused() and self.row is not None:
            self.app.copy_to_clipboard(as_json(self.row))
            self._notice(f"{self.row.name} sent as JSON to the terminal's clipboard")

    def tick(self) -> None:
        """Draw again what changed by time alone: ages grow and leases run out without any event."""
        now = self._state.now()
        if now < self._ages_due:
            return
        # An age of more than a minute is drawn in minutes, or larger units.
        seconds = self._kept or self._annotations.leases or now - self._newest < SECONDS_SHOWN_S
        self._ages_due = now + (0.0 if seconds else MINUTES_STEP_S)
        self.tool_list.list.refresh_changed()
        if self._kept:
            self.tool_list.redraw_notes()
        if self._ladder_view.display:
            self._ladder_view.rebuild_changed()

    def _update_layout(self, width: int) -> None:
        self._wide = width >= SIDE_BY_SIDE_WIDTH
        rest = width - self._annotations.needs.columns - LIST_MARGIN
        fits = bool(self._rows or self._kept) and rest >= NARROWEST_LADDER
        wanted = fits if self._ladder_wanted is None else self._ladder_wanted
        self._ladder_view.display = wanted and self._wide
        least = NARROWEST_LADDER if self._ladder_wanted is None else width * 2 // 5
        self._ladder_view.styles.width = max(least, min(rest, WIDEST_LADDER))

    def _notes(self, width: int) -> Sequence[StyledLine]:
        state = self._state
        return note_lines(
            state.catalog, self._problems, self._summary, state.keys, width, state.waiting_for, self._kept
        )

    def _ladder(self, width: int) -> Sequence[StyledLine]:
        kept = self.tool_list.kept_row
        if kept is not None:
            return kept_lines(kept, width)
        return self._ladder_of(self.row, width) if self.row is not None else []

    def _ladder_of(self, row: CatalogRow, width: int) -> Sequence[StyledLine]:
        rows: list[StyledLine] = [headline(row.name, row.stability.effective)]
        if row.view:
            rows += wrapped([line(StyledText(" "), span(row.view.capability.summary, Tone.DIM))], width, 1)
        rows += [(), *ladder_lines(row.stability, self._state.now(), width)]
        if answered_by_probe(row.stability):
            rows += [(), line(span(f" {PROBE_AGAIN}", Tone.ACCENT))]
        return rows
