"""P1 with the runner alone: a call of a C echo sidecar against C's own posix_spawn of the same program."""

from __future__ import annotations

import os

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

from flycore.model.enums import Status
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar, request_line

NOTE = "the runner, without the pipeline"


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    echo, calls, rounds = echo_program(), CALLS[size], ROUNDS[size]
    job = ProcessJsonJob(
        argv=(str(echo),),
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool="bench.echo",
        input={"path": "README.md"},
        project_dir="/",
    )
    request = request_line(job)
    c_reference = c_caller(echo, request, calls)

    async def call() -> None:
        outcome = await call_sidecar(job)
        if outcome.status is not Status.SUCCESS:
            raise RuntimeError(outcome.message)

    async def anyio_call() -> None:
        await anyio.run_process(job.argv, input=request, env=job.env, cwd=job.cwd, start_new_session=True)

    def ours(width: int) -> Figures:
        return anyio.run(measure_calls, call, calls, width)

    def anyios() -> Figures:
        return anyio.run(measure_calls, anyio_call, calls, 1)

    rows = one_at_a_time([(c_reference(1), ours(1), anyios()) for _ in range(rounds)], NOTE)
    for width in IN_FLIGHT:
        rows.append(in_flight(width, [(c_reference(width), ours(width)) for _ in range(rounds)], NOTE))
    rows.append(anyio.run(threads, call, len(os.listdir("/proc/self/task")), NOTE))
    p50: list[tuple[float, float]] = []
    for _ in range(rounds):
        small = ours(1).p50
        memory = ballast()
        large = ours(1).p50
        del memory
        p50.append((large, large / small))
    rows.append(row("p50 with a 1 GiB parent", "µs", p50, "≤ 1.15 × small", NOTE, most=1.15))
    return rows
