"""P6: a registry of 1,000 sidecars is parsed, validated and built, against json.loads of its stripped text.

Every entry has all usual keys and a tool of its own, because no two may have the same. The work includes the
line and column of every key, every digest and every tool's schema. A registry of 10,000 shows that the time
is linear. Both are the user's own, since a project's may have no more than 1,000 entries.
"""

from __future__ import annotations

import json

from common import Compared, Row, compare

from flycore.model.enums import Source
from flycore.registry.parse_registry import parse_registry

ROUNDS = {"quick": 3, "full": 15}
MOST = 4.0


def run(size: str) -> list[Row]:
    """Measure the ratio at 1,000 and at 10,000 entries, and the growth from the first to the second."""
    small, large = _measure(1_000, ROUNDS[size]), _measure(10_000, max(3, ROUNDS[size] // 3))
    growth = large.value / small.value
    ratio = large.ratio / small.ratio
    return [
        _row("1,000 sidecars", small),
        _row("10,000 sidecars", large),
        Row(
            "P6",
            "growth for ten times as many",
            growth,
            "times",
            ratio,
            "≤ 1.3 × json.loads's own",
            ratio <= 1.3,
        ),
    ]


def _row(name: str, figures: Compared) -> Row:
    note = f"json.loads {figures.reference * 1e3:.1f} ms"
    met = figures.ratio <= MOST
    milliseconds = figures.value * 1e3
    return Row("P6", name, milliseconds, "ms", figures.ratio, "≤ 4 × json.loads", met, note, figures.spread)


def _measure(count: int, rounds: int) -> Compared:
    sidecars = {f"bench.s{number}": entry(number) for number in range(count)}
    stripped = json.dumps({"schemaVersion": 2, "sidecars": sidecars})
    text = written(sidecars)
    entries, problems = parse_registry(text, "bench", Source.USER, frozenset())
    if problems or entries is None or len(entries) != count or any(item.problems for item in entries):
        raise RuntimeError("the registry that is measured is not a good one")
    return compare(
        lambda: parse_registry(text, "bench", Source.USER, frozenset()),
        lambda: json.loads(stripped),
        rounds,
    )


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
        "cwd": "config",
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
