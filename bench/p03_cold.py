"""P3: a cold Python sidecar through the whole kernel, against C's own posix_spawn of the same program.

The kernel confines it as every tool; C does not.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from calls import BUILD, CALLS, ROUNDS, c_caller, row
from common import Row
from kernels import no_sync, root, script
from p01_call import measure_kernel

TOOL = "bench.cold"
PROGRAM = """#!{python} -IS
import json, sys
request = json.loads(sys.stdin.readline())
sys.stdout.write(json.dumps({{"ok": True, "path": request["input"]["path"]}}) + "\\n")
"""
REQUEST = b'{"tool": "bench.cold", "input": {"path": "README.md"}, "requestId": "bench"}\n'


def run(size: str) -> list[Row]:
    """Measure one row; `size` is `quick` or `full`."""
    calls, program = CALLS[size] // 3, script(BUILD / "cold.py", PROGRAM)
    reference = c_caller(program, REQUEST, calls)
    with tempfile.TemporaryDirectory() as base, no_sync():
        made = root(Path(base), {TOOL: program})
        rounds = [
            (reference(1), anyio.run(measure_kernel, *made, calls, 1, TOOL)) for _ in range(ROUNDS[size])
        ]
    p50 = [(ours.p50, ours.p50 / c.p50) for c, ours in rounds]
    return [row("p50 of a cold call", "µs", p50, "≤ 1.15 × posix_spawn", "", most=1.15, goal="P3")]
