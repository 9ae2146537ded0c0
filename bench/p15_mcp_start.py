"""P15, the start: `flytui mcp` from exec to its first answers, against an interpreter that does nothing.

No kernel runs on the root, so that each round opens one after the answer. The list of tools is measured as
well, with what the server before has left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from common import Row, spread
from kernels import root
from p04_staying import PROGRAM

ROUNDS = {"quick": 3, "full": 11}
BARE = (sys.executable, "-I", "-c", "pass")
FLYTUI = str(Path(sys.executable).parent / "flytui")
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
MESSAGES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)
MOST = 4.0


def run(size: str) -> list[Row]:
    """Measure one start after the other."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        program = base / "stays.py"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        places, environ = root(base, {"bench.stays": program})
        starts = []
        for round_ in range(ROUNDS[size] + 1):  # the first one leaves the list of tools
            begun = time.perf_counter()
            subprocess.run(BARE, check=True)
            bare = time.perf_counter() - begun
            first, listed = _start(places.app_root, environ)
            if round_:
                starts.append((first, listed, bare))
    return [_row("to initialize", 0, starts), _row("to the list of tools", 1, starts)]


def _start(folder: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until the answer to `initialize`, and until the list of tools."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [FLYTUI, "--root", str(folder), "mcp"],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in MESSAGES))
        process.stdin.flush()
        process.stdout.readline()
        first = time.perf_counter() - begun
        while json.loads(process.stdout.readline()).get("id") != 2:
            pass
        listed = time.perf_counter() - begun
        process.stdin.close()
    return first, listed


def _row(name: str, column: int, starts: list[tuple[float, float, float]]) -> Row:
    ratios = [figures[column] / figures[2] for figures in starts]
    return Row(
        goal="P15",
        name=f"flytui mcp, from its start {name}",
        value=median(figures[column] for figures in starts) * 1000,
        unit="ms",
        ratio=median(ratios),
        target=f"≤ {MOST:.0f} × a bare interpreter",
        met=median(ratios) <= MOST,
        note=f"{os.getloadavg()[0]:.0f} processes ready",
        spread=spread(ratios),
    )
