"""`python -m bench.profile` says where the time of one call goes, by the steps of the pipeline.

For each step it prints the median of its own time (without that of the steps within it), the system calls of
the kernel's threads (where strace is installed), the objects that are still there after it, and the most
memory that it took meanwhile. The call is that of P1: a tool in C that echoes its request, through the whole
kernel, at level `enforced`.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import anyio

sys.path.append(str(Path(__file__).parent))  # last: `profile` is a module of the standard library as well
from kernels import calling, no_sync, running
from p01_call import TOOL, echo_root

CALLS = 300
TRACED_CALLS = 40
WARM_UP = 20
MARK = "/flytui-step/"
"""Begins the path of a file that does not exist. To look for it marks the beginning of a step in a trace."""
AROUND = "around the steps"
STEPS = (
    ("1 resolve", "flycore.pipeline.pipeline", "resolve"),
    ("2 validate", "flycore.pipeline.pipeline", "canonical_form"),
    ("2 validate", "flycore.pipeline.pipeline", "validated"),
    ("3 record", "flycore.pipeline.pipeline", "record_call"),
    ("4 prepare", "flycore.pipeline.pipeline", "prepare"),
    ("4 prepare: programs and seals", "flycore.pipeline.prepare", "seal_entry"),
    ("4 prepare: policy", "flycore.pipeline.prepare", "judge"),
    ("5 admit", "flycore.pipeline.pipeline", "admission_refusal"),
    ("7 page", "flycore.pipeline.pipeline", "with_page_target"),
    ("8 authorize", "flycore.pipeline.pipeline", "authorize"),
    ("10 slot", "flycore.pipeline.pipeline", "acquire_slot"),
    ("13 execute", "flycore.pipeline.pipeline", "execute"),
    ("13 execute: the call's folder", "flycore.pipeline.execute", "_take_folder"),
    ("13 execute: the private copy", "flycore.pipeline.execute", "materialise_programs"),
    ("13 execute: the start line", "flycore.pipeline.execute", "_record_start"),
    ("13 execute: the job", "flycore.pipeline.execute", "build_job"),
    ("13 execute: request and answer", "flycore.pipeline.execute", "call_sidecar"),
    ("13 execute: pipes and the end", "flycore.runners.one_shot", "run_child"),
    ("13 execute: the start", "flycore.runners.child.run", "spawn"),
    ("13 execute: check the output", "flycore.pipeline.execute", "_validate_output"),
    ("14 result", "flycore.pipeline.pipeline", "completed"),
    ("14 result: the last line", "flycore.pipeline.pipeline", "record_result"),
)
"""The steps by the numbers of `flycore.pipeline.pipeline`, with the functions that take them. A step whose
functions take no time that could be measured is left out."""


@dataclass
class Ledger:
    """What each step used of its own. One call runs at a time: that which began last is the present one."""

    is_traced: bool
    steps: list[str] = field(default_factory=lambda: [AROUND])
    seconds: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    peak: dict[str, int] = field(default_factory=dict)
    _at: float = 0.0
    _blocks: int = 0
    _base: int = 0

    def begin_call(self) -> None:
        """Forget what was before the call."""
        self.steps, self.seconds = [AROUND], Counter()
        self._next()

    def end_call(self) -> None:
        """Count what came after the last step."""
        self._settle()

    def forget_memory(self) -> None:
        """Forget what the calls before kept and took: the first ones load modules and fill caches."""
        self.kept.clear()
        self.peak.clear()

    def enter(self, step: str) -> None:
        """Begin a step within the present one."""
        self._settle()
        self.steps.append(step)
        self._next()

    def leave(self) -> None:
        """End the present step."""
        self._settle()
        self.steps.pop()
        self._next()

    def _settle(self) -> None:
        step = self.steps[-1]
        self.seconds[step] += time.perf_counter() - self._at
        if tracemalloc.is_tracing():
            self.kept[step] += sys.getallocatedblocks() - self._blocks
            taken = tracemalloc.get_traced_memory()[1] - self._base
            self.peak[step] = max(self.peak.get(step, 0), taken)

    def _next(self) -> None:
        if self.is_traced:
            os.path.exists(f"{MARK}{self.steps[-1]}")
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
            self._base, self._blocks = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()
        self._at = time.perf_counter()


@contextmanager
def measured(ledger: Ledger) -> Iterator[None]:
    """Let the ledger know of each step in the block."""
    with ExitStack() as patches:
        for step, module, name in STEPS:
            function = getattr(import_module(module), name)
            patches.enter_context(mock.patch(f"{module}.{name}", _noting(ledger, step, function)))
        yield


def _noting(ledger: Ledger, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def direct(*args: Any, **options: Any) -> Any:
        ledger.enter(step)
        try:
            return function(*args, **options)
        finally:
            ledger.leave()

    @functools.wraps(function)
    async def awaited(*args: Any, **options: Any) -> Any:
        ledger.enter(step)
        try:
            return await function(*args, **options)
        finally:
            ledger.leave()

    return awaited if inspect.iscoroutinefunction(function) else direct


async def profile(base: Path, ledger: Ledger, calls: int) -> dict[str, list[float]]:
    """Make the calls, and return the seconds of each step in each of them."""
    places, environ = echo_root(base)
    rows: dict[str, list[float]] = {}
    async with running(places, environ) as kernel:
        call = calling(kernel, TOOL)
        for number in range(calls + WARM_UP):
            ledger.begin_call()
            await call()
            ledger.end_call()
            if number < WARM_UP:
                ledger.forget_memory()
                continue
            for step, spent in ledger.seconds.items():
                rows.setdefault(step, []).append(spent)
    return rows


def run_profile(calls: int, *, is_traced: bool = False) -> tuple[Ledger, dict[str, list[float]]]:
    """Run the calls in a root of their own."""
    ledger = Ledger(is_traced)
    with tempfile.TemporaryDirectory() as base, no_sync(), measured(ledger):
        return ledger, anyio.run(profile, Path(base), ledger, calls)


_LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)")


def system_calls() -> Counter[str]:
    """The system calls of each step in one call, by strace; empty where it is not installed."""
    strace = shutil.which("strace")
    if strace is None:
        return Counter()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = [strace, "-f", "-qq", "-o", str(trace), sys.executable, "-m", "bench.profile", "--traced"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
        )
        return _counted(trace, frozenset(done.stdout.split()))


def _counted(trace: Path, threads: frozenset[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    step = ""
    with trace.open(errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None or found[1] not in threads or "resumed>" in line:
                continue
            mark = line.partition(f'"{MARK}')[2].partition('"')[0]
            if mark:
                step = mark
            elif step:
                counts[step] += 1
    return Counter({name: count for name, count in counts.items() if count})


def main(arguments: list[str]) -> int:
    """Print the table; with `--traced`, which strace runs, the ids of the kernel's threads instead."""
    if arguments == ["--traced"]:
        run_profile(TRACED_CALLS, is_traced=True)
        print(*os.listdir("/proc/self/task"))
        return 0
    if arguments:
        print(__doc__)
        return 2
    _, times = run_profile(CALLS)
    tracemalloc.start()
    memory, _ = run_profile(TRACED_CALLS)
    tracemalloc.stop()
    calls = system_calls()
    order = dict.fromkeys((*(step for step, *_ in STEPS), AROUND))
    shown = [step for step in order if step in times]
    print(f"{'step':34}{'own time':>12}{'share':>8}{'system calls':>14}{'kept':>8}{'peak':>12}")
    whole = sum(median(times[step]) for step in shown)
    for step in shown:
        spent = median(times[step])
        counted = f"{calls[step] / (TRACED_CALLS + WARM_UP):.1f}" if calls else "-"
        kept = f"{memory.kept[step] / TRACED_CALLS:.0f}"
        print(
            f"{step:34}{spent * 1e6:>9.0f} µs{spent / whole:>8.0%}{counted:>14}{kept:>8}"
            f"{memory.peak.get(step, 0) / 1024:>8.1f} KiB"
        )
    print(f"{'all':34}{whole * 1e6:>9.0f} µs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
