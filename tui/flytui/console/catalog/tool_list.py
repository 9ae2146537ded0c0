"""The lines above the Catalog's list: problems, counts, and what to write into an empty project. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Diagnostic
from flytui.console.catalog.catalog_rows import (
    CatalogRow,
    CatalogRows,
    Grouping,
    column_titles,
    sorted_rows,
    with_headings,
)
from flytui.console.user_settings import KeyBindings
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.text_input import FilterInput
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.filter_query import FilterItem, Query, parse_query
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, truncated, wrapped

_KEY_MARK = "‹key›"
_FIRST_REGISTRY = (
    "No sidecar is declared here yet, so no tool can run.",
    f"Press {_KEY_MARK} for a first registry: it is shown, then written.",
    "Or save this as tools/external.tools.jsonc:",
    "",
    '  {"schemaVersion": 2, "sidecars": {"utility.local": {',
    '    "command": "flytui-sidecar", "args": ["utility.local"],',
    '    "tools": ["file.hash"]}}}',
    "",
)


def catalog_problems(catalog: Catalog | None) -> tuple[Diagnostic, ...]:
    """What is wrong in files a person wrote, the files' own problems first."""
    if catalog is None:
        return ()
    own = [problem for view in catalog.sidecars for problem in view.entry.problems]
    return (*catalog.diagnostics, *(problem for problem in own if problem not in catalog.diagnostics))


def note_lines(
    catalog: Catalog | None, problems: tuple[Diagnostic, ...], summary: str, keys: KeyBindings, width: int
) -> list[StyledLine]:
    """What is wrong, how many tools there are in which state, and how to begin where there is none."""
    notes = _problem_note(problems, keys.label("catalog.problems"))
    if catalog is None:
        notes.append(line(span(" reading the registry…", Tone.DIM)))
    elif not catalog.sidecars:
        first = (text.replace(_KEY_MARK, keys.label("catalog.init")) for text in _FIRST_REGISTRY)
        notes += wrapped([line(span(f" {text}")) for text in first], width, 1)
    else:
        notes.append(line(span(f" {summary}", Tone.DIM)))
    return [truncated(note, width) for note in notes]


def match_lines(text: str, query: Query, shown: int, count: int, width: int) -> list[StyledLine]:
    """How many match, and which words of the filter mean nothing."""
    found = f" {shown} of {count} match “{text}”"
    rows = [line(span(found, Tone.ACCENT), span(" · Esc clears", Tone.DIM))]
    rows += [line(span(f" ! {problem}", Tone.WARN)) for problem in query.problems]
    return [truncated(row, width) for row in rows]


def _problem_note(problems: tuple[Diagnostic, ...], key: str) -> list[StyledLine]:
    """The key and the count first, then the files, those of the project before those of the person: where
    there is little room the end is cut."""
    if not problems:
        return []
    files = {problem.position.file for problem in problems if problem.position}
    where = f" in {', '.join(sorted(files, key=lambda file: (file.startswith('/'), file)))}" if files else ""
    what = span(f" shows {plural(len(problems), 'problem')}{where}")
    return [line(span(" ! ", Tone.WARN), span(key, Tone.KEY), what)]


# The list of tools: filter line, what was found, column titles, rows. It knows no ladder and no kernel.


_FILTER_HINT = "words  state: risk: sidecar: policy: source:  !not · Enter keeps · Esc clears"


