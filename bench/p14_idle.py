"""P14: an idle console with its kernel, its memory, a card that waits, and a day of calls with the clock
handed in.

The console runs in a pseudo-terminal on a registry of 100 tools. What wakes up is counted by the system: the
voluntary context switches of all threads of all processes. The card is that of a call from `flytui call`,
which nobody answers. The day is 100,000 calls of a process that stays, made by many callers, over 24 hours of
a clock that the benchmark moves on.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import anyio
from common import Row
from kernels import no_sync, root, running, script
from p04_staying import PROGRAM
from p09_console import Terminal, process_tree, project
from p13_commands import await_forker
from p15_mcp_start import messages, until_listed

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Status
from flycore.registry.paths import RootPaths
from flytui.forked.address import forker_socket

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
MOST_CPU, MOST_WAKEUPS, MOST_MIB = 0.003, 3.0, 20.0
MOST_WHOLE_MIB, MOST_AGENT_MIB, AGENTS = 130.0, 5.0, 4
MOST_CARD_CPU = 0.005
CARD_SETTLE_S = 10.0
"""Seconds until the card is armed and nothing but its times changes."""
FORKER_SETTLE_S = 3.0
"""Seconds until a forked command and its forker have ended what they began."""
FLYTUI = str(Path(sys.executable).parent / "flytui")
TOOL = "bench.stays"
MIB = 2**20


def run(size: str) -> list[Row]:
    """Measure the idle console and its memory, then the card, then the day."""
    return [*_idle(SECONDS[size]), _waiting_card(SECONDS[size]), _day(CALLS[size])]


def _idle(seconds: float) -> list[Row]:
    with project(100) as environ:
        console = Terminal([sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]], environ)
        try:
            console.until(b"policy ok")
            _read_for(console, SETTLE_S)
            before = _Use.of(console.pid)
            drawn = _read_for(console, seconds)
            after = _Use.of(console.pid)
            memory = _memory_rows(console, environ)
        finally:
            console.end()
    cpu = (after.cpu - before.cpu) / seconds
    wakeups = (after.switches - before.switches) / seconds
    note, ratio = f"{seconds:.0f} s; {drawn} bytes were drawn", wakeups / MOST_WAKEUPS
    awake = "idle: wake-ups of all threads", wakeups, "/s", ratio, "≤ 3 a second", ratio <= 1, note
    return [
        Row("P14", "idle: share of a core", cpu * 100, "%", cpu / MOST_CPU, "≤ 0.3 %", cpu <= MOST_CPU, note),
        Row("P14", *awake),
        *memory,
    ]


def _memory_rows(console: Terminal, environ: dict[str, str]) -> list[Row]:
    """The memory of the console's processes and of the forker, which a command starts; and how much more it
    is with agents, whose own processes count as well."""
    command = [FLYTUI, "--root", environ["BENCH_ROOT"]]
    subprocess.run([*command, "status"], env=environ, check=True, stdout=subprocess.DEVNULL)
    await_forker(environ)
    _read_for(console, FORKER_SETTLE_S)
    pids = [*process_tree(console.pid), _forker_pid(environ)]
    alone = [_proportional_mib(pid) for pid in pids]
    with ExitStack() as stack:
        agents = [stack.enter_context(_agent(command, environ)) for _ in range(AGENTS)]
        _read_for(console, FORKER_SETTLE_S)
        more = sum(map(_proportional_mib, (*pids, *(each for pid in agents for each in process_tree(pid)))))
    whole, each = sum(alone), (more - sum(alone)) / AGENTS
    note = f"the processes have {', '.join(f'{size:.0f}' for size in alone)} MiB"
    of_all, limit = "memory of all processes", "≤ 130 MiB"
    of_agent, about = "memory of a connected agent", f"{AGENTS} agents through flytui mcp"
    return [
        Row("P14", of_all, whole, "MiB", whole / MOST_WHOLE_MIB, limit, whole <= MOST_WHOLE_MIB, note),
        Row("P14", of_agent, each, "MiB", each / MOST_AGENT_MIB, "≤ 5 MiB", each <= MOST_AGENT_MIB, about),
    ]


def _forker_pid(environ: dict[str, str]) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.connect(forker_socket(environ))
        credentials = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


@contextmanager
def _agent(command: list[str], environ: dict[str, str]) -> Iterator[int]:
    """An agent that has been told what tools there are; gives its process, which is `flytui mcp`."""
    pipe = subprocess.PIPE
    words = [*command, "mcp"]
    with subprocess.Popen(words, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(messages())
        agent.stdin.flush()
        until_listed(agent.stdout)
        yield agent.pid
        agent.stdin.close()


def _proportional_mib(pid: int) -> float:
    """The memory of a process; what several processes share is divided among them. Only root may ask so of a
    kernel and its launcher, which hold secrets: for others it is all that is resident, which is more."""
    try:
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("Pss:")[1].split()[0]) / 1024
    except PermissionError:
        return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


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
        for process in process_tree(pid):
            for thread in Path(f"/proc/{process}/task").iterdir():
                status, stat = (thread / "status").read_text(), (thread / "stat").read_text()
                switches += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
                used = stat.rpartition(")")[2].split()
                ticks += int(used[11]) + int(used[12])
        return cls(switches, ticks / os.sysconf("SC_CLK_TCK"))


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


def _day(calls: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="flytui-bench-") as folder, no_sync():
        places, environ = _root(Path(folder))
        growth, rate = anyio.run(_day_of, places, environ, calls)
    hours = calls * BETWEEN_S / 3600
    note = f"{calls:,} calls of {CALLERS} callers in {hours:.1f} h of the clock, {rate:,.0f} calls/s"
    met, ratio = growth <= MOST_MIB, growth / MOST_MIB
    return Row("P14", "a day: growth", growth, "MiB", ratio, "≤ 20 MiB", met, note)


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
    return root(base, {TOOL: script(base / "stays", PROGRAM)}, kind="process-json-persistent")


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
