"""The rows of the Catalog: their values, their columns, their order and their groups.

Rows are made once for each catalog, and drawn or searched only when they are needed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar, cast

import msgspec

from flycore.model.approval import UNTIL_LEFT, Ask, Lease
from flycore.model.audit import ToolMetrics
from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.enums import Discovery, Effective, LeaseScope, ReasonCode, Risk
from flycore.model.question import TrustItem
from flycore.model.stability import ProbeEvidence, Stability
from flytui.console.catalog.reason_summary import ReasonSummary, summarise_reason
from flytui.console.widgets.virtual_list import ListRow
from flytui.text.filter_query import BLOCKED, CHANGED, FilterItem, is_blocked, listed_sidecar, listed_tool
from flytui.text.labels import (
    CHANGED_LABEL,
    RISK_LABELS,
    STATE_LABELS,
    age,
    duration,
    label_span,
    milliseconds_text,
)
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    line,
    name_span,
    span,
    table_row,
    truncated,
    width_of,
)

LEASE = "lease"
"""How the policy of a tool with a lease begins."""
_PROGRAM_LINES = ("- /program", "+ /program")
"""How a line of a request's difference begins that is about the program."""


_STATE_CELLS = 13
_RISK_CELLS = 4
SHORTEST_NAME, LONGEST_NAME = 16, 30
"""The least and the most cells of the column TOOL."""
LONGEST_NARROW_NAME = 22
"""The most cells of that column in a window that is narrower than `_MIDDLE`."""
_MIDDLE = 100
LONGEST_WHY = 80
"""Cells of a sentence for which other columns and the ladder make room; a longer one is cut, and the details
have all of it."""


class TextNeeds(msgspec.Struct, frozen=True):
    """The cells that the texts of all rows need, whatever rows a filter shows, so that columns stay where
    they are while a person types."""

    tool: int = SHORTEST_NAME
    why: int = 0

    @property
    def columns(self) -> int:
        """The cells of a row with STATE, TOOL, RISK and the whole sentence."""
        return _STATE_CELLS + self.tool + _RISK_CELLS + 3 + self.why


class RowAnnotations(msgspec.Struct, eq=False):
    """Facts about tools that are no part of the catalog: their calls and their leases.

    A row reads them while it is drawn, so that a lease or a call does not make new rows.
    """

    now: Callable[[], float] = time.time
    """Unix seconds."""
    metrics: Mapping[str, ToolMetrics] = msgspec.field(default_factory=dict)
    """Metrics by tool."""
    leases: Mapping[str, tuple[Lease, ...]] = msgspec.field(default_factory=dict)
    """The leases that cover a tool, by tool."""
    needs: TextNeeds = TextNeeds()
    """The cells that the texts of all rows need."""

    @property
    def leased_tools(self) -> frozenset[str]:
        """The tools that a lease covers."""
        return frozenset(self.leases)

    def lease_text(self, tool: str) -> str:
        """The longest lease of a tool as `lease 4:10`, or `lease` for one that lasts until its caller
        ends."""
        ends = [lease.expires_at for lease in self.leases.get(tool, ())]
        if UNTIL_LEFT in ends:
            return LEASE
        left = max(ends, default=0.0) - self.now()
        return f"{LEASE} {duration(left)}" if left > 0 else ""


def leases_by_tool(catalog: Catalog, leases: Iterable[Lease]) -> dict[str, tuple[Lease, ...]]:
    """The leases by tool. A lease covers its own tool, or all tools of an exclusive group of its sidecar."""
    by_tool: dict[str, tuple[Lease, ...]] = {}
    for lease in leases:
        for tool in _covered_tools(catalog, lease):
            by_tool[tool] = (*by_tool.get(tool, ()), lease)
    return by_tool


def drifted_tools(asks: Iterable[Ask]) -> dict[str, tuple[str, ...]]:
    """The tools whose latest request reported another program than the one approved before, with the lines of
    that difference."""
    newest: dict[str, Ask] = {}
    for ask in asks:
        known = newest.get(ask.request.tool)
        if known is None or ask.request.asked_at > known.request.asked_at:
            newest[ask.request.tool] = ask
    return {
        tool: ask.request.difference
        for tool, ask in newest.items()
        if any(line.startswith(_PROGRAM_LINES) for line in ask.request.difference)
    }


def _covered_tools(catalog: Catalog, lease: Lease) -> list[str]:
    if lease.scope is not LeaseScope.GROUP:
        return [lease.tool]
    own = catalog.capability(lease.tool)
    sidecar = own.sidecar if own is not None else None
    return [
        view.capability.name
        for view in catalog.capabilities
        if view.sidecar == sidecar and view.capability.exclusive == lease.group
    ] or [lease.tool]


