"""Signals end a command cleanly, however early they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

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


def test_an_interrupt_before_the_work_begins_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is cancelled at its first pause: that must not come out as a traceback."""
    begin = interrupts._until_signalled

    async def early(*given: Any) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return await begin(*given)

    monkeypatch.setattr(interrupts, "_until_signalled", early)
    with pytest.raises(SignalInterrupt) as ended:
        run_async(anyio.sleep_forever)
    assert ended.value.exit_code == 130


STORM = """
import sys
import anyio
from flytui.cli import main as cli, root_command
from flytui.cli.interrupts import run_async

async def work():
    print("ready", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)

root_command.flytui.main = lambda **given: run_async(work)
sys.exit(cli.main())
"""


def test_a_storm_of_signals_never_ends_the_process_by_the_raw_signal() -> None:
    """Signals come faster than a handler in Python could end; it would run inside itself without end."""
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", STORM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            assert child.stdout.readline() == "ready\n"
            while child.poll() is None:
                for number in ENDING_SIGNALS:
                    child.send_signal(number)
            assert child.returncode in {128 + number for number in ENDING_SIGNALS}
            assert child.stderr.read() == ""


def test_without_a_signal_the_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in ENDING_SIGNALS]

    async def work() -> str:
        return "done"

    assert run_async(work) == "done"
    assert [signal.getsignal(number) for number in ENDING_SIGNALS] == before


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Whatever a loop leaves behind, later tests find the handlers of before."""
    before = {signum: signal.getsignal(signum) for signum in ENDING_SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)
