"""The Catalog: filter, list, ladder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from flycore.model.errors import FlyError
from flytui.console.catalog.details import as_json, details_lines, diagnostics_lines
from flytui.console.catalog.ladder import headline, ladder_lines
from flytui.console.catalog.model import (
    CatalogRow,
    CatalogRows,
    by_key,
    filtered,
    rows_of,
    titles,
    with_headings,
)
from flytui.console.catalog.notes import note_lines, problems_of
from flytui.console.catalog.usage import usage_of
from flytui.console.desk import Desk, Topic
from flytui.console.pages import PageScreen
from flytui.console.paint import Line, Span, Tone, fit, line, span, wrapped
from flytui.console.rows import RowsView
from flytui.console.views import Bar, LinesView

NOTHING_TO_ASK = frozenset(("discovery", "manifest"))
"""Dimensions that only an edit of the registry makes well."""
BESIDE = 100
"""From this width the ladder stands beside the list."""


class CatalogView(Vertical):
    """Every tool there is, its state as glyph and word, and why."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, priority=True),
        Binding("escape", "clear", "Clear", show=False),
        Binding("s", "side", "Ladder", show=False),
        Binding("R", "probe", "Probe again", show=False),
        Binding("p", "problems", "Problems", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("Enter", "details"),
        ("/", "filter"),
        ("R", "probe again"),
        ("p", "problems"),
        ("s", "ladder"),
        ("y", "copy"),
    ]

    TYPING_KEYS: ClassVar[list[tuple[str, str]]] = [("Enter", "keep the filter"), ("Esc", "clear it")]

    def __init__(self, desk: Desk, *, id: str) -> None:
        super().__init__(id=id)
        self._desk = desk
        self._rows: CatalogRows = ()
        self._shown: CatalogRows = ()
        self._filter = ""
        self._side = True
        self._wide = True
        self._under = ""
        self._box = Input(
            id="filter",
            placeholder="words that must all occur · Enter keeps · Esc clears",
            select_on_focus=False,
        )
        self._note_bar = Bar(self._notes, id="notes")
        self._title_bar = Bar(self._titles, id="titles")
        self._list = RowsView(id="catalog-rows")
        self._empty = LinesView(self._empty_lines, id="catalog-empty")
        self._side_view = LinesView(self._ladder, id="ladder")
        self._side_view.can_focus = False

    def compose(self) -> ComposeResult:
        """Filter line, notes, column titles, list and ladder."""
        yield self._box
        yield self._note_bar
        with Horizontal():
            with Vertical(id="list-side"):
                yield self._title_bar
                yield self._list
                yield self._empty
            yield self._side_view

    def on_mount(self) -> None:
        """Start without the filter line."""
        self._box.display = False
        self._place(self.app.size.width)
        self.set_interval(1.0, self._older)
        self.changed(frozenset((Topic.CATALOG,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """Rows follow the catalog; rows that did not change are not made again."""
        if topics & {Topic.CATALOG, Topic.TRUST} and self._desk.catalog is not None:
            changed = frozenset(item.sidecar for item in self._desk.trust if item.changed)
            self._rows = rows_of(self._desk.catalog, changed, by_key(self._rows))
            self._apply()

    def focus_here(self) -> None:
        """Where keys go when this screen is shown."""
        self.screen.set_focus(self._list)  # at once, or a later key would find the focus moved back

    def on_resize(self, event: events.Resize) -> None:
        """The ladder stands beside the list where there is room."""
        self._place(event.size.width)

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor."""
        row = self._list.row
        return row if isinstance(row, CatalogRow) else None

    @on(RowsView.Moved)
    def _moved(self) -> None:
        ladder = self._side_view
        ladder.rebuild()
        key = self.row.key if self.row else ""
        if key != self._under:
            self._under = key
            ladder.scroll_to(y=0, animate=False)

    @on(RowsView.Chosen)
    def _chosen(self, event: RowsView.Chosen) -> None:
        event.stop()
        row = self.row
        if row is None:
            return
        key = row.key

        def lines(width: int) -> Sequence[Line]:
            now_row = by_key(self._rows).get(key, row)
            usage = usage_of(row.tool, self._desk.metrics, self._desk.activity) if row.tool else None
            return details_lines(now_row, self._desk.now(), width, usage)

        page = PageScreen(self._desk, row.tool or row.sidecar, lines, copy=lambda: as_json(row))
        self.app.push_screen(page)
        self.run_worker(self._count(page), group="metrics", exclusive=True)

    async def _count(self, page: PageScreen) -> None:
        """Metrics are fetched by the page that shows them; from then on they follow each call's end."""
        try:
            await self._desk.fetch(frozenset((Topic.METRICS,)))
        except FlyError:
            return  # the bar says that the kernel is gone
        if page.is_mounted:
            page.changed(frozenset((Topic.METRICS,)))

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.screen.focused is self._box

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.post_message(Bar.Stale())

    @on(Input.Changed, "#filter")
    def _filtering(self, event: Input.Changed) -> None:
        self._filter = event.value
        self._apply()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self._box.display = False
        self.focus_here()
        self._apply()

    def action_filter(self) -> None:
        """Write words that rows must hold. A priority binding and no deferred focus: both act before the
        next key is looked at, so that `/quit` typed in one go is a filter and never quits."""
        self._box.display = True
        self.screen.set_focus(self._box)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter line `/` is text."""
        return not (action == "filter" and self.typing)

    def action_clear(self) -> None:
        """No filter."""
        box = self._box
        box.value = ""
        box.display = False
        self._filter = ""
        self.focus_here()
        self._apply()

    def action_side(self) -> None:
        """Ladder beside the list, or more columns; where there is no room beside it, over the list."""
        if self._wide:
            self._side = not self._side
            self._place(self.size.width)
        elif self.row is not None:
            row = self.row
            self.app.push_screen(PageScreen(self._desk, row.tool or row.sidecar, self._ladder))

    def action_probe(self) -> None:
        """Ask the sidecar of this row again."""
        row = self.row
        if row is None:
            return
        first = next((reason for reason in row.stability.reasons if reason.dimension in NOTHING_TO_ASK), None)
        if first is not None:
            self._say(f"not probed: {first.message}")
            return
        self._say(f"asking {row.sidecar} again; its answer shows on the ladder")
        self.run_worker(self._probe(row.sidecar), group="probe")

    async def _probe(self, sidecar: str) -> None:
        try:
            await self._desk.client.probe(sidecar)
        except FlyError as error:
            self._say(f"not probed: {error}")

    def _say(self, notice: str) -> None:
        self._desk.notice = notice
        self.post_message(Bar.Stale())

    def action_problems(self) -> None:
        """What is wrong in files a person wrote."""

        def lines(width: int) -> Sequence[Line]:
            return diagnostics_lines(problems_of(self._desk.catalog), width)

        self.app.push_screen(PageScreen(self._desk, "Problems", lines))

    def action_copy(self) -> None:
        """This row as JSON, to the terminal's clipboard."""
        if self.row is not None:
            self.app.copy_to_clipboard(as_json(self.row))
            self._say(f"{self.row.tool or self.row.sidecar} copied as JSON")

    def _apply(self) -> None:
        self._shown = filtered(self._rows, self._filter)
        rows = self._list
        rows.show(with_headings(self._shown), narrowed=bool(self._filter))
        nothing = not self._shown
        rows.display = not nothing
        empty = self._empty
        empty.display = nothing
        empty.rebuild()
        self._note_bar.redraw()
        self._title_bar.redraw()

    def _older(self) -> None:
        """Ages grow while nothing else changes."""
        ladder = self._side_view
        if self.display and ladder.display:
            ladder.rebuild()

    def _place(self, width: int) -> None:
        self._wide = width >= BESIDE
        self._side_view.display = self._side and self._wide

    def _notes(self, width: int) -> Sequence[Line]:
        return note_lines(self._desk.catalog, self._rows, len(self._shown), self._filter, width)

    def _titles(self, width: int) -> Sequence[Line]:
        return [fit((Span("  "), *titles(width - 4)), width)] if self._shown else []

    def _ladder(self, width: int) -> Sequence[Line]:
        row = self.row
        if row is None:
            return []
        rows: list[Line] = [headline(row.tool or row.sidecar, row.stability)]
        if row.view:
            rows += wrapped([line(Span(" "), span(row.view.capability.summary, Tone.DIM))], width, 1)
        return [*rows, (), *ladder_lines(row.stability, self._desk.now(), width)]

    def _empty_lines(self, width: int) -> Sequence[Line]:
        if self._filter:
            return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))]
        return []
