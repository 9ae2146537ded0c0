"""P14: an idle console with its kernel, a card that waits, and a day of calls with the clock handed in.

The console runs in a pseudo-terminal on a registry of 100 tools. What wakes up is counted by the system: the
voluntary context switches of all threads of all processes. The card is that of a call from `flytui call`,
which nobody answers. The day is 100,000 calls of a process that stays,
made by many callers, over 24 hours of a clock that the benchmark moves on.
"""

from __future__ import annotations

import gc
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import anyio
from common import Row
from kernels import no_sync, root, running, unconfined
from p04_staying import PROGRAM
from p09_console import Terminal, project

from flycore.audit.verify import verify
from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Status
from flycore.registry.paths import RootPaths

SECONDS = {"quick": 30.0, "full": 600.0}
SETTLE_S = 45.0
"""Seconds until nothing is done any more because of the start."""
CALLS = {"quick": 2_000, "full": 100_000}
BETWEEN_S = 24 * 3600.0 / 100_000
"""Seconds of the clock between two calls. The quick size is a shorter part of the day."""
CALLERS = 20
"""So many that the process of each one stays between its calls."""
FILL = 1_000
"""Calls before the first look at the memory, which fill every limited buffer of the kernel."""
MOST_CPU, MOST_WAKEUPS, MOST_MIB, LEAST_LINES = 0.003, 3.0, 20.0, 50_000
MOST_CARD_CPU = 0.005
CARD_SETTLE_S = 10.0
"""Seconds until the card is armed and nothing but its times changes."""
FLAT_MIB = 1.0
"""The most growth of an idle console that counts as none: one arena of Python's allocator."""
TOOL = "bench.stays"
MIB = 2**20


def run(size: str) -> list[Row]:
    """Measure the idle console, then the card, then the day."""
    return [*_idle(SECONDS[size]), _waiting_card(SECONDS[size]), *_day(CALLS[size])]


def _idle(seconds: float) -> list[Row]:
    with project(100) as environ:
        console = Terminal([sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]], environ)
        try:
            console.until(b"policy ok")
            _read_for(console, SETTLE_S)
            before, memory = _Use.of(console.pid), console.memory
            drawn = _read_for(console, seconds)
            after, growth = _Use.of(console.pid), (console.memory - memory) / MIB
        finally:
            console.end()
    cpu = (after.cpu - before.cpu) / seconds
    wakeups = (after.switches - before.switches) / seconds
    note = f"{seconds:.0f} s; {drawn} bytes were drawn"
    return [
        Row("P14", "idle: share of a core", cpu * 100, "%", cpu / MOST_CPU, "≤ 0.3 %", cpu <= MOST_CPU, note),
        Row(
            "P14",
            "idle: wake-ups of all threads",
            wakeups,
            "/s",
            wakeups / MOST_WAKEUPS,
            "≤ 3 a second",
            wakeups <= MOST_WAKEUPS,
            note,
        ),
        Row("P14", "idle: growth", growth, "MiB", growth / FLAT_MIB, "flat", growth <= FLAT_MIB, note),
    ]


def _waiting_card(seconds: float) -> Row:
    with project(100) as environ:
        program = [sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]]
        console = Terminal(program, environ)
        try:
            console.until(b"policy ok")
            words = [*program, "call", "bench00.tool00000", "query=x"]
            quiet = subprocess.DEVNULL
            with subprocess.Popen(words, env=environ, stdout=quiet, stderr=quiet) as caller:
                console.until(b"keys ready")
                _read_for(console, CARD_SETTLE_S)
                before = _Use.of(console.pid)
                drawn = _read_for(console, seconds)
                cpu = (_Use.of(console.pid).cpu - before.cpu) / seconds
                caller.terminate()
        finally:
            console.end()
    note = f"{seconds:.0f} s; {drawn} bytes were drawn"
    name, ratio = "a waiting card: share of a core", cpu / MOST_CARD_CPU
    return Row("P14", name, cpu * 100, "%", ratio, "≤ 0.5 %", cpu <= MOST_CARD_CPU, note)


