"""The catalog as rows: built once per catalog, filtered without touching the kernel. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.enums import Discovery, ReasonCode, Risk
from flycore.model.stability import Reason, Stability
from flytui.console.paint import Line, Span, Tone, column, fit, line, span, width_of
from flytui.console.words import CHANGED, RISK, STATE, said

WIDE = 96
MIDDLE = 68
STATE_CELLS = 14
BRIEF_CELLS = 30
"""Below this the reason stands alone, without the way out, which would be cut after a word or two."""


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """A tool, or a sidecar that offers none."""

    key: str
    tool: str
    sidecar: str
    version: str
    state: tuple[str, Tone]
    risk: Risk | None
    policy: str
    why: str
    brief: str
    """`why` for a narrow column."""
    words: str
    """Everything the filter looks at, casefolded."""
    view: CapabilityView | None
    offered_by: SidecarView | None

    @property
    def stability(self) -> Stability:
        """The snapshot of the tool, or of the sidecar without tools."""
        shown = self.view or self.offered_by
        return cast("CapabilityView | SidecarView", shown).stability

    def draw(self, width: int) -> Line:
        """The columns that fit, the reason last."""
        risk = said(RISK[self.risk]) if self.risk else span("–", Tone.DIM)
        cells: dict[str, Line] = {
            "STATE": (said(self.state),),
            "TOOL": self._tool(),
            "SIDECAR": (span(f"{self.sidecar} {self.version}".strip() or "–", Tone.DIM),),
            "RISK": (risk,),
            "POLICY": (span(self.policy or "–"),),
        }
        row = _in_columns(cells, width)
        why = self.brief if width - width_of(row) < BRIEF_CELLS else self.why
        return fit((*row, span(why, Tone.DIM)), width)

    def _tool(self) -> Line:
        if not self.view:
            return (span(f"({self.sidecar})", Tone.DIM),)
        family, dot, rest = self.tool.partition(".")
        return (
            line(span(family + dot, Tone.DIM), span(rest, Tone.STRONG))
            if rest
            else line(span(family, Tone.STRONG))
        )


def titles(width: int) -> Line:
    """The columns' names, over rows drawn for the same width."""
    names = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY")
    row = _in_columns({name: (span(name, Tone.DIM),) for name in names}, width)
    return (*row, span("WHY / FIX", Tone.DIM))


def _in_columns(cells: Mapping[str, Line], width: int) -> Line:
    """The cells that have room at that width, each in its column."""
    if width >= WIDE:
        sizes = {"STATE": STATE_CELLS, "TOOL": 24, "SIDECAR": 20, "RISK": 5, "POLICY": 6}
    elif width >= MIDDLE:
        sizes = {"STATE": STATE_CELLS, "TOOL": 22, "POLICY": 6}
    else:
        sizes = {"STATE": STATE_CELLS, "TOOL": 20}
    row: Line = ()
    for name, size in sizes.items():
        row = (*row, *column(cells[name], size), Span(" "))
    return row


@dataclass(frozen=True, slots=True)
class Heading:
    """A line between groups; never under the cursor."""

    text: str
    key: str = ""

    def draw(self, width: int) -> Line:
        """The text and a rule to the edge."""
        title = span(f"── {self.text} ", Tone.DIM)
        return fit((title, Span("─" * max(0, width - len(title.text)), Tone.DIM)), width)


CatalogRows = tuple[CatalogRow, ...]


def rows_of(catalog: Catalog, changed: frozenset[str], before: Mapping[str, CatalogRow]) -> CatalogRows:
    """Tools that something offers, by family; then sidecars without tools; then what nothing offers.

    `changed` are sidecars whose entry waits for trust again. `before` are rows by key: a row whose
    values are the same objects is taken over as it is.
    """
    sidecars = {view.id: view for view in catalog.sidecars}
    offering = {view.sidecar for view in catalog.capabilities}
    rows = [_tool_row(view, sidecars, changed, before) for view in catalog.capabilities]
    rows += [_sidecar_row(view, changed) for view in catalog.sidecars if view.id not in offering]
    return tuple(sorted(rows, key=_order))