# The cells of a row, and the columns that a width has room for.


COLUMN_NAMES = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "PROBE", "CALLS/ERR")
_LAST_COLUMN = "WHY"
_SPARE_COLUMNS = {"POLICY": 10, "CALLS/ERR": 9, "PROBE": 9, "SIDECAR": 24}
"""Columns for the room that the sentences leave, the most useful first, with their cells."""


class RowCells(NamedTuple):
    """The values in the cells of one row."""

    state: tuple[str, Tone]
    tool: str
    """Empty for a sidecar that offers no tool."""
    sidecar: str
    version: str
    risk: Risk | None
    policy: str
    probe: ProbeEvidence | None
    metrics: ToolMetrics | None
    why: ReasonSummary


def column_titles(width: int, needs: TextNeeds) -> StyledLine:
    """The line of column titles above rows of the same width."""
    row = _in_columns({name: (span(name, Tone.DIM),) for name in COLUMN_NAMES}, width, needs)
    return (*row, span(_LAST_COLUMN, Tone.DIM))


def row_line(cells: RowCells, now: float, width: int, needs: TextNeeds) -> StyledLine:
    """The row with the columns that fit, then the reason and the way out; `now` is in Unix seconds."""
    risk = label_span(RISK_LABELS[cells.risk]) if cells.risk else span("–", Tone.DIM)
    row = _in_columns(
        {
            "STATE": (label_span(cells.state),),
            "TOOL": _tool_cell(cells),
            "SIDECAR": (name_span(f"{cells.sidecar} {cells.version}".strip() or "–", Tone.DIM),),
            "RISK": (risk,),
            "POLICY": (span(cells.policy or "–", Tone.ACCENT if " " in cells.policy else Tone.PLAIN),),
            "PROBE": (span(_probe_text(cells.probe, now), Tone.DIM),),
            "CALLS/ERR": (_calls_cell(cells.metrics),),
        },
        width,
        needs,
    )
    if "POLICY" not in _column_sizes(width, needs) and cells.policy.startswith(LEASE) and cells.why.well:
        row = (*row, span(cells.policy, Tone.ACCENT), StyledText(" · ", Tone.DIM))
    return truncated((*row, *cells.why.fitting(max(0, width - width_of(row)))), width)


def _tool_cell(cells: RowCells) -> StyledLine:
    if not cells.tool:
        return (name_span(f"({cells.sidecar})", Tone.DIM),)
    family, dot, rest = cells.tool.partition(".")
    if not rest:
        return line(name_span(family, Tone.STRONG))
    return line(name_span(family + dot, Tone.DIM), name_span(rest, Tone.STRONG))


def _probe_text(probe: ProbeEvidence | None, now: float) -> str:
    """How long ago the probe was, and how long it took."""
    if probe is None or not probe.at:
        return "–"
    return f"{age(now - probe.at):<3} {milliseconds_text(probe.duration_ms)}"


def _calls_cell(metrics: ToolMetrics | None) -> StyledText:
    """The number of calls, and how many of them failed in the tool."""
    if metrics is None or not metrics.calls:
        return StyledText("–", Tone.DIM)
    return StyledText(f"{metrics.calls}/{metrics.failed}", Tone.WARN if metrics.failed else Tone.PLAIN)


def _in_columns(cells: dict[str, StyledLine], width: int, needs: TextNeeds) -> StyledLine:
    """The cells that have room at that width, each in its column."""
    sizes = _column_sizes(width, needs)
    return table_row((cells[name] for name in sizes), sizes.values())


def _column_sizes(width: int, needs: TextNeeds) -> dict[str, int]:
    """State, tool and risk; then those of the spare columns that leave the sentences the room they need."""
    # One long name must not take the room of every sentence in a narrow window.
    tool = needs.tool if width >= _MIDDLE else min(needs.tool, LONGEST_NARROW_NAME)
    sizes = {"STATE": _STATE_CELLS, "TOOL": tool, "RISK": _RISK_CELLS}
    spare = width - needs.columns
    for name, cells in _SPARE_COLUMNS.items():
        if cells < spare:
            sizes[name] = cells
            spare -= cells + 1
    return {name: sizes[name] for name in COLUMN_NAMES if name in sizes}


# The rows.


