"""P8: `flytui catalog --json` without a kernel, from exec to exit, against an interpreter that does nothing.

The registry has been read before. That the command imports neither textual nor rich, mcp or jsonschema is a
test (`tests/flytui/cli/test_cli_commands.py`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import anyio
from common import Row, spread
from kernels import no_sync, root, unconfined
from p13_commands import BARE, FLYTUI, ROUNDS, TOOL, Commands, program, trust

MOST = 12.0


def run(size: str) -> list[Row]:
    """Measure the row; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        places, environ = root(Path(base), {TOOL: program(Path(base))}, kind="process-json-persistent")
        anyio.run(trust, places, environ)
        event = Path(base) / "nothing"
        event.touch()
        commands = Commands(places, environ, event)
        walls, ratios, processor = list[float](), list[float](), list[float]()
        for round_ in range(ROUNDS[size] + 1):  # the first one warms up
            bare, ran = commands.run(BARE), commands.run((*FLYTUI, "catalog", "--json"))
            if round_:
                walls.append(ran[0] * 1000)
                ratios.append(ran[0] / bare[0])
                processor.append(ran[1] / bare[1])
    return [
        Row(
            goal="P8",
            name="flytui catalog --json, no kernel",
            value=median(walls),
            unit="ms",
            ratio=median(ratios),
            target=f"≤ {MOST:.0f} × a bare interpreter",
            met=median(ratios) <= MOST,
            note=f"processor time {median(processor):.1f} ×",
            spread=spread(ratios),
        )
    ]
