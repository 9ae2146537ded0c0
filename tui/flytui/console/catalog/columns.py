"""A row's cells, and which columns a width has room for. Pure."""

from __future__ import annotations

from typing import NamedTuple

from flycore.model.audit import ToolMetrics
from flycore.model.enums import Risk
from flycore.model.stability import ProbeEvidence
from flytui.console.catalog.reason import ReasonSummary
from flytui.console.paint import StyledLine, StyledText, Tone, line, span, table_row, truncated, width_of
from flytui.console.words import RISK_LABELS, age, label_span, milliseconds_text

LONG_NAMES_WIDTH = 140
"""From this width, in cells, names have longer columns."""
ALL_COLUMNS_WIDTH = 110
"""From this width every column is there."""
POLICY_COLUMN_WIDTH = 68
"""From this width POLICY is."""
COLUMN_NAMES = ("STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "PROBE", "CALLS/ERR")
_LAST_COLUMN = "WHY / FIX"


class RowCells(NamedTuple):
    """What one row has to say."""

    state: tuple[str, Tone]
    tool: str
    """`""` for a sidecar that offers none."""
    sidecar: str
    version: str
    risk: Risk | None
    policy: str
    probe: ProbeEvidence | None
    metrics: ToolMetrics | None
    why: ReasonSummary


def column_titles(width: int) -> StyledLine:
    """The columns' names, over rows drawn for the same width."""
    row = _in_columns({name: (span(name, Tone.DIM),) for name in COLUMN_NAMES}, width)
    return (*row, span(_LAST_COLUMN, Tone.DIM))


def row_line(cells: RowCells, now: float, width: int) -> StyledLine:
    """The columns that fit, why and the way out last; `now` in Unix seconds."""
    risk = label_span(RISK_LABELS[cells.risk]) if cells.risk else span("–", Tone.DIM)
    row = _in_columns(
        {
            "STATE": (label_span(cells.state),),
            "TOOL": _tool_cell(cells),
            "SIDECAR": (span(f"{cells.sidecar} {cells.version}".strip() or "–", Tone.DIM),),
            "RISK": (risk,),
            "POLICY": (span(cells.policy or "–", Tone.ACCENT if " " in cells.policy else Tone.PLAIN),),
            "PROBE": (span(_probe_text(cells.probe, now), Tone.DIM),),
            "CALLS/ERR": (_calls_cell(cells.metrics),),
        },
        width,
    )
    return truncated((*row, *cells.why.fitting(width - width_of(row))), width)


def _tool_cell(cells: RowCells) -> StyledLine:
    if not cells.tool:
        return (span(f"({cells.sidecar})", Tone.DIM),)
    family, dot, rest = cells.tool.partition(".")
    if not rest:
        return line(span(family, Tone.STRONG))
    return line(span(family + dot, Tone.DIM), span(rest, Tone.STRONG))


def _probe_text(probe: ProbeEvidence | None, now: float) -> str:
    """How long ago, and how long it took."""
    if probe is None or not probe.at:
        return "–"
    return f"{age(now - probe.at):<3} {milliseconds_text(probe.duration_ms)}"


def _calls_cell(metrics: ToolMetrics | None) -> StyledText:
    """Calls, and of them those that failed by themselves."""
    if metrics is None or not metrics.calls:
        return StyledText("–", Tone.DIM)
    return StyledText(f"{metrics.calls}/{metrics.failed}", Tone.WARN if metrics.failed else Tone.PLAIN)


def _in_columns(cells: dict[str, StyledLine], width: int) -> StyledLine:
    """The cells that have room at that width, each in its column."""
    sizes = _column_sizes(width)
    return table_row((cells[name] for name in sizes), sizes.values())


def _column_sizes(width: int) -> dict[str, int]:
    if width >= ALL_COLUMNS_WIDTH:
        tool, sidecar = (26, 24) if width >= LONG_NAMES_WIDTH else (20, 16)
        sizes = {"STATE": 13, "TOOL": tool, "SIDECAR": sidecar, "RISK": 4, "POLICY": 10, "PROBE": 9}
        return {**sizes, "CALLS/ERR": 9}
    if width >= POLICY_COLUMN_WIDTH:
        return {"STATE": 13, "TOOL": 20, "POLICY": 10}
    return {"STATE": 13, "TOOL": 18}
