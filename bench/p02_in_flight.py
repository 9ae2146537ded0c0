"""P2: calls of the echo sidecar at level `enforced`, several in flight, against as many bare `bwrap` at once.

The candidates are those of P1. More in flight must not make fewer calls, nor take much more processor time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from calls import CALLS, ROUNDS, row
from common import Row
from kernels import no_sync
from p01_call import bare_bwrap, echo_root, measure_kernel

from flycore.registry.paths import RootPaths


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync():
        return anyio.run(_rows, *echo_root(Path(base)), size)


async def _rows(places: RootPaths, environ: dict[str, str], size: str) -> list[Row]:
    calls = CALLS[size]
    bwrap = await bare_bwrap(places, environ, calls)
    against_c: list[tuple[float, float]] = []
    against_two: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for _ in range(ROUNDS[size]):
        bare = bwrap(8)
        one, two, eight = [await measure_kernel(places, environ, calls, width) for width in (1, 2, 8)]
        against_c.append((eight.rate, eight.rate / bare.rate))
        against_two.append((eight.rate, eight.rate / two.rate))
        cpu.append((eight.cpu, eight.cpu / one.cpu))
    return [
        row("8 in flight", "calls/s", against_c, "≥ 0.8 × bwrap", "", least=0.8, goal="P2"),
        row("8 in flight, against 2", "calls/s", against_two, "≥ 1 × 2 in flight", "", least=1.0, goal="P2"),
        row("cpu of a call, 8 in flight", "µs", cpu, "≤ 1.2 × one at a time", "", most=1.2, goal="P2"),
    ]
