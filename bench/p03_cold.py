"""P3: a cold Python sidecar through the whole kernel, against C's own posix_spawn of the same program."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from calls import BUILD, CALLS, ROUNDS, Figures, c_caller, measure_calls, row
from common import Row
from kernels import calling, no_sync, root, running, unconfined

from flycore.registry.paths import RootPaths

TOOL = "bench.cold"
PROGRAM = """#!{python} -IS
import json, sys
request = json.loads(sys.stdin.readline())
sys.stdout.write(json.dumps({{"ok": True, "path": request["input"]["path"]}}) + "\\n")
"""
REQUEST = b'{"tool": "bench.cold", "input": {"path": "README.md"}, "requestId": "bench"}\n'


def program() -> Path:
    """The sidecar: a Python program that imports `json` and nothing else."""
    import sys

    BUILD.mkdir(exist_ok=True)
    path = BUILD / "cold.py"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def run(size: str) -> list[Row]:
    """Measure one row; `size` is `quick` or `full`."""
    calls = CALLS[size] // 3
    reference = c_caller(program(), REQUEST, calls)
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        places, environ = root(Path(base), {TOOL: program()})
        rounds = [(reference(1), anyio.run(_measure, places, environ, calls)) for _ in range(ROUNDS[size])]
    p50 = [(ours.p50, ours.p50 / c.p50) for c, ours in rounds]
    return [row("p50 of a cold call", "µs", p50, "≤ 1.05 × C", "the whole kernel", most=1.05, goal="P3")]


async def _measure(places: RootPaths, environ: dict[str, str], calls: int) -> Figures:
    async with running(places, environ) as kernel:
        return await measure_calls(calling(kernel, TOOL), calls, 1)
