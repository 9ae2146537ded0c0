"""P1 with the whole kernel: a call of a C echo sidecar against C's own posix_spawn of the same program.

Everything is on: trust, policy (a rule of the user), both schemas, the resolving and sealing of the program,
quota, the artifact folder, session, deadline, bounded output, pidfd, and three audit lines a call. Only
`fsync` does nothing, because it would measure the disk.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from calls import (
    CALLS,
    ENVIRONMENT,
    IN_FLIGHT,
    ROUNDS,
    Figures,
    ballast,
    c_caller,
    echo_program,
    in_flight,
    measure_calls,
    one_at_a_time,
    row,
    threads,
)
from common import Row
from kernels import calling, no_sync, root, running, unconfined

from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import ProcessJsonJob, request_line

KERNEL = "the whole kernel, run from a private copy"
TOOL = "bench.echo"


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        places, environ = echo_root(Path(base))
        return anyio.run(_rows, places, environ, size)


async def _rows(places: RootPaths, environ: dict[str, str], size: str) -> list[Row]:
    echo, calls, rounds = echo_program(), CALLS[size], ROUNDS[size]
    request = request_line(echo_job(echo, places))
    c_reference = c_caller(echo, request, calls)
    ours, anyios = partial(_measure, places, environ, calls), partial(_anyio, echo, request, calls)
    alone = [(c_reference(1), await ours(TOOL, 1), await anyios()) for _ in range(rounds)]
    rows = one_at_a_time(alone, KERNEL)
    for width in IN_FLIGHT:
        many = [(c_reference(width), await ours(TOOL, width)) for _ in range(rounds)]
        rows.append(in_flight(width, many, KERNEL))
    async with running(places, environ) as kernel:
        call = calling(kernel, TOOL)
        await call()
        rows.append(await threads(call, len(os.listdir("/proc/self/task")), KERNEL))
    rows.append(await _large_parent(lambda: ours(TOOL, 1), rounds))
    return rows


async def _measure(places: RootPaths, environ: dict[str, str], calls: int, tool: str, width: int) -> Figures:
    async with running(places, environ) as kernel:
        return await measure_calls(calling(kernel, tool), calls, width)


async def _anyio(echo: Path, request: bytes, calls: int) -> Figures:
    async def call() -> None:
        await anyio.run_process([str(echo)], input=request, env=ENVIRONMENT, cwd="/", start_new_session=True)

    return await measure_calls(call, calls, 1)


async def _large_parent(measure: Callable[[], Awaitable[Figures]], rounds: int) -> Row:
    p50: list[tuple[float, float]] = []
    for _ in range(rounds):
        small = (await measure()).p50
        memory = ballast()
        large = (await measure()).p50
        del memory
        p50.append((large, large / small))
    return row("p50 with a 1 GiB parent", "µs", p50, "≤ 1.15 × small", KERNEL, most=1.15)


def echo_root(base: Path, **entry: object) -> tuple[RootPaths, dict[str, str]]:
    """An app root with a sidecar that is the echo program, and the environment of its kernel."""
    places, environ = root(base, {TOOL: echo_program()}, **entry)
    registry = Path(places.app_root) / "tools" / "external.tools.jsonc"
    document = json.loads(registry.read_text())
    document["sidecars"][TOOL]["tools"][0]["inputSchema"]["additionalProperties"] = False
    registry.write_text(json.dumps(document))
    return places, environ


def echo_job(echo: Path, places: RootPaths) -> ProcessJsonJob:
    """The request as the kernel writes it, for the other candidates."""
    return ProcessJsonJob(
        argv=(str(echo),),
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool=TOOL,
        input={"path": "README.md"},
        project_dir=str(places.app_root),
        artifact_dir=str(places.artifacts_dir / "bench"),
    )
