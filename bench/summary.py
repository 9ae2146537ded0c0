"""The summary of all figures, as aligned text and as the Markdown table of docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common import Row, aligned
from bench.figures import what

HEAD = ("goal", "what", "figure", "ratio", "spread", "to hold", "verdict")
_NO_GOAL = ("none", "–", "")


def summary(rows: Sequence[Row]) -> str:
    """All figures, one a line, and how many of the goals are met."""
    cells = [_cells(row) for row in rows]
    verdicts = [row[-1] for row in cells]
    counted = ", ".join(f"{verdicts.count(word)} {word}" for word in ("met", "missed", "not measured"))
    return f"{aligned([HEAD, *cells])}\n\n{counted}"


def markdown(rows: Sequence[Row]) -> str:
    """The same as a table in Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(_cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(row: Row) -> str:
    """`met` or `missed`; `not measured`, or nothing where the figure has no goal."""
    if row.why_not:
        return "not measured"
    return "–" if row.target in _NO_GOAL else "met" if row.met else "missed"


def _cells(row: Row) -> tuple[str, ...]:
    if row.why_not:
        return row.goal, what(row), row.why_not, "–", "–", row.target or "–", verdict(row)
    figure = f"{_short(row.value)} {row.unit}".strip()
    spread = f"{row.spread:.0%}" if row.spread else "–"
    # A small ratio is written as what it is a part of: 0.006 as 1/160.
    ratio = f"1/{1 / row.ratio:.0f}" if 0 < row.ratio < 0.02 else f"{row.ratio:.2f}" if row.ratio else "–"
    return row.goal, what(row), figure, ratio, spread, row.target, verdict(row)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
