"""Suite S14: a thousand calls of twenty callers, and a caller that asks a thousand times."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code
from flycore.model.events import EventClass
from kits.kernel import ECHO, PATIENCE, a_caller, kernel_of, request, until
from kits.load import (
    MIB,
    MIX,
    flood,
    lines_of_calls,
    load_root,
    marks,
    overlaps,
    refused_for,
    run_load,
    waiting_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

FULL = os.environ.get("FLYTUI_SUITES") == "full"
CALLS = 1_000 if FULL else 75
REQUESTS = 1_000 if FULL else 300
PER_CALLER = 5
MOST_GROWTH = 30 * MIB


async def test_no_call_is_lost_none_runs_twice_and_a_group_never_overlaps(tmp_path: Path) -> None:
    root = load_root(tmp_path)
    async with kernel_of(root) as kernel:
        first = await run_load(kernel, range(CALLS))
        again = await run_load(kernel, range(CALLS, 2 * CALLS)) if FULL else first
        assert kernel.status().running == 0
    results = {**first.results, **again.results}
    assert first.wrong() == again.wrong() == []
    assert sorted(results) == sorted(marks(root))
    assert set(marks(root).values()) == {1}
    assert overlaps(root) == 0
    made = {result.call_id: 1 for result in results.values()}
    assert len(made) == len(results) == (2 * CALLS if FULL else CALLS)
    for event, counted in lines_of_calls(root, "TOOL_CALLED", "TOOL_STARTED", "TOOL_EXECUTED").items():
        assert counted == made, event
    assert {MIX[number % len(MIX)] for number in results} == set(MIX)
    if FULL:
        assert again.growth <= MOST_GROWTH


async def test_many_requests_of_one_caller_leave_room_for_another(tmp_path: Path) -> None:
    root = load_root(tmp_path)
    root.sidecar("asked", ECHO)
    root.policy()
    most = 0
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:

        async def watch() -> None:
            nonlocal most
            with kernel.bus.subscribe(frozenset({EventClass.APPROVAL})) as events:
                async for _ in events:
                    most = max(most, kernel.status().waiting)

        group.start_soon(watch)
        results = await flood(kernel, group, REQUESTS, "asked.do")
        other = a_caller("other", 7)
        with anyio.fail_after(PATIENCE):
            group.start_soon(kernel.call, request(kernel, "asked.do", caller=other))
            await until(lambda: waiting_of(kernel, "other"))
        await until(lambda: len(results) == REQUESTS - PER_CALLER)
        assert refused_for(results, Code.QUEUE_FULL) == REQUESTS - PER_CALLER
        kept = [ask.request.subject.input for ask in waiting_of(kernel, "agent")]
        assert kept == [{"n": number} for number in range(PER_CALLER)]
        await until(lambda: most)
        assert most <= PER_CALLER + 1
        group.cancel_scope.cancel()
    decided = lines_of_calls(root, "APPROVAL_DECIDED")["APPROVAL_DECIDED"]
    assert len(decided) == REQUESTS + 1
    assert set(decided.values()) == {1}
