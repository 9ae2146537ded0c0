"""The limit of memory of all processes of a call together, where a control group can hold it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flycore.model.enums import Code, Level, Status
from flycore.model.sidecar import Limits
from flycore.runners.child.run import RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.one_shot import call_sidecar
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import degraded_launch, enforced_launch
from flycore.sandbox.observation import why_not_observed
from flysafe import control_groups
from flysafe.control_groups import MemoryControl, MemoryGroups
from kits.control_groups import EVENTS, run_in_delegated_group, tree_of_files
from kits.hostile_children import GOOD, MakeJob
from kits.kernel import Root, kernel_of, request, tool
from kits.mcp_servers import PLAIN_NOTES, connected, server_of
from kits.sandbox_levels import needs_level

MIB = 1 << 20
LIMIT = Limits(memory_bytes=512 * MIB)
EXCEEDS = """
import os, signal
(folder,) = (entry.path for entry in os.scandir({tree!r}) if entry.is_dir())
with open(folder + "/memory.events", "w") as file:
    file.write({events!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
PERSISTENT = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["input"].get("exceeds"):
        {exceeds}
    print(json.dumps({{"ok": True, "requestId": request["requestId"]}}), flush=True)
"""
TRIAL = '''
"""Calls in a real delegated group: the outcomes, and what is left."""
import json, os, sys
from pathlib import Path

sys.path[:0] = {path!r}
from flysafe.control_groups import claim, look_for_delegation

found = look_for_delegation()
control = claim()
import anyio
from flycore.model.enums import Level
from flycore.model.sidecar import Limits
from flycore.runners.one_shot import call_sidecar
from flycore.sandbox.detection import check_level
from kits.hostile_children import python_jobs
from kits.sandbox_levels import python_confined

IN_PARTS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = b"x" * (40 << 20)
        time.sleep(600)
time.sleep(600)
"""
LOSES_A_CHILD = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = b"x" * (40 << 20)
        time.sleep(600)
os.wait()
os.write(1, b'{{"ok": true}}')
"""
GOOD = """
import os
held = b"x" * (40 << 20)
shown = open("/proc/self/cgroup").read()
os.write(1, b'{{"ok": true}}')
"""

async def outcomes(folder, level):
    make = python_jobs(folder)
    more = {{}} if level is Level.NONE else {{"confine": python_confined(level, folder)}}
    limits = Limits(memory_bytes=120 << 20)
    shown = []
    for code in (IN_PARTS, LOSES_A_CHILD, GOOD):
        outcome = await call_sidecar(make(code, limits=limits, **more))
        shown.append([str(outcome.status), str(outcome.code), outcome.survivors, outcome.unconfined])
    return shown

told = {{"found": found.group, "why_not": control.why_not, "levels": {{}}}}
for level in (Level.NONE, Level.DEGRADED, Level.ENFORCED):
    if control.groups is not None and check_level(level).works:
        folder = Path({folder!r}) / level.value
        folder.mkdir()
        told["levels"][level.value] = anyio.run(outcomes, folder, level)
if control.groups is not None:
    control.groups.remove_left()
    told["left"] = sorted(name for name in os.listdir(found.group) if name.startswith("flytui"))
print(json.dumps(told))
'''


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree of ordinary files in the place of the group that was delegated to this process."""
    folder = tmp_path / "groups"
    folder.mkdir()
    monkeypatch.setattr(control_groups, "_claimed", [MemoryControl(MemoryGroups(str(folder)))])
    with tree_of_files(monkeypatch):
        yield folder


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_child_enters_its_group_before_its_program_runs(sidecar: MakeJob, tree: Path) -> None:
    shows = f"""
import os
(folder,) = (entry.path for entry in os.scandir({str(tree)!r}) if entry.is_dir())
entered, limit = (open(folder + "/" + name).read() for name in ("cgroup.procs", "memory.max"))
os.write(1, b'{{"ok": %s}}' % (b"true" if (entered, limit) == ("0", "536870912") else b"false"))
"""
    outcome = await call_sidecar(sidecar(shows, limits=LIMIT))
    assert outcome.status is Status.SUCCESS, outcome
    assert os.listdir(tree) == []


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_what_the_system_ended_for_its_memory_is_told(sidecar: MakeJob, tree: Path) -> None:
    program = EXCEEDS.format(tree=str(tree), events=EVENTS.format(killed=3))
    outcome = await call_sidecar(sidecar(program, limits=LIMIT))
    assert (outcome.status, outcome.code) == (Status.FAILED, Code.MEMORY_LIMIT), outcome
    assert outcome.details["memoryBytes"] == LIMIT.memory_bytes
    assert outcome.exit_code == -9
    assert not outcome.unconfined
    assert os.listdir(tree) == []


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_another_kill_is_no_limit_of_memory(sidecar: MakeJob, tree: Path) -> None:
    program = EXCEEDS.format(tree=str(tree), events=EVENTS.format(killed=0))
    outcome = await call_sidecar(sidecar(program, limits=LIMIT))
    assert outcome.status is Status.FAILED
    assert outcome.code != Code.MEMORY_LIMIT
    assert outcome.exit_code == -9


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_where_no_group_can_be_made_nothing_is_started(sidecar: MakeJob, tree: Path) -> None:
    os.rmdir(tree)
    ran = tree.parent / "ran"
    outcome = await call_sidecar(sidecar(f"open({str(ran)!r}, 'w')\n{GOOD}", limits=LIMIT))
    assert (outcome.status, outcome.code) == (Status.FAILED, Code.SPAWN)
    assert "control group" in outcome.message
    assert not ran.exists()


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_program_that_cannot_be_started_leaves_no_group(sidecar: MakeJob, tree: Path) -> None:
    outcome = await call_sidecar(sidecar("", argv=("/no/such/program",), limits=LIMIT))
    assert outcome.code == Code.SPAWN
    assert os.listdir(tree) == []


@pytest.mark.anyio
@pytest.mark.parametrize("level", [Level.DEGRADED, Level.ENFORCED])
async def test_a_confined_child_that_is_observed_enters_its_group(
    tree: Path, tmp_path: Path, level: Level
) -> None:
    needs_level(level)
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    make = enforced_launch if level is Level.ENFORCED else degraded_launch
    secret = tmp_path / "secret"
    command = ("/bin/sh", "-c", f"cat {tree}/*/cgroup.procs; cat {secret}")
    spec = SpawnSpec(
        argv=command, cwd="/", env={}, call_id="call",
        confine=lambda _: make(
            Confinement(mounts=(Mount(str(tree)),), cwd="/"),
            read_system_layout(), {"PATH": "/usr/bin:/bin"}, command, observed=True,
        ),
    )  # fmt: skip
    secret.write_text("x")
    ended = await run_child(spec, b"", RunLimits(timeout_ms=60_000, max_output_bytes=1_024))
    # The launcher's child moves itself, and what runs in a namespace is moved.
    assert ended.stdout.isdigit(), ended
    assert (ended.stdout == b"0") == (level is Level.DEGRADED)
    assert ended.notes is not None
    assert str(secret).encode() in ended.notes
    assert os.listdir(tree) == []


def exceeds_in(tree: Path, indent: int) -> str:
    program = EXCEEDS.format(tree=str(tree), events=EVENTS.format(killed=2)).strip()
    return program.replace("\n", "\n" + " " * indent)


@pytest.mark.anyio
async def test_a_program_that_serves_several_calls_is_told_of(tree: Path, tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    program = PERSISTENT.format(exceeds=exceeds_in(tree, 8))
    root.sidecar("stay", program, tool("stay.do"), kind="process-json-persistent")
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "stay.do"))).status is Status.SUCCESS
        result = await kernel.call(request(kernel, "stay.do", {"exceeds": True}))
        assert result.error is not None
        assert result.error.code == Code.MEMORY_LIMIT, result
        assert (await kernel.call(request(kernel, "stay.do"))).status is Status.SUCCESS
    assert os.listdir(tree) == []


@pytest.mark.anyio
async def test_an_mcp_server_is_told_of(tree: Path, tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    script = PLAIN_NOTES.replace(
        '    if name == "fail":',
        f'    if name == "look":\n        {exceeds_in(tree, 8)}\n    if name == "fail":',
        1,
    )
    server_of(root, "notes", script)
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        result = await kernel.call(request(kernel, "notes.look"))
        assert result.error is not None
        assert result.error.code == Code.MEMORY_LIMIT, result
    assert os.listdir(tree) == []


def test_in_a_delegated_group_all_processes_together_are_limited(tmp_path: Path) -> None:
    tests, script = Path(__file__).parents[2], tmp_path / "trial.py"
    script.write_text(TRIAL.format(path=[str(tests), str(tests.parent / "core")], folder=str(tmp_path)))
    ran = run_in_delegated_group(script, tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["found"], told
    assert told["left"] == [control_groups.OWN_NAME]
    assert "none" in told["levels"]
    for outcomes in told["levels"].values():
        ended = ["failed", "memory-limit", 0, False]
        # Each process is within the limit that it has by itself, all of them together are not; and a program
        # that has lost a child does not go on.
        assert outcomes == [ended, ended, ["success", "", 0, False]], told
