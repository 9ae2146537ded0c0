"""How many processes a call may have, and that what has ended below a call is reaped while others run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, Status
from flycore.model.sidecar import DEFAULT_PROCESSES, Limits
from flycore.runners.child import tree_watch
from flycore.runners.child.process_tree import ProcessTree, exceeds
from flycore.runners.one_shot import RunOutcome, call_sidecar
from flysafe.procfs import children_of, processes_below, read_process
from kits.hostile_children import GOOD, MakeJob
from kits.kernel import Root, kernel_of, request, tool, until
from kits.mcp_servers import PLAIN_NOTES, connected, server_of
from kits.programs import needs_bubblewrap
from kits.started_children import started_children

pytestmark = pytest.mark.anyio

RUNAWAY = """
for _ in range({count}):
    if os.fork() == 0:
        {further}
        time.sleep(600)
time.sleep(600)
"""
FURTHER = {
    "one group": "pass",
    "own sessions": "os.setsid()",
    "orphans": "os.setsid(); os.fork() and os._exit(0)",
    "zombies": "os._exit(0)",
    "no subreaper": "os.setsid(); os.fork() and os._exit(0)",
}
SHEDS = "import ctypes; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)\n"
ORPHANS = (
    SHEDS
    + """
reading, writing = os.pipe()
for _ in range(300):
    if (pid := os.fork()) == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.waitpid(pid, 0)
open("go").read()
os.close(writing)
open("end").read()
answer()
"""
)
PERSISTENT = """#!/usr/bin/env python3
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    for _ in range(request["input"].get("forks", 0)):
        if os.fork() == 0:
            time.sleep(600)
    print(json.dumps({"ok": True, "requestId": request["requestId"]}), flush=True)
"""


def assert_limited(outcome: RunOutcome, most: int) -> None:
    assert (outcome.status, outcome.code) == (Status.FAILED, Code.PROCESS_LIMIT), outcome
    assert f"more than {most} processes" in outcome.message
    assert "limits.processes" in outcome.hint
    assert (outcome.details["processes"], outcome.survivors) == (most, 0)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", FURTHER)
async def test_a_call_with_too_many_processes_is_ended(name: str, sidecar: MakeJob) -> None:
    code = GOOD + (SHEDS if name == "no subreaper" else "") + RUNAWAY.format(count=40, further=FURTHER[name])
    outcome = await call_sidecar(sidecar(code, limits=Limits(processes=16), timeout_ms=600_000))
    assert_limited(outcome, 16)


@pytest.mark.usefixtures("nothing_left")
async def test_a_runaway_is_ended_without_a_limit_of_its_own(sidecar: MakeJob) -> None:
    code = GOOD + RUNAWAY.format(count=DEFAULT_PROCESSES + 50, further="os.setsid()")
    assert_limited(await call_sidecar(sidecar(code, timeout_ms=600_000)), DEFAULT_PROCESSES)


@pytest.mark.usefixtures("nothing_left")
async def test_each_call_counts_its_own_processes(sidecar: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    code = GOOD + "for _ in range(9):\n if os.fork() == 0: time.sleep(600)\n"
    code += "while not os.path.exists('go'): time.sleep(0.01)\nanswer()"
    jobs = [sidecar(code, limits=Limits(processes=10), timeout_ms=600_000) for _ in range(3)]
    looks: list[bool] = []

    def look(tree: ProcessTree, most: int) -> bool:
        looks.append(exceeds(tree, most))
        return looks[-1]

    monkeypatch.setattr(tree_watch, "exceeds", look)
    outcomes: list[RunOutcome] = []

    async def one(number: int) -> None:
        outcomes.append(await call_sidecar(jobs[number]))

    before = started_children()
    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(one, number)
        await until(lambda: len(processes_below(started_children() - before, 31)) == 30)
        seen = len(looks)
        await until(lambda: len(looks) >= seen + 2 * 3)
        await anyio.Path(jobs[0].cwd, "go").touch()
    assert [outcome.status for outcome in outcomes] == [Status.SUCCESS] * 3


@pytest.mark.usefixtures("nothing_left")
async def test_orphans_that_end_are_reaped_while_their_call_runs(sidecar: MakeJob) -> None:
    job = sidecar(GOOD + ORPHANS, timeout_ms=600_000)
    for name in ("go", "end"):
        os.mkfifo(Path(job.cwd) / name)
    before = started_children()
    outcomes: list[RunOutcome] = []

    async def run() -> None:
        outcomes.append(await call_sidecar(job))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: len(started_children() - before) == 301)
        await anyio.Path(job.cwd, "go").write_bytes(b"")
        await until(lambda: len(started_children() - before) == 1)
        assert outcomes == []
        await anyio.Path(job.cwd, "end").write_bytes(b"")
    assert outcomes[0].status is Status.SUCCESS


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.policy({"tool": "*", "decision": "allow", "because": "test"})
    return made


async def test_a_program_that_serves_several_calls_is_ended_with_its_call(root: Root) -> None:
    root.sidecar("stay", PERSISTENT, tool("stay.do"), kind="process-json-persistent", limits={"processes": 8})
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "stay.do"))).status is Status.SUCCESS
        # It answers at once, and the next call meets what it has started.
        await kernel.call(request(kernel, "stay.do", {"forks": 20}))
        await until(lambda: len(children_of_calls()) == 0)
        assert (await kernel.call(request(kernel, "stay.do"))).status is Status.SUCCESS


async def test_an_mcp_server_with_too_many_processes_is_ended(root: Root) -> None:
    forks = "for _ in range(20): os.fork() or __import__('time').sleep(600)"
    script = PLAIN_NOTES.replace(
        '    if name == "fail":',
        f'    if name == "look":\n        {forks}\n        sys.stdin.read()\n    if name == "fail":',
        1,
    )
    server_of(root, "notes", script, limits={"processes": 8})
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        result = await kernel.call(request(kernel, "notes.look"))
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.FAILED, Code.PROCESS_LIMIT)


async def test_a_confined_call_counts_its_processes(root: Root) -> None:
    needs_bubblewrap()
    script = f"#!{sys.executable}\nimport os, sys, time\nsys.stdin.readline()\n"
    script += RUNAWAY.format(count=40, further="os.setsid()")
    root.sidecar("bound", script, tool("bound.do"), permissions={}, limits={"processes": 16})
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "bound.do"))
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.FAILED, Code.PROCESS_LIMIT)
        assert str(result.error.hint).startswith("raise limits.processes")


def children_of_calls() -> set[int]:
    """The processes below the programs that this process has started."""
    leaders = started_children()
    return {child for leader in leaders for child in children_of(leader) if read_process(child) is not None}