@dataclass(slots=True, eq=False)
class CatalogRow:
    """A tool, or a sidecar that offers no tool."""

    key: str
    tool: str
    sidecar: str
    view: CapabilityView | None
    offered_by: SidecarView | None
    changed: bool
    """Whether its entry or program differs from what was trusted or approved."""
    leased: bool
    annotations: RowAnnotations
    stability: Stability
    """The state of the tool, or of the sidecar without tools."""
    part: int
    """0 for a tool that a sidecar offers, 1 for a sidecar without tools, 2 for a tool that nothing offers."""
    _listed: FilterItem | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the tool, or the id of the sidecar."""
        return self.tool or self.sidecar

    @property
    def state(self) -> tuple[str, Tone]:
        """The state as glyph and word, with its tone."""
        if self.changed:
            return CHANGED_LABEL
        label = STATE_LABELS[self.stability.effective]
        return (label[0], Tone.DIM) if self.stability.discovery is Discovery.MISSING else label

    @property
    def policy(self) -> str:
        """`ask`, `allow`, `deny`, `blocked`, or the time a lease has left; empty where nothing offers the
        tool."""
        if self.view is None or self.stability.effective is Effective.DISABLED:
            return ""
        if is_blocked(self.stability):
            return BLOCKED
        return self.annotations.lease_text(self.tool) or self.view.decision

    @property
    def filter_item(self) -> FilterItem:
        """The row as the filter searches it."""
        if self._listed is None:
            if self.view is not None:
                self._listed = listed_tool(self.view, changed=self.changed, leased=self.leased)
            else:
                self._listed = listed_sidecar(cast("SidecarView", self.offered_by), changed=self.changed)
        return self._listed

    @property
    def why(self) -> ReasonSummary:
        """The sentence about its state. It is made anew each time: ten thousand of them would be kept for the
        forty that are drawn."""
        summary = self.view.capability.summary if self.view else ""
        at = self.offered_by.entry.position if self.offered_by else None
        place, reasons = f"{at.file}:{at.line}" if at else "", self.stability.reasons
        return summarise_reason(reasons, place, summary, changed=self.changed, name=self.name)

    @property
    def heading(self) -> str:
        """The heading of the group of its sidecar."""
        by = self.offered_by
        if by is None:
            return self.sidecar or "flytui itself: its coding tools, and plans over other tools"
        version = by.entry.package_version or ""
        state = CHANGED_LABEL if by.changed else STATE_LABELS[by.stability.effective]
        counts = by.state_text.partition(" ")[2]
        return " ".join(word for word in (self.sidecar, version, "·", state[0], counts) if word)

    def draw(self, width: int) -> StyledLine:
        """Draw the columns that fit, the reason last."""
        entry = self.offered_by.entry if self.offered_by else None
        cells = RowCells(
            state=self.state,
            tool=self.tool,
            sidecar=self.sidecar,
            version=(entry.package_version or "") if entry else "",
            risk=self.view.capability.risk if self.view else None,
            policy=self.policy,
            probe=self.stability.evidence.probe,
            metrics=self.annotations.metrics.get(self.tool),
            why=self.why,
        )
        return row_line(cells, self.annotations.now(), width, self.annotations.needs)


class Heading(msgspec.Struct, frozen=True):
    """A heading between groups of rows. The cursor skips it."""

    text: str
    key: str = ""

    def draw(self, width: int) -> StyledLine:
        """Draw the text and a rule to the edge."""
        title = span(f"── {self.text} ", Tone.DIM)
        return truncated((title, StyledText("─" * max(0, width - len(title.text)), Tone.DIM)), width)


CatalogRows = tuple[CatalogRow, ...]


class ToolRow(ListRow, Protocol):
    """A row of the Catalog, confirmed or not."""

    @property
    def sidecar(self) -> str:
        """The id of its sidecar; empty where none offers it."""
        ...

    @property
    def tool(self) -> str:
        """The name of the tool; empty for a sidecar that offers none."""
        ...

    @property
    def name(self) -> str:
        """The name of the tool, or the id of the sidecar."""
        ...

    @property
    def part(self) -> int:
        """0 for a tool that a sidecar offers, 1 for a sidecar without tools, 2 for a tool that nothing
        offers."""
        ...

    @property
    def state(self) -> tuple[str, Tone]:
        """The state as glyph and word, with its tone."""
        ...

    @property
    def heading(self) -> str:
        """The heading of the group of its sidecar."""
        ...

    @property
    def filter_item(self) -> FilterItem:
        """The row as the filter searches it."""
        ...

    @property
    def why(self) -> ReasonSummary:
        """The sentence about its state."""
        ...


Row = TypeVar("Row", bound=ToolRow)


class Grouping(Enum):
    """How the rows are grouped."""

    FAMILY = "family"
    """By the part of a tool's name before the first dot."""
    SIDECAR = "sidecar"


