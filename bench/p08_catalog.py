"""P8: reading commands without a kernel, from exec to exit, against an interpreter that does nothing.

Before each round the kernel is ended: the first command starts one, and the second one finds it. Between the
two the forker becomes ready, which the first command has started.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
from pathlib import Path
from statistics import median

import anyio
from common import Row, spread
from kernels import PATIENCE_S, no_sync, root
from p13_commands import BARE, FLYTUI, ROUNDS, TOOL, Commands, await_forker, program, trust

from flycore.kernel.lock import living_holder
from flycore.registry.paths import RootPaths

READ = (*FLYTUI, "catalog", "--json")
FIRST, SECOND = "the first catalog --json, no kernel", "the second"
MOST = {FIRST: 18.0, SECOND: 5.0}


def run(size: str) -> list[Row]:
    """Measure both rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync():
        places, environ = root(Path(base), {TOOL: program(Path(base))}, kind="process-json-persistent")
        anyio.run(trust, places, environ)
        event = Path(base) / "nothing"
        event.touch()
        commands = Commands(places, environ, event)
        figures: dict[str, list[tuple[float, float]]] = {FIRST: [], SECOND: []}
        for round_ in range(ROUNDS[size] + 1):  # the first one warms up
            end_kernel(places)
            for name in figures:
                bare, ran = commands.run(BARE), commands.run(READ)
                await_forker(environ)
                if round_:
                    figures[name].append((ran[0] * 1000, ran[0] / bare[0]))
        end_kernel(places)
    return [_row(name, found) for name, found in figures.items()]


def end_kernel(places: RootPaths) -> None:
    """End the kernel that a command has started, and wait until it has ended."""
    holder = living_holder(places)
    if holder is None:
        return
    descriptor = os.pidfd_open(holder.pid)
    os.kill(holder.pid, signal.SIGTERM)
    select.select([descriptor], [], [], PATIENCE_S)
    os.close(descriptor)


def _row(name: str, figures: list[tuple[float, float]]) -> Row:
    walls, ratios = zip(*figures, strict=True)
    return Row(
        goal="P8",
        name=f"flytui: {name}",
        value=median(walls),
        unit="ms",
        ratio=median(ratios),
        target=f"≤ {MOST[name]:.0f} × a bare interpreter",
        met=median(ratios) <= MOST[name],
        spread=spread(ratios),
    )
