"""The children of suite S2: each misbehaves in its own way, and each call has to end as its line says.

Run as a program, this module calls many of them at once and prints what went wrong and how much memory was
left over: in a process that does nothing else, since a test process moves by more than what is looked for.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from flycore.model.enums import Code, Level, Status
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar
from kits.sandbox_levels import python_confined

AT_ONCE = 16
WARM_UP = 50
"""Calls before the memory is measured: everything that is made once has been made then."""
GOOD = """import os, sys, time, signal
def answer(text='{"ok": true, "n": 1}\\n'):
    os.write(1, text.encode())
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    %s
    time.sleep(600)
    os._exit(0)
os.wait()
"""
FAILED = Status.FAILED


@dataclass(frozen=True)
class Hostile:
    """A child and how its call has to end."""

    code: str
    status: Status = Status.SUCCESS
    error: str = ""
    timeout_ms: int = 600_000
    input_bytes: int = 0


def megabytes(fd: int) -> str:
    """Code that writes as many MiB to that descriptor as the job says."""
    return f"for _ in range(SIZE): os.write({fd}, b'x' * 1048576)\n"


CHILDREN = {
    "good": Hostile("sys.stdin.read(); answer()"),
    "leaves before reading 8 MB of stdin": Hostile("answer()", input_bytes=8_000_000),
    "closes stdin then answers": Hostile("os.close(0); answer()", input_bytes=8_000_000),
    "1 GB on stdout": Hostile(megabytes(1), FAILED, Code.OUTPUT_LIMIT),
    "endless stdout": Hostile("while True: os.write(1, b'x' * 65536)", FAILED, Code.OUTPUT_LIMIT),
    "1 GB on stderr with a good answer": Hostile(megabytes(2) + "answer()"),
    "never answers": Hostile("time.sleep(600)", FAILED, Code.TIMEOUT, 300),
    "drips a byte every 50 ms": Hostile(
        "while True: os.write(1, b' '); time.sleep(0.05)", FAILED, Code.TIMEOUT, 300
    ),
    "stops itself": Hostile("os.kill(os.getpid(), signal.SIGSTOP); answer()", FAILED, Code.TIMEOUT, 300),
    "ignores TERM": Hostile(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", FAILED, Code.TIMEOUT, 300
    ),
    "segfault": Hostile("os.kill(os.getpid(), signal.SIGSEGV)", FAILED, Code.EXIT),
    "exit 3 with a good answer": Hostile("answer(); os._exit(3)", FAILED, Code.EXIT),
    "grandchild holds stdout": Hostile("answer()\nif os.fork() == 0: time.sleep(600)"),
    "double-forked session leader holds stdout": Hostile("answer()" + DAEMON % "pass"),
    "double-forked daemon with closed descriptors": Hostile("answer()" + DAEMON % "os.closerange(0, 64)"),
    "daemon that hides where it came from": Hostile(
        "answer()" + DAEMON % "os.closerange(0, 64); os.execve('/bin/sleep', ['sleep', '600'], {})"
    ),
    "writes after its parent has left": Hostile(
        "answer()\nif os.fork() == 0:\n while True: os.write(1, b'more\\n')"
    ),
    "50 zombie children": Hostile("for _ in range(50):\n if os.fork() == 0: os._exit(0)\nanswer()"),
    "200 forks": Hostile("for _ in range(200):\n if os.fork() == 0: time.sleep(600)\nanswer()"),
    "closes stdout and stays": Hostile("answer(); os.close(1); time.sleep(600)", FAILED, Code.TIMEOUT, 300),
    "kills its own group": Hostile("os.killpg(0, signal.SIGKILL)", FAILED, Code.EXIT),
    "writes to its stdin": Hostile("try: os.write(0, b'x')\nexcept OSError: answer()\n", input_bytes=100_000),
    "invalid UTF-8": Hostile('os.write(1, b\'{"ok": true, "n": "\\xff"}\')', FAILED, Code.INVALID_OUTPUT),
    "two answers": Hostile("answer(); answer()"),
}

MakeJob = Callable[..., ProcessJsonJob]


def job_of(sidecar: MakeJob, child: Hostile, megabytes: int) -> ProcessJsonJob:
    """The job that runs the child, which writes that many MiB where it writes much."""
    return sidecar(
        GOOD + child.code.replace("SIZE", str(megabytes)),
        timeout_ms=child.timeout_ms,
        input={"text": "x" * child.input_bytes},
    )


def python_jobs(folder: Path, level: Level = Level.NONE) -> MakeJob:
    """Makes a job that runs Python code without site and environment, at that level; fields of the job by
    keyword."""
    numbers = itertools.count()
    start = None if level is Level.NONE else python_confined(level, folder)

    def make(code: str, **fields: Any) -> ProcessJsonJob:
        call_id = fields.setdefault("call_id", f"{os.getpid()}-{folder.name}-{next(numbers)}")
        argv = (sys.executable, "-I", "-S", "-c", code)
        env = {"PATH": "/usr/bin:/bin", "FLYTUI_CALL_ID": call_id}
        return ProcessJsonJob(
            **{
                "argv": argv,
                "env": env,
                "confine": start,
                "cwd": str(folder),
                "tool": "test.tool",
                "input": {},
                "project_dir": str(folder),
                "timeout_ms": 60_000,
                **fields,
            }
        )

    return make


async def soak(sidecar: MakeJob, calls: int, megabytes: int) -> tuple[list[str], int]:
    """Call that many children, 16 at once; the calls that ended wrongly, and the bytes left over."""
    order = [list(CHILDREN)[number % len(CHILDREN)] for number in range(calls)]
    random.Random(2).shuffle(order)
    wrong: list[str] = []

    async def one(name: str) -> None:
        child = CHILDREN[name]
        outcome = await call_sidecar(job_of(sidecar, child, megabytes))
        if (outcome.status, outcome.code) != (child.status, child.error):
            wrong.append(f"{name}: {outcome.status} {outcome.code} {outcome.message}")

    async def each(names: Iterator[str]) -> None:
        for name in names:
            await one(name)

    async def many(names: list[str]) -> None:
        # As many tasks as calls at once: the memory of a thousand that wait would count as left over.
        shared = iter(names)
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(each, shared)

    await many(order[:WARM_UP])
    before = resident_bytes()
    await many(order[WARM_UP:])
    return wrong, resident_bytes() - before


def resident_bytes() -> int:
    """What is held: garbage, and what the allocator keeps for the next 8 MB, are given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    report = anyio.run(
        soak, python_jobs(Path(sys.argv[1]), Level(sys.argv[4])), int(sys.argv[2]), int(sys.argv[3])
    )
    print(json.dumps(report))