def rows_of(
    catalog: Catalog,
    changed: frozenset[str],
    last_rows: Mapping[str, CatalogRow],
    annotations: RowAnnotations | None = None,
    drifted: frozenset[str] = frozenset(),
) -> CatalogRows:
    """The rows of a catalog: offered tools by name, then sidecars without tools, then tools that nothing
    offers.

    `changed` names the sidecars whose entry waits for trust again, `drifted` the tools whose program or
    definition differs from the approved one. `last_rows` are the last rows by key: a row with equal values is
    used again.
    """
    annotations = annotations or RowAnnotations()
    sidecars = {view.id: view for view in catalog.sidecars}
    changed |= {view.id for view in catalog.sidecars if view.changed}
    leased = annotations.leased_tools
    parts: tuple[list[CatalogRow], ...] = ([], [], [])
    for view in catalog.capabilities:
        name, by, stability = view.capability.name, view.sidecar or "", view.stability
        part = 0 if view.offered else 2
        is_changed = by in changed or name in drifted
        made = CatalogRow(
            f"tool {name}",
            name,
            by,
            view,
            sidecars.get(by),
            is_changed,
            name in leased,
            annotations,
            stability,
            part,
        )
        parts[part].append(_reuse_row(last_rows.get(made.key), made))
    offering = {view.sidecar for view in catalog.capabilities}
    for own in catalog.sidecars:
        if own.id not in offering:
            key = f"sidecar {own.id}"
            is_changed = own.id in changed
            made = CatalogRow(key, "", own.id, None, own, is_changed, False, annotations, own.stability, 1)
            parts[1].append(_reuse_row(last_rows.get(key), made))
    for rows in parts:
        rows.sort(key=lambda row: row.tool or row.sidecar)
    return (*parts[0], *parts[1], *parts[2])


def changed_parts(catalog: Catalog, trust: Iterable[TrustItem]) -> tuple[frozenset[str], frozenset[str]]:
    """What waits for trust again: sidecars with a changed entry, and single tools of MCP servers."""
    servers = {item.sidecar for item in trust if item.tools}
    tools = frozenset(
        view.capability.name
        for view in catalog.capabilities
        if view.sidecar in servers
        and any(reason.code is ReasonCode.FOLDER_UNTRUSTED for reason in view.stability.reasons)
    )
    return frozenset(item.sidecar for item in trust if item.changed and not item.tools), tools


def text_needs(rows: Sequence[ToolRow]) -> TextNeeds:
    """The cells that the texts of these rows need, up to the limits of their columns."""
    names = max((width_of((name_span(row.name),)) for row in rows), default=0)
    why = max((row.why.cells for row in rows), default=0)
    return TextNeeds(max(SHORTEST_NAME, min(LONGEST_NAME, names)), min(LONGEST_WHY, why))


def newest_evidence(rows: Iterable[CatalogRow]) -> float:
    """The time of the newest probe or call that a row tells the age of, in Unix seconds; 0 where there is
    none."""
    found = (row.stability.evidence for row in rows)
    return max((one.at for each in found for one in (each.probe, each.runtime) if one), default=0.0)


def by_key(rows: Iterable[Row]) -> dict[str, Row]:
    """The rows by their key."""
    return {row.key: row for row in rows}


def sorted_rows(rows: tuple[Row, ...], grouping: Grouping) -> tuple[Row, ...]:
    """The rows in the order of a grouping."""
    if grouping is Grouping.FAMILY:
        return rows
    return tuple(sorted(rows, key=lambda row: (row.part, row.sidecar)))


def with_headings(rows: Sequence[Row], grouping: Grouping) -> list[Row | Heading]:
    """The rows with a heading before each group. Grouped by family only the last two groups have one, since
    the tool names show the family."""
    shown: list[Row | Heading] = []
    middle, last = (bisect_left(rows, part, key=lambda row: row.part) for part in (1, 2))
    if grouping is Grouping.FAMILY:
        shown += rows[:middle]
    else:
        for _, group in groupby(rows[:middle], key=lambda row: row.sidecar):
            own = tuple(group)
            shown += (Heading(own[0].heading), *own)
    for title, part in zip(_HEADINGS, (rows[middle:last], rows[last:]), strict=True):
        shown += (Heading(title), *part) if part else ()
    return shown


def state_counts(rows: CatalogRows) -> str:
    """The number of rows in each state, as in `12 available · 2 degraded · 5 unavailable`."""
    counts = Counter(CHANGED if row.changed else row.stability.effective.value for row in rows)
    order = (*(state.value for state in Effective), CHANGED)
    return " · ".join(f"{counts[state]} {state}" for state in order if state in counts)


_HEADINGS = ("sidecars that offer no known tool", "known tools that no sidecar here offers")


def _reuse_row(known: CatalogRow | None, made: CatalogRow) -> CatalogRow:
    """The known row, where it would show the same."""
    # The views are large and compared last.
    if known is None or (known.changed, known.leased) != (made.changed, made.leased):
        return made
    same = known.view == made.view and known.offered_by == made.offered_by
    return known if same and known.annotations is made.annotations else made
