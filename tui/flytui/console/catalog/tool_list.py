"""The list of tools of the Catalog: a filter line, the lines above the list, column titles and rows.

This module knows neither the ladder nor the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Diagnostic
from flytui.console.catalog.catalog_rows import (
    CatalogRow,
    Grouping,
    TextNeeds,
    ToolRow,
    column_titles,
    sorted_rows,
    with_headings,
)
from flytui.console.catalog.kept_rows import KeptRows, KeptToolRow, kept_note
from flytui.console.user_settings import KeyBindings
from flytui.console.widgets.filter_line import FilterLineView
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.filter_query import FilterItem, Query, parse_query
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, truncated, wrapped

_KEY_MARK = "‹key›"
_FIRST_REGISTRY = (
    "No sidecar is declared here yet; only tools that are part of flytui can run.",
    f"Press {_KEY_MARK} for a first registry: what works here, ticked, shown, then written.",
    "Or save this as tools/external.tools.jsonc:",
    "",
    '  {"schemaVersion": 2, "sidecars": {"utility.local": {',
    '    "command": "flytui-sidecar", "args": ["utility.local"],',
    '    "permissions": {"fs": {"read": ["."]}},',
    '    "tools": ["file.hash"]}}}',
    "",
)


def catalog_problems(catalog: Catalog | None) -> tuple[Diagnostic, ...]:
    """The problems in files that a person wrote, those of whole files first."""
    if catalog is None:
        return ()
    own = [problem for view in catalog.sidecars for problem in view.entry.problems]
    return (*catalog.diagnostics, *(problem for problem in own if problem not in catalog.diagnostics))


def note_lines(
    catalog: Catalog | None,
    problems: tuple[Diagnostic, ...],
    summary: str,
    keys: KeyBindings,
    width: int,
    waiting_for: str = "",
    kept: KeptRows = (),
) -> list[StyledLine]:
    """The lines above the list: problems, then the count of tools by state, or how to begin when the registry
    declares no sidecar. `waiting_for` names the process that still holds the root, and `kept` are the rows
    that are shown until there is a catalog."""
    notes = _problem_note(problems, keys.label("catalog.problems"))
    if catalog is None:
        if kept:
            notes.append(kept_note(kept, summary))
        if waiting_for or not kept:
            if waiting_for:
                take = span(f"  {keys.label('app.take')}", Tone.KEY)
                note = line(span(f" waiting until {waiting_for} leaves this root…", Tone.DIM))
                notes += wrapped([(*note, take, span(" ends what it runs", Tone.DIM))], width, 1)
            else:
                notes.append(line(span(" reading the registry…", Tone.DIM)))
    elif not catalog.sidecars:
        first = (text.replace(_KEY_MARK, keys.label("catalog.init")) for text in _FIRST_REGISTRY)
        notes += wrapped([line(span(f" {text}")) for text in first], width, 1)
    else:
        notes.append(line(span(f" {summary}", Tone.DIM)))
    return [truncated(note, width) for note in notes]


def match_lines(text: str, query: Query, shown: int, count: int, width: int) -> list[StyledLine]:
    """How many rows match the filter, and which of its words have no meaning."""
    found = f" {shown} of {count} match “{text}”"
    rows = [line(span(found, Tone.ACCENT), span(" · Esc clears", Tone.DIM))]
    rows += [line(span(f" ! {problem}", Tone.WARN)) for problem in query.problems]
    return [truncated(row, width) for row in rows]


def _problem_note(problems: tuple[Diagnostic, ...], key: str) -> list[StyledLine]:
    if not problems:
        return []
    # The key and the count come first, and files of the project before those of the person, because a narrow
    # window cuts the end.
    files = {problem.position.file for problem in problems if problem.position}
    where = f" in {', '.join(sorted(files, key=lambda file: (file.startswith('/'), file)))}" if files else ""
    what = span(f" shows {plural(len(problems), 'problem')}{where}")
    return [line(span(" ! ", Tone.WARN), span(key, Tone.KEY), what)]


_FILTER_HINT = "words  state: risk: sidecar: policy: source:  !not · Enter keeps · Esc clears"


class ToolListPane(FilterLineView):
    """The rows that match the filter. `notes` makes the lines above the list while there is no filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, priority=True, id="catalog.filter"),
        Binding("escape", "clear", "Clear", show=False, id="catalog.clear"),
        Binding("g", "group", "Group", show=False, id="catalog.group"),
    ]

    def __init__(self, notes: Callable[[int], Sequence[StyledLine]], *, id: str) -> None:
        self.list = VirtualList(id="catalog-rows")
        super().__init__(self.list, id=id, filter_id="filter", placeholder=_FILTER_HINT)
        self._notes = notes
        self._all_rows: tuple[ToolRow, ...] = ()
        self._rows: tuple[ToolRow, ...] = ()
        """All rows in the order of the grouping."""
        self._needs = TextNeeds()
        self._items: list[FilterItem] | None = None
        self.shown: tuple[ToolRow, ...] = ()
        self.query_now = Query()
        self.grouping = Grouping.FAMILY
        self._note_bar = LineBar(self._note_lines, id="notes")
        self._title_bar = LineBar(self._titles, id="titles")
        self._empty = LineView(self._empty_lines, id="catalog-empty")

    def compose(self) -> ComposeResult:
        """Place the filter line, the notes, the titles, the rows, and what is shown instead of no rows."""
        yield self.filter_input
        yield self._note_bar
        yield self._title_bar
        yield self.list
        yield self._empty

    def on_mount(self) -> None:
        """Show the rows given so far."""
        self.apply_filter()

    def set_rows(self, rows: tuple[ToolRow, ...], needs: TextNeeds) -> None:
        """Replace the rows, whose texts have these needs. The filter, the cursor and the grouping stay."""
        self._all_rows, self._needs = rows, needs
        self._rows = sorted_rows(rows, self.grouping)
        self._items = None
        self.apply_filter()

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor; None where there is none, or it is not confirmed."""
        row = self.list.row
        return row if isinstance(row, CatalogRow) else None

    @property
    def kept_row(self) -> KeptToolRow | None:
        """The row under the cursor, where it is not confirmed; else None."""
        row = self.list.row
        return row if isinstance(row, KeptToolRow) else None

    def redraw_notes(self) -> None:
        """Build the lines above the list again."""
        self._note_bar.redraw()

    def focus_here(self) -> None:
        """Give the keys to the rows."""
        # At once and not after a refresh: a key pressed meanwhile may move the focus elsewhere.
        self.screen.set_focus(self.list)

    def go_to(self, key: str) -> None:
        """Move the cursor to the row of that key. A filter that hides the row is cleared."""
        if all(row.key != key for row in self.shown):
            self.action_clear()
        self.list.select_key(key)
        self.focus_here()

    def action_group(self) -> None:
        """Change between grouping by family and by sidecar."""
        by_sidecar = self.grouping is Grouping.SIDECAR
        self.grouping = Grouping.FAMILY if by_sidecar else Grouping.SIDECAR
        self.set_rows(self._all_rows, self._needs)

    def apply_filter(self) -> None:
        """Show the rows that the filter lets through, with their headings."""
        self.query_now = parse_query(self.filter_text)
        self.shown = self._matching_rows() if self.query_now.terms else self._rows
        self.list.set_rows(with_headings(self.shown, self.grouping), narrowed=bool(self.filter_text))
        self.list.display = bool(self.shown)
        self._empty.display = not self.shown
        self._empty.rebuild()
        self._note_bar.redraw()
        self._title_bar.redraw()

    def _matching_rows(self) -> tuple[ToolRow, ...]:
        if self._items is None:
            self._items = [row.filter_item for row in self._rows]
        rows = self._rows
        return tuple([rows[at] for at in self.query_now.matching_indices(self._items)])

    def _note_lines(self, width: int) -> Sequence[StyledLine]:
        if not self.filter_text:
            return self._notes(width)
        return match_lines(self.filter_text, self.query_now, len(self.shown), len(self._rows), width)

    def _titles(self, width: int) -> Sequence[StyledLine]:
        if not self.shown:
            return []
        return [truncated((StyledText("  "), *column_titles(width - 3, self._needs)), width)]

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        if not self.filter_text:
            return []
        return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))]
