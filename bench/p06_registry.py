"""P6: a registry of 100 entries is read, checked and built, against the start of a bare interpreter.

Every entry has all usual keys and a tool of its own, because no two may have the same. The work includes the
line and column of every key, every digest and every tool's schema. A registry of 1,000 entries shows that the
time is linear.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from common import Row, compare
from kernels import root

from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths

ROUNDS = {"quick": 5, "full": 25}
SMALL, LARGE = 100, 1_000
MOST_EXPONENT = 1.15
"""Linear, with what a sort and the caches of the processor add."""
BARE = (sys.executable, "-I", "-c", "pass")


def run(size: str) -> list[Row]:
    """Measure the ratio at 100 entries, and the growth to 1,000."""
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        read_small = partial(_read, *_written_root(Path(small), SMALL), SMALL)
        read_large = partial(_read, *_written_root(Path(large), LARGE), LARGE)
        start = partial(subprocess.run, BARE, check=True)
        figures = compare(read_small, start, ROUNDS[size])
        growth = compare(read_large, read_small, ROUNDS[size])
    note, milliseconds = f"a bare interpreter {figures.reference * 1e3:.1f} ms", figures.value * 1e3
    ratio, target = figures.ratio, "≤ 1 × a bare interpreter"
    exponent = math.log(growth.ratio) / math.log(LARGE / SMALL)
    linear, of_small = f"exponent ≤ {MOST_EXPONENT:g}", f"{SMALL} entries {growth.reference * 1e3:.1f} ms"
    large_ms, met = growth.value * 1e3, exponent <= MOST_EXPONENT
    return [
        Row("P6", f"{SMALL} entries", milliseconds, "ms", ratio, target, ratio <= 1, note, figures.spread),
        Row("P6", f"{LARGE:,} entries", large_ms, "ms", exponent, linear, met, of_small),
    ]


def _written_root(base: Path, count: int) -> tuple[RootPaths, dict[str, str]]:
    places, environ = root(base, {})
    registry = places.app_root / "tools" / "external.tools.jsonc"
    registry.write_text(written({f"bench.s{number}": entry(number) for number in range(count)}))
    return places, environ


def _read(places: RootPaths, environ: dict[str, str], count: int) -> None:
    registry = load_registry(places, known=frozenset(), environ=environ)
    if (
        len(registry.entries) != count
        or registry.diagnostics
        or any(each.problems for each in registry.entries)
    ):
        raise RuntimeError("the registry that is measured is not a good one")


def written(sidecars: dict[str, dict[str, object]]) -> str:
    """The text as people write it: one key a line, comments, trailing commas."""
    lines = ["// a large registry", "{", '  "schemaVersion": 2,', '  "sidecars": {']
    for name, value in sidecars.items():
        lines += [f"    // {name}", f"    {json.dumps(name)}: {{"]
        lines += [f"      {json.dumps(key)}: {json.dumps(item)}," for key, item in value.items()]
        lines.append("    },")
    return "\n".join([*lines, "  },", "}"])


def entry(number: int) -> dict[str, object]:
    """An entry with all usual keys."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return {
        "command": f"./tools/packages/pkg-{number}/bin/run",
        "args": ["--quiet", f"--number={number}"],
        "cwd": "app",
        "env": {"LANG": "C.UTF-8"},
        "passEnv": ["LC_ALL"],
        "kind": "process-json",
        "config": {"endpoint": f"https://service-{number}.example/api", "retries": 3},
        "timeoutMs": 30_000,
        "maxOutputBytes": 1_048_576,
        "packageId": f"pkg-{number}",
        "packageVersion": "1.4.0",
        "protocolVersion": "1",
        "compatibleCore": ">=0.1,<1",
        "probe": {"mode": "request", "timeoutMs": 2_000},
        "permissions": {"network": True, "fs": {"read": ["."], "write": ["downloads"]}, "desktop": False},
        "limits": {"cpuSeconds": 60, "memoryBytes": 1_073_741_824},
        "tools": [{"name": f"bench.tool{number}", "description": "Finds things.", "inputSchema": schema}],
    }
