"""P1, the whole kernel: a call of a C echo sidecar against C's own posix_spawn of the same program.

Everything is on: trust, policy (the user's own allow), both schemas, the program followed and sealed anew,
quota, the artifact folder, session, deadline, bounded output, pidfd, and three audit lines a call. Only
`fsync` is made to do nothing: it would measure the disk.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

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

from flycore.kernel.compose import open_kernel
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import RootLock
from flycore.model.call import Caller, CallRequest
from flycore.model.catalog import CapabilityView
from flycore.model.enums import Effective, Status
from flycore.registry.places import Places, find_places
from flycore.runners.process_json import ProcessJsonJob, request_line

IN_PLACE = "the whole kernel"
COPIED = "the whole kernel, run from a private copy"
TOOLS = {"bench.echo": "in-place", "bench.copied": "auto"}
CALLER = Caller(door="socket", program="bench", executable="/usr/bin/bench", pid=1, started=1)
PATIENCE_S = 20.0
Call = Callable[[], Awaitable[None]]


def run(size: str) -> list[Row]:
    """All rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, _no_sync():
        places, environ = _root(Path(base))
        return anyio.run(_rows, places, environ, size)


async def _rows(places: Places, environ: dict[str, str], size: str) -> list[Row]:
    echo, calls, rounds = echo_program(), CALLS[size], ROUNDS[size]
    request = request_line(_job(echo, places))
    c_reference = c_caller(echo, request, calls)
    ours, anyios = partial(_measure, places, environ, calls), partial(_anyio, echo, request, calls)
    alone = [(c_reference(1), await ours("bench.echo", 1), await anyios()) for _ in range(rounds)]
    rows = one_at_a_time(alone, IN_PLACE)
    for width in IN_FLIGHT:
        many = [(c_reference(width), await ours("bench.echo", width)) for _ in range(rounds)]
        rows.append(in_flight(width, many, IN_PLACE))
    async with _kernel(places, environ) as kernel:
        call = _call(kernel, "bench.echo")
        await call()
        rows.append(await threads(call, len(os.listdir("/proc/self/task")), IN_PLACE))
    rows.append(await _large_parent(lambda: ours("bench.echo", 1), rounds))
    copied = [(c_reference(1), await ours("bench.copied", 1)) for _ in range(rounds)]
    p50 = [(figures.p50, figures.p50 / c.p50) for c, figures in copied]
    return [*rows, row("p50 of a call", "µs", p50, "≤ 1.5 × C", COPIED, most=1.5)]


async def _measure(places: Places, environ: dict[str, str], calls: int, tool: str, width: int) -> Figures:
    async with _kernel(places, environ) as kernel:
        return await measure_calls(_call(kernel, tool), calls, width)


async def _anyio(echo: Path, request: bytes, calls: int) -> Figures:
    async def call() -> None:
        await anyio.run_process([str(echo)], input=request, env=ENVIRONMENT, cwd="/", start_new_session=True)

    return await measure_calls(call, calls, 1)


async def _large_parent(measure: Callable[[], Awaitable[Figures]], rounds: int) -> Row:
    p50: list[tuple[float, float]] = []
    for _ in range(rounds):
        small = (await measure()).p50
        held = ballast()
        large = (await measure()).p50
        del held
        p50.append((large, large / small))
    return row("p50 with a 1 GiB parent", "µs", p50, "≤ 1.15 × small", IN_PLACE, most=1.15)


def _call(kernel: Kernel, tool: str) -> Call:
    async def call() -> None:
        request = CallRequest(
            call_id=kernel.new_call_id(), tool=tool, input={"path": "README.md"}, caller=CALLER
        )
        result = await kernel.call(request)
        if result.status is not Status.SUCCESS:
            raise RuntimeError(f"{result.error}")

    return call


@asynccontextmanager
async def _kernel(places: Places, environ: dict[str, str]) -> AsyncIterator[Kernel]:
    """A kernel for one measurement, so that its quota starts anew; everything in its registry is trusted."""
    with RootLock.acquire(places, "console") as holder:
        async with open_kernel(places, holder, environ) as kernel:
            kernel.approver.attach((), ())
            waiting = kernel.pending_trust()
            await kernel.approver.trust(tuple((item.sidecar, item.digest) for item in waiting))
            with anyio.fail_after(PATIENCE_S):
                await _available(kernel)
            yield kernel


async def _available(kernel: Kernel) -> None:
    with kernel.bus.subscribe() as changes:
        while any(view.stability.effective is not Effective.AVAILABLE for view in _offered(kernel)):
            await anext(aiter(changes))


def _offered(kernel: Kernel) -> list[CapabilityView]:
    return [view for view in kernel.catalog().capabilities if view.capability.name in TOOLS]


@contextmanager
def _no_sync() -> Iterator[None]:
    with mock.patch("os.fsync", _nothing):
        yield


def _nothing(descriptor: int) -> None:
    """In the place of `os.fsync`."""


def _root(base: Path) -> tuple[Places, dict[str, str]]:
    """An app root whose two sidecars are the echo program, and the environment its kernel runs in."""
    project, config = base / "project", base / "config" / "flytui"
    (project / "tools").mkdir(parents=True)
    config.mkdir(parents=True)
    environ = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(base),
        "LANG": "C.UTF-8",
        **{f"XDG_{kind}_HOME": str(base / kind.lower()) for kind in ("CONFIG", "STATE", "DATA", "CACHE")},
    }
    sidecars = {tool: _sidecar(project, tool, seal) for tool, seal in TOOLS.items()}
    (project / "tools" / "external.tools.jsonc").write_text(
        json.dumps({"schemaVersion": 2, "sidecars": sidecars})
    )
    rule = {"tool": "bench.*", "decision": "allow", "because": "it is measured"}
    (config / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": [rule]}))
    (config / "config.jsonc").write_text(json.dumps({"quota": {"callsPerMinute": 100_000, "running": 1_000}}))
    return find_places(str(project), None, environ, project), environ


def _sidecar(project: Path, tool: str, seal: str) -> dict[str, object]:
    """The program, alone in its folder, and its entry."""
    folder = project / "tools" / tool
    folder.mkdir()
    program = folder / "echo"
    program.write_bytes(echo_program().read_bytes())
    program.chmod(0o755)
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    described = {
        "name": tool,
        "description": "Answers.",
        "risk": "low",
        "inputSchema": {**schema, "additionalProperties": False},
        "outputSchema": {"type": "object"},
    }
    return {"command": f"./tools/{tool}/echo", "seal": seal, "tools": [described]}


def _job(echo: Path, places: Places) -> ProcessJsonJob:
    """The request as the kernel writes it, for the others to write as well."""
    return ProcessJsonJob(
        argv=(str(echo),),
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool="bench.echo",
        input={"path": "README.md"},
        project_dir=str(places.app_root),
        artifact_dir=str(places.state_dir / "artifacts" / "bench"),
    )
