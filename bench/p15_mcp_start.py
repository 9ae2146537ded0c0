"""P15: `flytui mcp` from exec to its first answers, against an interpreter that does nothing.

Without a kernel it answers `initialize`, and lists the tools once it has started one; that is compared with
the start of server-everything, a published server, which node runs. The list of tools is measured beside a
kernel as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import IO

import anyio
from common import Row, seconds, spread
from kernels import root, script, trust
from p04_staying import PROGRAM
from p08_catalog import end_kernel
from p13_commands import await_forker

ROUNDS = {"quick": 3, "full": 11}
BARE = (sys.executable, "-I", "-c", "pass")
FLYTUI = str(Path(sys.executable).parent / "flytui")
EVERYTHING = Path(__file__).parents[1] / (
    "tests/interop/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)
"""What `tests/interop/install.sh` installs."""
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
FIRST, BESIDE, ALONE = "initialize, no kernel", "tools/list, beside a kernel", "tools/list, no kernel"


def run(size: str) -> list[Row]:
    """Measure one start after the other."""
    node = shutil.which("node") if EVERYTHING.exists() else None
    figures: dict[str, list[tuple[float, float]]] = {FIRST: [], BESIDE: [], ALONE: []}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        places, environ = root(base, {"bench.stays": script(base / "stays.py", PROGRAM)})
        anyio.run(trust, places, environ)
        command = [FLYTUI, "--root", str(places.app_root), "mcp"]
        for round_ in range(ROUNDS[size] + 1):  # the first one warms up
            end_kernel(places)
            bare = seconds(lambda: subprocess.run(BARE, check=True))
            first, alone = _start(command, environ)
            subprocess.run([*command[:-1], "catalog"], env=environ, check=True, stdout=subprocess.DEVNULL)
            await_forker(environ)  # of the kernel that the command has started
            beside = _start(command, environ)[1]
            if round_:
                figures[FIRST].append((first, first / bare))
                figures[BESIDE].append((beside, beside / bare))
                figures[ALONE].append(
                    (alone, alone / _start([node, str(EVERYTHING)], environ)[1] if node else 0)
                )
        end_kernel(places)
    rows = [_row(name, figures[name], 4.0, "a bare interpreter") for name in (FIRST, BESIDE)]
    if node is None:
        why_not = "server-everything is not installed: tests/interop/install.sh"
        return [*rows, Row.unmeasured(f"P15 flytui mcp: {ALONE}", why_not)]
    return [*rows, _row(ALONE, figures[ALONE], 1.0, "server-everything's start")]


def messages() -> bytes:
    """What an agent sends until it knows the tools."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in MESSAGES)


def until_listed(answers: IO[bytes]) -> None:
    """Read until the list of tools has come."""
    while json.loads(answers.readline()).get("id") != 2:
        pass


def _start(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until the answer to `initialize`, and until the list of tools."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(messages())
        process.stdin.flush()
        process.stdout.readline()
        first = time.perf_counter() - begun
        until_listed(process.stdout)
        listed = time.perf_counter() - begun
        process.stdin.close()
    return first, listed


def _row(name: str, figures: list[tuple[float, float]], most: float, reference: str) -> Row:
    taken, ratios = zip(*figures, strict=True)
    return Row(
        goal="P15",
        name=f"flytui mcp: {name}",
        value=median(taken) * 1000,
        unit="ms",
        ratio=median(ratios),
        target=f"≤ {most:.0f} × {reference}",
        met=median(ratios) <= most,
        note=f"{os.getloadavg()[0]:.0f} processes ready",
        spread=spread(ratios),
    )
