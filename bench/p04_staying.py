"""P4: a call of a persistent process, against C, against its own cold call, and against MCP over stdio.

The C caller keeps one process of the same program and sends it a request a line. The MCP side is the official
client and server; without the package `mcp` those rows are empty and say so.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import anyio
from calls import BUILD, ENVIRONMENT, ROUNDS, Figures, compiled, measure_calls, row
from common import Row
from kernels import calling, no_sync, root, running, unconfined

from flycore.model.enums import Status
from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import ProcessJsonJob, request_line
from flycore.runners.pool import ProcessKey, ProcessPool

TOOL = "bench.stays"
CALLS = {"quick": 500, "full": 3_000}
COLD = {"quick": 20, "full": 60}
KEY = ProcessKey(sidecar=TOOL, program="p", entry="e", permissions="n", level="none", caller="bench")

PROGRAM = """#!{python} -IS
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {{"ok": True, "path": request["input"]["path"], "requestId": request["requestId"]}}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""

CALLER_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static int compare(const void *a, const void *b) {
    double x = *(double *)a, y = *(double *)b;
    return (x > y) - (x < y);
}
int main(int argc, char **argv) {
    int in[2], out[2], calls = atoi(argv[2]);
    const char *request = argv[3]; size_t length = strlen(request);
    char *child[] = {argv[1], NULL}; static char buffer[65536]; pid_t pid;
    double *times = calloc(calls + 100, sizeof *times);
    posix_spawn_file_actions_t actions;
    (void)argc;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return 2;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (posix_spawn(&pid, argv[1], &actions, NULL, child, environ)) return 3;
    close(in[0]); close(out[1]);
    for (int i = -100; i < calls; i++) {
        double begun = now(); ssize_t got, all = 0;
        if (write(in[1], request, length) != (ssize_t)length) return 4;
        do {
            if ((got = read(out[0], buffer + all, sizeof buffer - all)) <= 0) return 5;
            all += got;
        } while (buffer[all - 1] != '\n');
        if (i >= 0) times[i] = now() - begun;
    }
    qsort(times, calls, sizeof *times, compare);
    printf("%f\n", times[calls / 2]);
    return 0;
}
"""

MCP_SERVER = """
import logging
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")

@server.tool()
def stays(path: str) -> str:
    "Answers."
    return path

logging.disable()
server.run()
"""


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    calls, rounds = CALLS[size], ROUNDS[size]
    job = _job()
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        places, environ = root(Path(base), {TOOL: _program()}, kind="process-json-persistent")
        measured = [
            (
                _c(job, calls),
                anyio.run(_runner, job, calls).p50,
                anyio.run(_kernel, places, environ, calls).p50,
                median(anyio.run(_cold, places, environ) for _ in range(COLD[size] // rounds)),
            )
            for _ in range(rounds)
        ]
    rows = []
    for name, which in (("the runner, without the pipeline", 1), ("the whole kernel", 2)):
        p50 = [(figures[which], figures[which] / figures[0]) for figures in measured]
        cold = [(figures[which], figures[which] / figures[3]) for figures in measured]
        rows += [
            row("p50 of a call", "µs", p50, "≤ 1.6 × C", name, most=1.6, goal="P4"),
            row("against its cold call", "µs", cold, "≤ 1/150", name, most=1 / 150, goal="P4"),
        ]
    return [*rows, *_against_mcp(measured, calls)]


def _against_mcp(measured: list[tuple[float, float, float, float]], calls: int) -> list[Row]:
    target = "≤ 0.15 × MCP"
    if find_spec("mcp") is None:
        print("P4 against MCP is not measured: the package mcp is not installed")
        return []
    mcps = [anyio.run(_mcp, calls // 5) for _ in measured]
    rows = []
    for name, which in (("the runner, without the pipeline", 1), ("the whole kernel", 2)):
        ratios = [(us[which], us[which] / mcp) for us, mcp in zip(measured, mcps, strict=True)]
        rows.append(row("against an MCP stdio call", "µs", ratios, target, name, most=0.15, goal="P4"))
    return rows


def _program() -> Path:
    BUILD.mkdir(exist_ok=True)
    path = BUILD / "stays.py"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def _job() -> ProcessJsonJob:
    return ProcessJsonJob(
        argv=(str(_program()),),
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool=TOOL,
        input={"path": "README.md"},
        project_dir="/",
    )


def _c(job: ProcessJsonJob, calls: int) -> float:
    """The p50 in µs of a caller in C that keeps the process."""
    command = (str(compiled("keeper", CALLER_C)), job.argv[0], str(calls), request_line(job, persistent=True))
    done = subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    return float(done.stdout)


async def _runner(job: ProcessJsonJob, calls: int) -> Figures:
    pool = ProcessPool(time.monotonic, lambda _: True)

    async def call() -> None:
        async with pool.slot(KEY, instances=1, idle_ms=60_000, on_wait=print) as place:
            outcome = await place.call(job)
        if outcome.status is not Status.SUCCESS:
            raise RuntimeError(outcome.message)

    try:
        return await measure_calls(call, calls, 1)
    finally:
        await pool.close()


async def _kernel(places: RootPaths, environ: dict[str, str], calls: int) -> Figures:
    async with running(places, environ) as kernel:
        return await measure_calls(calling(kernel, TOOL), calls, 1)


async def _cold(places: RootPaths, environ: dict[str, str]) -> float:
    """The time in µs of the first call, which starts the process."""
    async with running(places, environ) as kernel:
        begun = time.perf_counter()
        await calling(kernel, TOOL)()
        return (time.perf_counter() - begun) * 1e6


async def _mcp(calls: int) -> float:
    """The p50 in µs of a call with the official client and server over stdio."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-c", MCP_SERVER])
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()

        async def call() -> None:
            await session.call_tool("stays", {"path": "README.md"})

        return (await measure_calls(call, calls, 1)).p50
