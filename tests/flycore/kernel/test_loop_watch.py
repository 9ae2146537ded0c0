"""The watchdog notes that the event loop stood still, and where."""

from __future__ import annotations

import asyncio
import time

import anyio
import anyio.lowlevel
import pytest

from flycore.kernel.doctor import check_loop
from flycore.kernel.loop_watch import LONG_PAUSE_SECONDS, MOST_PAUSES, LoopWatch, watch_loop
from flycore.model.diagnostics import CheckState
from flycore.model.large_values import run_aside
from kits.values import status_of


@pytest.mark.anyio
async def test_a_pause_is_noted_with_its_place() -> None:
    with watch_loop() as watch:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        # `time.sleep` is called by a function of the distribution here, as it would be by a slow step.
        await run_aside(False, time.sleep, 10 * LONG_PAUSE_SECONDS)
        await anyio.lowlevel.checkpoint()
    assert watch.count >= 1
    assert watch.longest_ms >= 1000 * LONG_PAUSE_SECONDS
    assert any("flycore.model.large_values.run_aside" in pause.place for pause in watch.pauses)


@pytest.mark.anyio
async def test_nothing_is_kept_without_bound() -> None:
    watch = LoopWatch()
    for number in range(3 * MOST_PAUSES):
        watch.begin_turn()
        watch._turn_began = time.monotonic() - 1 - number
        watch.end_turn()
    assert watch.count == 3 * MOST_PAUSES
    assert len(watch.pauses) == MOST_PAUSES


@pytest.mark.anyio
async def test_the_loop_is_left_as_it_was() -> None:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # private to asyncio
    before = selector.select
    with watch_loop():
        with watch_loop():
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    assert selector.select == before


def test_doctor_names_the_place() -> None:
    assert check_loop(status_of()).state is CheckState.OK
    short = check_loop(status_of(loop_pauses=2, longest_pause_ms=150, latest_pause="150 ms in flycore.x.y"))
    assert short.state is CheckState.OK
    assert "flycore.x.y" in short.message
    assert check_loop(status_of(loop_pauses=1, longest_pause_ms=9_000)).state is CheckState.WARN
