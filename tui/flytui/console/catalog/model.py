"""The catalog as rows: made once for each catalog, drawn and looked through only when asked. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import cast

from flycore.catalog.query import BLOCKED, CHANGED, FilterItem, is_blocked, listed_sidecar, listed_tool
from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.enums import Discovery, Effective, ReasonCode
from flycore.model.stability import Stability
from flycore.model.trust import TrustItem
from flytui.console.catalog.beside import RowAnnotations
from flytui.console.catalog.columns import RowCells, row_line
from flytui.console.catalog.reason import summarise_reason
from flytui.console.paint import StyledLine, StyledText, Tone, span, truncated
from flytui.console.words import CHANGED_LABEL as CHANGED_WORD
from flytui.console.words import STATE_LABELS


@dataclass(slots=True, eq=False)
class CatalogRow:
    """A tool, or a sidecar that offers none. What it shows is found out when it is drawn."""

    key: str
    tool: str
    sidecar: str
    view: CapabilityView | None
    offered_by: SidecarView | None
    changed: bool
    """Its entry or program is not the one that was trusted or approved."""
    leased: bool
    annotations: RowAnnotations
    stability: Stability
    """The snapshot of the tool, or of the sidecar without tools."""
    part: int
    """0 what something offers, 1 a sidecar without tools, 2 what nothing offers."""
    _listed: FilterItem | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What the row is called: the tool's name, or the sidecar's id."""
        return self.tool or self.sidecar

    @property
    def state(self) -> tuple[str, Tone]:
        """Glyph and word."""
        if self.changed:
            return CHANGED_WORD
        said = STATE_LABELS[self.stability.effective]
        return (said[0], Tone.DIM) if self.stability.discovery is Discovery.MISSING else said

    @property
    def policy(self) -> str:
        """`ask`, `allow`, `deny`, `blocked`, or how long a lease holds; `""` where nothing offers it."""
        if self.view is None or self.stability.effective is Effective.DISABLED:
            return ""
        if is_blocked(self.stability):
            return BLOCKED
        return self.annotations.lease_text(self.tool) or self.view.decision

    @property
    def listed(self) -> FilterItem:
        """The row as a filter sees it."""
        if self._listed is None:
            if self.view is not None:
                self._listed = listed_tool(self.view, changed=self.changed, leased=self.leased)
            else:
                self._listed = listed_sidecar(cast("SidecarView", self.offered_by), changed=self.changed)
        return self._listed

    def draw(self, width: int) -> StyledLine:
        """The columns that fit, the reason last."""
        reasons = self.stability.reasons
        summary = self.view.capability.summary if self.view else ""
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
            why=summarise_reason(reasons, entry, summary, changed=self.changed),
        )
        return row_line(cells, self.annotations.now(), width)


@dataclass(frozen=True, slots=True)
class Heading:
    """A line between groups; never under the cursor."""

    text: str
    key: str = ""

    def draw(self, width: int) -> StyledLine:
        """The text and a rule to the edge."""
        title = span(f"── {self.text} ", Tone.DIM)
        return truncated((title, StyledText("─" * max(0, width - len(title.text)), Tone.DIM)), width)


CatalogRows = tuple[CatalogRow, ...]


class Grouping(Enum):
    """What stands together."""

    FAMILY = "family"
    """The part of a tool's name before the first dot."""
    SIDECAR = "sidecar"


