"""What every benchmark shares: rows of the table, and two things measured in turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its reference. A goal is a ratio: absolute figures move with the machine."""

    goal: str
    """`P1`, `P6`, …"""
    name: str
    value: float
    unit: str
    ratio: float
    """Against the reference of the same run."""
    target: str
    """The ratio to hold, as the specification words it."""
    met: bool
    note: str = ""
    spread: float = 0.0
    """(Largest − smallest) / median of the rounds' ratios; 0 where it was not taken."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two things measured in turn: medians in seconds, and the median and spread of the rounds' ratios."""

    value: float
    reference: float
    ratio: float
    spread: float


def compare(value: Callable[[], object], reference: Callable[[], object], rounds: int) -> Compared:
    """Run both once to warm up, then in turn, and compare round by round."""
    value(), reference()
    values: list[float] = []
    references: list[float] = []
    for _ in range(rounds):
        values.append(seconds(value))
        references.append(seconds(reference))
    ratios = [one / other for one, other in zip(values, references, strict=True)]
    return Compared(median(values), median(references), median(ratios), spread(ratios))


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one run without the garbage collector, as timeit measures: its full passes look at
    everything else that lives in the process, and their number differs from run to run."""
    gc.collect()
    gc.disable()
    try:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun
    finally:
        gc.enable()


def spread(figures: Sequence[float]) -> float:
    """How far apart the figures lie, as a share of their median."""
    return (max(figures) - min(figures)) / median(figures)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    cells = [("goal", "what", "value", "ratio", "spread", "target", "met", "note")]
    for row in rows:
        figures = f"{row.value:.4g} {row.unit}", f"{row.ratio:.2f}", f"{row.spread:.0%}"
        cells.append((row.goal, row.name, *figures, row.target, "yes" if row.met else "NO", row.note))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
