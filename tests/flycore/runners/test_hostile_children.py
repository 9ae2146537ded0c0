"""Suite S2 at level none: whatever a child does, a typed outcome, and nobody and nothing left behind."""

from __future__ import annotations

import ctypes
import gc
import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import pytest

from flycore.model.enums import Code, Status
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar
from flysafe.procfs import own_children

FULL = os.environ.get("FLYTUI_SUITES") == "full"
SOAK = 1_000 if FULL else 100
WARM_UP = 50
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
    timeout_ms: int = 60_000
    input_bytes: int = 0


def megabytes(fd: int) -> str:
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


def make(sidecar: MakeJob, child: Hostile, megabytes: int) -> ProcessJsonJob:
    return sidecar(
        GOOD + child.code.replace("SIZE", str(megabytes)),
        timeout_ms=child.timeout_ms,
        input={"text": "x" * child.input_bytes},
    )


@pytest.mark.anyio
@pytest.mark.suite
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", CHILDREN)
async def test_each_child_ends_as_it_must(name: str, sidecar: MakeJob) -> None:
    child = CHILDREN[name]
    outcome = await call_sidecar(make(sidecar, child, 1024))
    assert (outcome.status, outcome.code) == (child.status, child.error), outcome
    assert len(outcome.stderr_tail) <= 65_536
    if child.status is Status.SUCCESS:
        assert outcome.output == {"n": 1}
    else:
        assert outcome.message


@pytest.mark.anyio
@pytest.mark.suite
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.timeout(900 if FULL else 120)
@pytest.mark.long
async def test_soak_of_hostile_spawns_sixteen_at_once(sidecar: MakeJob) -> None:
    order = [list(CHILDREN)[number % len(CHILDREN)] for number in range(SOAK)]
    random.Random(2).shuffle(order)
    wrong: list[str] = []
    slots = anyio.Semaphore(16)

    async def one(name: str) -> None:
        async with slots:
            child = CHILDREN[name]
            outcome = await call_sidecar(make(sidecar, child, 1024 if FULL else 16))
            if (outcome.status, outcome.code) != (child.status, child.error):
                wrong.append(f"{name}: {outcome.status} {outcome.code} {outcome.message}")

    async def many(names: list[str]) -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)

    await many(order[:WARM_UP])  # everything that is made once has been made
    before = resident_bytes()
    await many(order[WARM_UP:])
    assert wrong == []
    assert resident_bytes() - before <= 4 * 1_048_576


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_is_not_of_a_call_is_left_alone(sidecar: MakeJob) -> None:
    bystander = await anyio.open_process(["/bin/sleep", "600"])
    try:
        await call_sidecar(make(sidecar, CHILDREN["200 forks"], 1))
        assert bystander.pid in own_children()
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_ending_one_call_leaves_the_tree_of_another(sidecar: MakeJob) -> None:
    staying = GOOD + "pid = os.fork()\nif pid == 0: time.sleep(600)\nsys.stdin.read()\n"
    staying += "open('up', 'w').close()\nopen('go').read()\n"
    staying += 'answer(\'{"ok": true, "alive": %s}\' % str(os.waitpid(pid, os.WNOHANG)[0] == 0).lower())'
    job = sidecar(staying)
    results = []
    up, go = (os.path.join(job.cwd, name) for name in ("up", "go"))
    os.mkfifo(up)
    os.mkfifo(go)

    async def stay() -> None:
        results.append(await call_sidecar(job))

    async with anyio.create_task_group() as group:
        group.start_soon(stay)
        await anyio.Path(up).read_bytes()
        await call_sidecar(make(sidecar, CHILDREN["daemon that hides where it came from"], 1))
        await anyio.Path(go).write_bytes(b"")
    assert results[0].output == {"alive": True}


def resident_bytes() -> int:
    """What is held: garbage, and what the allocator keeps for the next 8 MB, are given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