class ToolListPane(Vertical):
    """Rows that match what is written. `notes` are the lines above the list while nothing is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False, priority=True, id="catalog.filter"),
        Binding("escape", "clear", "Clear", show=False, id="catalog.clear"),
        Binding("g", "group", "Group", show=False, id="catalog.group"),
    ]

    def __init__(self, notes: Callable[[int], Sequence[StyledLine]], *, id: str) -> None:
        super().__init__(id=id)
        self._notes = notes
        self._all_rows: CatalogRows = ()
        self._rows: CatalogRows = ()
        """As given, in the order of the grouping."""
        self._items: list[FilterItem] | None = None
        self.shown: CatalogRows = ()
        self.query_now = Query()
        self._text = ""
        self.grouping = Grouping.FAMILY
        self._box = FilterInput(id="filter", placeholder=_FILTER_HINT, select_on_focus=False)
        self._note_bar = LineBar(self._note_lines, id="notes")
        self._title_bar = LineBar(self._titles, id="titles")
        self.list = VirtualList(id="catalog-rows")
        self._empty = LineView(self._empty_lines, id="catalog-empty")

    def compose(self) -> ComposeResult:
        """Filter line, notes, titles, rows, and what stands there when there are none."""
        yield self._box
        yield self._note_bar
        yield self._title_bar
        yield self.list
        yield self._empty

    def on_mount(self) -> None:
        """Start without the filter line."""
        self._box.display = False
        self._refresh_list()

    def set_rows(self, rows: CatalogRows) -> None:
        """Other rows; what was written, the cursor and the grouping stay."""
        self._all_rows = rows
        self._rows = sorted_rows(rows, self.grouping)
        self._items = None
        self._refresh_list()

    @property
    def row(self) -> CatalogRow | None:
        """The row under the cursor."""
        row = self.list.row
        return row if isinstance(row, CatalogRow) else None

    @property
    def typing(self) -> bool:
        """Whether keys go to the filter line, where letters are text."""
        return self.is_attached and self.screen.focused is self._box

    def focus_here(self) -> None:
        """Keys go to the rows."""
        self.screen.set_focus(self.list)  # at once, or a later key would find the focus moved back

    def go_to(self, key: str) -> None:
        """Put the cursor on the row of that key; a filter that hides it is cleared."""
        if all(row.key != key for row in self.shown):
            self.action_clear()
        self.list.select_key(key)
        self.focus_here()

    def action_filter(self) -> None:
        """Write what rows must be. A priority binding and no deferred focus: both act before the next key
        is looked at, so that `/quit` typed in one go is a filter and never quits."""
        self._box.display = True
        self.screen.set_focus(self._box)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter line `/` is text."""
        return not (action == "filter" and self.typing)

    def action_clear(self) -> None:
        """No filter."""
        self._box.value = ""
        self._box.display = False
        self._text = ""
        self.focus_here()
        self._refresh_list()

    def action_group(self) -> None:
        """By family, or by sidecar."""
        by_sidecar = self.grouping is Grouping.SIDECAR
        self.grouping = Grouping.FAMILY if by_sidecar else Grouping.SIDECAR
        self.set_rows(self._all_rows)

    @on(Input.Changed, "#filter")
    def _on_filter_changed(self, event: Input.Changed) -> None:
        self._text = event.value
        self._refresh_list()

    @on(Input.Submitted, "#filter")
    def _on_filter_submitted(self) -> None:
        self._box.display = False
        self.focus_here()
        self._refresh_list()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _on_focus_moved(self) -> None:
        self.post_message(LineBar.Stale())

    def _refresh_list(self) -> None:
        self.query_now = parse_query(self._text)
        self.shown = self._matching_rows() if self.query_now.terms else self._rows
        self.list.set_rows(with_headings(self.shown, self.grouping), narrowed=bool(self._text))
        self.list.display = bool(self.shown)
        self._empty.display = not self.shown
        self._empty.rebuild()
        self._note_bar.redraw()
        self._title_bar.redraw()

    def _matching_rows(self) -> CatalogRows:
        if self._items is None:
            self._items = [row.listed for row in self._rows]
        rows = self._rows
        return tuple([rows[at] for at in self.query_now.explicit_states(self._items)])

    def _note_lines(self, width: int) -> Sequence[StyledLine]:
        if not self._text:
            return self._notes(width)
        return match_lines(self._text, self.query_now, len(self.shown), len(self._rows), width)

    def _titles(self, width: int) -> Sequence[StyledLine]:
        return [truncated((StyledText("  "), *column_titles(width - 3)), width)] if self.shown else []

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        return [(), line(span(" Nothing matches. Esc clears the filter.", Tone.DIM))] if self._text else []
