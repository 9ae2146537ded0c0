"""P16, the callers: how long some callers at once wait for one call each, over the Unix socket.

Each caller has a connection of its own, and calls one tool whose process stays, again and again. The kernel
is a process of its own, and does not sync the disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from common import Row
from growth import linear
from kernels import PATIENCE_S, no_sync, root, running, unconfined
from p04_staying import PROGRAM
from p10_doors import FLYTUI, INPUT, TOOL

from flycore.client.client import KernelClient, connect_unix
from flycore.model.enums import Status
from flycore.registry.paths import RootPaths

CALLERS = (1, 8, 64)
CALLS = {"quick": 512, "full": 4_096}


def run(size: str) -> list[Row]:
    """Measure with so many callers, one after the other."""
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        program = Path(base) / "stays.py"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        places, environ = root(Path(base), {TOOL: program}, kind="process-json-persistent")
        anyio.run(_trust, places, environ)
        server = subprocess.Popen(
            [sys.executable, "-c", FLYTUI, "--root", str(places.app_root), "serve"],
            env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert server.stdout is not None
        try:
            if not server.stdout.readline():
                raise RuntimeError("the server did not start")
            taken = {count: anyio.run(_measure, places.socket, count, CALLS[size]) for count in CALLERS}
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
            server.stdout.close()
    return [linear("one call for each of so many callers at once", taken)]


async def _trust(places: RootPaths, environ: dict[str, str]) -> None:
    async with running(places, environ):
        pass


async def _measure(socket: Path, callers: int, calls: int) -> float:
    """The seconds in which each of the callers gets one answer."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect_unix(socket)) for _ in range(callers)]
        each = calls // callers
        for client in clients:
            await _call(client, 1)
        begun = time.perf_counter()
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(_call, client, each)
        return (time.perf_counter() - begun) / each


async def _call(client: KernelClient, calls: int) -> None:
    for _ in range(calls):
        result = await client.call(TOOL, INPUT)
        if result.status is not Status.SUCCESS:
            raise RuntimeError(f"{result.error}")