def rows_of(
    catalog: Catalog,
    changed: frozenset[str],
    before: Mapping[str, CatalogRow],
    beside: RowAnnotations | None = None,
    drifted: frozenset[str] = frozenset(),
) -> CatalogRows:
    """Tools that something offers, by name; then sidecars without tools; then what nothing offers.

    `changed` are sidecars whose entry waits for trust again, `drifted` tools whose program or definition is
    not the one that was approved. `before` are rows by key: a row whose values are equal is taken over as it
    is.
    """
    beside = beside or RowAnnotations()
    sidecars = {view.id: view for view in catalog.sidecars}
    changed |= {view.id for view in catalog.sidecars if view.changed}
    leased = beside.leased_tools
    parts: tuple[list[CatalogRow], ...] = ([], [], [])
    for view in catalog.capabilities:
        name, by, stability = view.capability.name, view.sidecar or "", view.stability
        part = 0 if by and stability.discovery is not Discovery.MISSING else 2
        is_changed = by in changed or name in drifted
        made = CatalogRow(
            f"tool {name}",
            name,
            by,
            view,
            sidecars.get(by),
            is_changed,
            name in leased,
            beside,
            stability,
            part,
        )
        parts[part].append(_reuse_row(before.get(made.key), made))
    offering = {view.sidecar for view in catalog.capabilities}
    for own in catalog.sidecars:
        if own.id not in offering:
            key = f"sidecar {own.id}"
            made = CatalogRow(key, "", own.id, None, own, own.id in changed, False, beside, own.stability, 1)
            parts[1].append(_reuse_row(before.get(key), made))
    for rows in parts:
        rows.sort(key=lambda row: row.tool or row.sidecar)
    return (*parts[0], *parts[1], *parts[2])


def changed_parts(catalog: Catalog, trust: Iterable[TrustItem]) -> tuple[frozenset[str], frozenset[str]]:
    """What waits for trust again: the sidecars whose entry does, and single tools of MCP servers."""
    servers = {item.sidecar for item in trust if item.tools}
    tools = frozenset(
        view.capability.name
        for view in catalog.capabilities
        if view.sidecar in servers
        and any(reason.code is ReasonCode.FOLDER_UNTRUSTED for reason in view.stability.reasons)
    )
    return frozenset(item.sidecar for item in trust if item.changed and not item.tools), tools


def by_key(rows: Iterable[CatalogRow]) -> dict[str, CatalogRow]:
    """Rows by their key."""
    return {row.key: row for row in rows}


def sorted_rows(rows: CatalogRows, grouping: Grouping) -> CatalogRows:
    """The rows in the order they are shown in."""
    if grouping is Grouping.FAMILY:
        return rows
    return tuple(sorted(rows, key=lambda row: (row.part, row.sidecar)))


def with_headings(rows: Sequence[CatalogRow], grouping: Grouping) -> list[CatalogRow | Heading]:
    """A heading before each group. By family the name says it, so only the last two have one."""
    shown: list[CatalogRow | Heading] = []
    middle, last = (bisect_left(rows, part, key=lambda row: row.part) for part in (1, 2))
    if grouping is Grouping.FAMILY:
        shown += rows[:middle]
    else:
        for _, group in groupby(rows[:middle], key=lambda row: row.sidecar):
            own = tuple(group)
            shown += (Heading(_sidecar_heading(own[0])), *own)
    for title, part in zip(_HEADINGS, (rows[middle:last], rows[last:]), strict=True):
        shown += (Heading(title), *part) if part else ()
    return shown


def state_counts(rows: CatalogRows) -> str:
    """`12 available · 2 degraded · 5 unavailable`."""
    tally: dict[str, int] = {}
    for row in rows:
        word = CHANGED if row.changed else row.stability.effective.value
        tally[word] = tally.get(word, 0) + 1
    order = (*(state.value for state in Effective), CHANGED)
    return " · ".join(f"{tally[word]} {word}" for word in order if word in tally)


_HEADINGS = ("sidecars that offer no known tool", "known tools that no sidecar here offers")


def _sidecar_heading(row: CatalogRow) -> str:
    if row.offered_by is None:
        return row.sidecar
    version = row.offered_by.entry.package_version or ""
    state = CHANGED_WORD if row.offered_by.changed else STATE_LABELS[row.offered_by.stability.effective]
    return " ".join(word for word in (row.sidecar, version, "·", state[0]) if word)


def _reuse_row(known: CatalogRow | None, made: CatalogRow) -> CatalogRow:
    """The row as it was, where it would say the same; the views are looked at last, they are large."""
    if known is None or (known.changed, known.leased) != (made.changed, made.leased):
        return made
    same = known.view == made.view and known.offered_by == made.offered_by
    return known if same and known.annotations is made.annotations else made
