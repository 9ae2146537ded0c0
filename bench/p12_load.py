"""P12: a thousand calls by 20 callers, 64 at once, with fast, slow, broken and huge tools and an exclusive
group.

The scenario is that of suite S14 (`tests/kits/load.py`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
from common import Row

CALLS = {"quick": 200, "full": 1_000}
MOST_MIB = 30.0


def run(size: str) -> list[Row]:
    """Measure a run. A run of the same size comes first and fills every bounded memory of the kernel."""
    tests = str(Path(__file__).parent.parent / "tests")
    sys.path.insert(0, tests)
    try:
        with tempfile.TemporaryDirectory() as base:
            return anyio.run(_rows, Path(base), CALLS[size])
    finally:
        sys.path.remove(tests)


async def _rows(base: Path, calls: int) -> list[Row]:
    from kits.kernel import kernel_of
    from kits.load import AT_ONCE, CALLERS, MIB, lines_of_calls, load_root, marks, overlaps, run_load

    root = load_root(base)
    async with kernel_of(root) as kernel:
        filled = await run_load(kernel, range(calls))
        load = await run_load(kernel, range(calls, 2 * calls))
    loads, begins = (filled, load), marks(root)
    made = {result.call_id for each in loads for result in each.results.values()}
    lost = sum(begins[number] == 0 for number in range(2 * calls)) + 2 * calls - len(made)
    lost += sum(len(each.wrong()) for each in loads)
    double = sum(count - 1 for count in begins.values())
    for counted in lines_of_calls(root, "TOOL_CALLED", "TOOL_EXECUTED").values():
        lost += len(made - counted.keys())
        double += sum(count - 1 for count in counted.values())
    growth = load.growth / MIB
    note = f"{calls:,} calls, {AT_ONCE} at once, {CALLERS} callers"
    return [
        _none("lost", lost, note),
        _none("double", double, note),
        _none("overlaps of an exclusive group", overlaps(root), note),
        Row("P12", "memory growth", growth, "MiB", growth / MOST_MIB, "≤ 30 MiB", growth <= MOST_MIB, note),
    ]


def _none(name: str, count: int, note: str) -> Row:
    return Row("P12", name, float(count), "calls", float(count), "0", count == 0, note)