def by_key(rows: Iterable[CatalogRow]) -> dict[str, CatalogRow]:
    """Rows by their key."""
    return {row.key: row for row in rows}


def filtered(rows: CatalogRows, text: str) -> CatalogRows:
    """Rows in which every word of `text` occurs."""
    wanted = text.casefold().split()
    return tuple(row for row in rows if all(word in row.words for word in wanted)) if wanted else rows


def with_headings(rows: CatalogRows) -> tuple[CatalogRow | Heading, ...]:
    """A heading before each group but the first one."""
    shown: list[CatalogRow | Heading] = []
    last = 0
    for row in rows:
        group = _group(row)
        if group != last:
            shown.append(Heading(_HEADINGS[group]))
            last = group
        shown.append(row)
    return tuple(shown)


def counts(rows: CatalogRows) -> str:
    """`12 available · 2 degraded · 5 unavailable`."""
    tally: dict[str, int] = {}
    for row in rows:
        word = row.state[0].split(" ", 1)[1]
        tally[word] = tally.get(word, 0) + 1
    order = ("available", "degraded", "unavailable", "disabled", "changed")
    return " · ".join(f"{tally[word]} {word}" for word in order if word in tally)


_HEADINGS = {1: "sidecars that offer no known tool", 2: "known tools that no sidecar here offers"}


def _group(row: CatalogRow) -> int:
    if row.view is None:
        return 1
    return 2 if row.sidecar == "" or row.stability.discovery is Discovery.MISSING else 0


def _order(row: CatalogRow) -> tuple[int, str, str]:
    return _group(row), row.tool.partition(".")[0], row.tool or row.sidecar


def _tool_row(
    view: CapabilityView,
    sidecars: Mapping[str, SidecarView],
    changed: frozenset[str],
    before: Mapping[str, CatalogRow],
) -> CatalogRow:
    key = f"tool {view.capability.name}"
    sidecar = sidecars.get(view.sidecar or "")
    known = before.get(key)
    is_changed = view.sidecar in changed
    if (
        known
        and known.view is view
        and known.offered_by is sidecar
        and (known.state == CHANGED) is is_changed
    ):
        return known
    tool, name = view.capability.name, view.sidecar or ""
    return _row(key, tool, name, view, sidecar, is_changed, view.capability.risk, view.decision)


def _sidecar_row(view: SidecarView, changed: frozenset[str]) -> CatalogRow:
    return _row(f"sidecar {view.id}", "", view.id, None, view, view.id in changed, None, "")


def _row(
    key: str,
    tool: str,
    name: str,
    view: CapabilityView | None,
    sidecar: SidecarView | None,
    changed: bool,
    risk: Risk | None,
    policy: str,
) -> CatalogRow:
    shown = view or sidecar
    stability = cast("CapabilityView | SidecarView", shown).stability
    state = CHANGED if changed else STATE[stability.effective]
    if stability.discovery is Discovery.MISSING:
        state = (state[0], Tone.DIM)
    why, brief = _why(stability.reasons)
    summary = view.capability.summary if view else ""
    return CatalogRow(
        key=key,
        tool=tool,
        sidecar=name,
        version=(sidecar.entry.package_version or "") if sidecar else "",
        state=state,
        risk=risk,
        policy=policy,
        why=why or summary,
        brief=brief or summary,
        words=f"{tool} {name} {state[0]} {why} {summary}".casefold(),
        view=view,
        offered_by=sidecar,
    )


def _why(reasons: tuple[Reason, ...]) -> tuple[str, str]:
    """The first reason with the way out, and in brief. That something is switched off stands in its
    state already; why it is comes first."""
    if not reasons:
        return "", ""
    first = reasons[0]
    off = first.code is ReasonCode.DISABLED
    brief = first.message if off else first.code.value
    more = f"  (+{len(reasons) - 1})" if len(reasons) > 1 else ""
    return f"{brief} · {first.remedy or first.message}{more}", brief
