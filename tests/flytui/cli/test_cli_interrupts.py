"""Signals end a command cleanly, however early they come."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from flytui.cli import interrupts
from flytui.cli.interrupts import ENDING_SIGNALS, SignalInterrupt, run_async


@pytest.mark.parametrize("signum", ENDING_SIGNALS)
def test_a_signal_ends_the_work_and_its_clean_up_runs(signum: signal.Signals) -> None:
    seen: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), signum)
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("clean")

    with pytest.raises(SignalInterrupt) as ended:
        run_async(work)
    assert ended.value.exit_code == 128 + signum
    assert seen == ["clean"]


def test_a_hangup_that_nohup_ignores_ends_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await anyio.lowlevel.checkpoint()
        return "went on"

    assert run_async(work) == "went on"


def test_an_interrupt_before_the_handlers_are_in_place_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's own handler cancels the main task: that must not come out as a traceback."""

    async def early(*_: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    monkeypatch.setattr(interrupts, "_until_signalled", early)
    with pytest.raises(SignalInterrupt) as ended:
        run_async(anyio.sleep_forever)
    assert ended.value.exit_code == 130


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Whatever a loop leaves behind, later tests find the handlers of before."""
    before = {signum: signal.getsignal(signum) for signum in ENDING_SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)
