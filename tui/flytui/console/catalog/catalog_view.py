"""The Catalog: the list of tools, the ladder of the one under the cursor, and the pages about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Diagnostic
from flycore.model.errors import FlyError
from flytui.console.catalog.catalog_rows import (
    CatalogRow,
    CatalogRows,
    RowAnnotations,
    by_key,
    changed_parts,
    drifted_tools,
    leases_by_tool,
    rows_of,
    state_counts,
)
from flytui.console.catalog.details import as_json, details_lines, diagnostics_lines, usage_of
from flytui.console.catalog.explanation import change_lines, headline, ladder_lines, why_json, why_lines
from flytui.console.catalog.jump_screen import JumpScreen
from flytui.console.catalog.tool_list import ToolListPane, catalog_problems, note_lines
from flytui.console.fix.fix_actions import CatalogFixActions
from flytui.console.forms.form_screen import FormScreen
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrapped

NOT_PROBED_DIMENSIONS = frozenset(("discovery", "manifest"))
"""Dimensions that only an edit of the registry makes well."""
SIDE_BY_SIDE_WIDTH = 100
"""From this width the ladder stands beside the list."""
_ROW_TOPICS = frozenset((Topic.CATALOG, Topic.TRUST, Topic.GRANTS, Topic.ASKS))


class CatalogView(CatalogFixActions):
    """Every tool there is, its state as glyph and word, and why."""

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

    TYPING_KEYS = (("Enter", "keep the filter"), ("catalog.clear", "clear it"))

    def __init__(self, desk: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._annotations = RowAnnotations(now=desk.now)
        self._rows: CatalogRows = ()
        self._drift: dict[str, tuple[str, ...]] = {}
        self._problems: tuple[Diagnostic, ...] = ()
        self._summary = ""
        self._catalog: Catalog | None = None
        self._marks: tuple[frozenset[str], ...] = ()
        """What `_rows` were made of, besides the catalog."""
        self._side = True
        self._wide = True
        self._explained_key = ""
        self.tool_list = ToolListPane(self._notes, id="list-side")
        self._side_view = LineView(self._ladder, id="ladder")
        self._side_view.can_focus = False

    def compose(self) -> ComposeResult:
        """List and ladder."""
        with Horizontal():
            yield self.tool_list
            yield self._side_view

    def on_mount(self) -> None:
        """Draw what is known; calls are counted when the kernel has read its log."""
        self._update_layout(self.app.size.width)
        self.set_interval(1.0, self._on_second)
        self.changed(_ROW_TOPICS)
        self.run_worker(self._fetch_metrics(), group="metrics", exclusive=True)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Rows follow the catalog; rows that did not change are not made again."""
        desk = self._desk
        if Topic.METRICS in topics:
            self._annotations.metrics = {item.tool: item for item in desk.metrics}
            self.tool_list.list.refresh()
        if topics & _ROW_TOPICS and desk.catalog is not None:
            self._annotations.leases = leases_by_tool(desk.catalog, desk.leases)
            self._drift = drifted_tools(desk.asks)
            changed, waiting = changed_parts(desk.catalog, desk.trust)
            marks = (changed, waiting | frozenset(self._drift), self._annotations.leased_tools)
            if self._catalog is not desk.catalog or self._marks != marks:
                self._catalog, self._marks = desk.catalog, marks
                self._rebuild_rows(desk.catalog, *marks[:2])
            self.tool_list.list.refresh()

    def _rebuild_rows(self, catalog: Catalog, changed: frozenset[str], drifted: frozenset[str]) -> None:
        known = by_key(self._rows)
        self._rows = rows_of(catalog, changed, known, self._annotations, drifted)
        self._problems, self._summary = (
            (*catalog_problems(catalog), *self._desk.settings.problems),
            state_counts(self._rows),
        )
        self.tool_list.set_rows(self._rows)

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.tool_list.focus_here()

    def on_resize(self, event: events.Resize) -> None:
        """The ladder stands beside the list where there is room."""
        self._update_layout(event.size.width)

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor."""
        return self.tool_list.row

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.tool_list.typing

    @on(VirtualList.Moved)
    def _on_cursor_moved(self) -> None:
        ladder = self._side_view
        ladder.rebuild()
        key = self.row.key if self.row else ""
        if key != self._explained_key:
            self._explained_key = key
            ladder.scroll_to(y=0, animate=False)

    @on(VirtualList.Chosen)
    def _on_row_opened(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self.row
        if row is None:
            return

        def lines(now: CatalogRow, width: int) -> Sequence[StyledLine]:
            usage = usage_of(now.tool, self._desk.metrics, self._desk.activity) if now.tool else None
            return details_lines(now, self._desk.now(), width, usage)

        page = self._page(row, lines, as_json)
        self.run_worker(self._fetch_metrics(page), group="metrics", exclusive=True)

    def _page(
        self,
        row: CatalogRow,
        lines: Callable[[CatalogRow, int], Sequence[StyledLine]],
        copy: Callable[[CatalogRow], str],
    ) -> PageScreen:
        """A page about that row, as it is whenever the page is built."""
        page = PageScreen(
            self._desk,
            row.name,
            lambda width: lines(by_key(self._rows).get(row.key, row), width),
            copy=lambda: copy(by_key(self._rows).get(row.key, row)),
        )
        self.app.push_screen(page)
        return page

    async def _fetch_metrics(self, page: PageScreen | None = None) -> None:
        """Metrics wait until the kernel has read its log; they hold up no paint. From then on they follow
        each call's end."""
        metrics = frozenset((Topic.METRICS,))
        try:
            await self._desk.fetch(metrics)
        except FlyError:
            return  # the bar says that the kernel is gone
        self.changed(metrics)
        if page is not None and page.is_mounted:
            page.changed(metrics)

    def action_side(self) -> None:
        """Ladder beside the list, or more columns; where there is no room beside it, over the list."""
        if self._wide:
            self._side = not self._side
            self._update_layout(self.size.width)
        elif self.row is not None:
            self._page(self.row, self._ladder_of, as_json)

    def action_why(self) -> None:
        """Why it is so, and what a call would meet."""
        if self.row is not None:
            self._page(self.row, why_lines, why_json)

    def action_difference(self) -> None:
        """What changed since it was trusted and approved."""

        def lines(now: CatalogRow, width: int) -> Sequence[StyledLine]:
            return change_lines(now, self._drift.get(now.tool, ()), width)

        if self.row is not None:
            self._page(self.row, lines, as_json)

    def action_jump(self) -> None:
        """Write a name, and be there."""

        def there(key: str | None) -> None:
            if key:
                self.tool_list.go_to(key)

        self.app.push_screen(JumpScreen(self._rows), there)

    def action_probe(self) -> None:
        """Ask the sidecar of this row again."""
        row = self.row
        if row is None:
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
        """Write an input for this tool and call it."""
        row = self.row
        if row is not None and row.view is not None:
            self.app.push_screen(FormScreen(self._desk, row.view))
        elif row is not None:
            self._notice(f"{row.sidecar} offers no tool that could be called")

    def action_problems(self) -> None:
        """What is wrong in files a person wrote."""

        def lines(width: int) -> Sequence[StyledLine]:
            return diagnostics_lines(self._problems, width)

        self.app.push_screen(PageScreen(self._desk, "Problems", lines))

    def action_copy(self) -> None:
        """This row as JSON, to the terminal's clipboard."""
        if self.row is not None:
            self.app.copy_to_clipboard(as_json(self.row))
            self._notice(f"{self.row.name} sent as JSON to the terminal's clipboard")

    def _on_second(self) -> None:
        """Ages grow and leases run out while nothing else changes."""
        if self.display:
            self.tool_list.list.refresh()
            if self._side_view.display:
                self._side_view.rebuild()

    def _update_layout(self, width: int) -> None:
        self._wide = width >= SIDE_BY_SIDE_WIDTH
        self._side_view.display = self._side and self._wide

    def _notes(self, width: int) -> Sequence[StyledLine]:
        return note_lines(self._desk.catalog, self._problems, self._summary, self._desk.keys, width)

    def _ladder(self, width: int) -> Sequence[StyledLine]:
        return self._ladder_of(self.row, width) if self.row is not None else []

    def _ladder_of(self, row: CatalogRow, width: int) -> Sequence[StyledLine]:
        rows: list[StyledLine] = [headline(row.name, row.stability)]
        if row.view:
            rows += wrapped([line(StyledText(" "), span(row.view.capability.summary, Tone.DIM))], width, 1)
        return [*rows, (), *ladder_lines(row.stability, self._desk.now(), width)]
