"""The shared parts of all benchmarks: rows of the table, and the comparison of two things in turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """A figure and its reference. A goal is a ratio, because absolute figures depend on the machine."""

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
    why_not: str = ""
    """Why there is no figure; empty where there is one."""

    @classmethod
    def unmeasured(cls, what: str, why_not: str, target: str = "") -> Row:
        """The row of a figure that cannot be measured here. `what` begins with the goal."""
        goal, _, name = what.partition(" ")
        return cls(goal, name, 0.0, "", 0.0, target, met=False, why_not=why_not)


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison: medians in seconds, and the median and the spread of the rounds' ratios."""

    value: float
    reference: float
    ratio: float
    spread: float


def compare(value: Callable[[], object], reference: Callable[[], object], rounds: int) -> Compared:
    """Run both once to warm up, then in turn, and compare them round by round."""
    value(), reference()
    values: list[float] = []
    references: list[float] = []
    for _ in range(rounds):
        values.append(seconds(value))
        references.append(seconds(reference))
    ratios = [one / other for one, other in zip(values, references, strict=True)]
    return Compared(median(values), median(references), median(ratios), spread(ratios))


def seconds(work: Callable[[], object]) -> float:
    """The wall time of one run without the garbage collector, as in timeit. A full collection looks at all
    other objects of the process, and the number of collections differs from run to run."""
    gc.collect()
    gc.disable()
    try:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun
    finally:
        gc.enable()


def spread(figures: Sequence[float]) -> float:
    """The range of the figures as a share of their median."""
    return (max(figures) - min(figures)) / median(figures)


def table(rows: Sequence[Row]) -> str:
    """The rows of one benchmark as aligned text."""
    cells = [("goal", "what", "value", "ratio", "spread", "target", "met", "note")]
    for row in rows:
        if row.why_not:
            cells.append((row.goal, row.name, "–", "–", "–", row.target, "–", row.why_not))
            continue
        figures = f"{row.value:.4g} {row.unit}", f"{row.ratio:.2f}", f"{row.spread:.0%}"
        cells.append((row.goal, row.name, *figures, row.target, "yes" if row.met else "NO", row.note))
    return aligned(cells)


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """The lines with their cells below one another."""
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