def _read_for(console: Terminal, seconds: float) -> int:
    """Read what the console draws, as a terminal does, and return how many bytes it was."""
    ends, drawn = time.monotonic() + seconds, 0
    while (left := ends - time.monotonic()) > 0:
        if select.select([console.leader], [], [], left)[0]:
            drawn += len(os.read(console.leader, 1 << 16))
    return drawn


class _Use:
    """What a process and all its descendants have used so far."""

    def __init__(self, switches: int, cpu: float) -> None:
        self.switches = switches
        self.cpu = cpu
        """Seconds of processor time."""

    @classmethod
    def of(cls, pid: int) -> _Use:
        switches, ticks = 0, 0
        for process in _tree(pid):
            for thread in Path(f"/proc/{process}/task").iterdir():
                status, stat = (thread / "status").read_text(), (thread / "stat").read_text()
                switches += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
                used = stat.rpartition(")")[2].split()
                ticks += int(used[11]) + int(used[12])
        return cls(switches, ticks / os.sysconf("SC_CLK_TCK"))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from _tree(int(child))


# The day.


class MovedClock:
    """A clock that goes on only when it is moved."""

    def __init__(self) -> None:
        self._at = 0.0
        self._begun = time.time(), time.monotonic()
        self._moved = anyio.Event()

    def now(self) -> float:
        """Unix time, seconds."""
        return self._begun[0] + self._at

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._begun[1] + self._at

    async def sleep_until(self, monotonic: float) -> None:
        """Wait until the clock was moved to the given value."""
        while self.monotonic() < monotonic:
            await self._moved.wait()

    def move(self, seconds: float) -> None:
        """Go on by so many seconds."""
        self._at += seconds
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


def _day(calls: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="flytui-bench-") as folder, no_sync(), unconfined():
        places, environ = _root(Path(folder))
        growth, rate = anyio.run(_day_of, places, environ, calls)
        begun = time.perf_counter()
        found = verify(places.audit_dir, places.anchors_file)
        lines = found.lines / (time.perf_counter() - begun)
    hours = calls * BETWEEN_S / 3600
    note = f"{calls:,} calls of {CALLERS} callers in {hours:.1f} h of the clock, {rate:,.0f} calls/s"
    return [
        Row("P14", "a day: growth", growth, "MiB", growth / MOST_MIB, "≤ 20 MiB", growth <= MOST_MIB, note),
        Row(
            "P14",
            "a day: verify the log",
            lines,
            "lines/s",
            lines / LEAST_LINES,
            "≥ 50,000 lines/s",
            lines >= LEAST_LINES and found.exit_code == 0,
            f"{found.lines:,} lines",
        ),
    ]


async def _day_of(places: RootPaths, environ: dict[str, str], calls: int) -> tuple[float, float]:
    """Return the growth in MiB, and the calls a second."""
    clock = MovedClock()
    with mock.patch("flycore.kernel.compose.SystemClock", return_value=clock):
        async with running(places, environ) as kernel:
            await _call(kernel, clock, FILL)
            before, begun = _memory(), time.perf_counter()
            await _call(kernel, clock, calls)
            rate = calls / (time.perf_counter() - begun)
            return (_memory() - before) / MIB, rate


def _root(base: Path) -> tuple[RootPaths, dict[str, str]]:
    program = base / "stays"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return root(base, {TOOL: program}, kind="process-json-persistent")


async def _call(kernel: Kernel, clock: MovedClock, calls: int) -> None:
    """Make calls one after the other. Raises RuntimeError where one does not succeed."""
    for number in range(calls):
        clock.move(BETWEEN_S)
        one = number % CALLERS
        caller = Caller(door="socket", program="bench", executable=f"/usr/bin/bench{one}", pid=1, started=1)
        request = CallRequest(
            call_id=kernel.new_call_id(), tool=TOOL, input={"path": f"file{number}.md"}, caller=caller
        )
        result = await kernel.call(request)
        if result.status is not Status.SUCCESS:
            raise RuntimeError(f"{result.error}")


def _memory() -> int:
    """The bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
