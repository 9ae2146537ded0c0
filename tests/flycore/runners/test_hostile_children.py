"""Suite S2 at each level of the sandbox: whatever a child does, a typed outcome, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Level, Status
from flycore.runners.child.launcher import launcher_id
from flycore.runners.one_shot import call_sidecar
from flysafe.procfs import children_of, own_children, read_process
from kits.hostile_children import CHILDREN, GOOD, MakeJob, job_of, python_jobs
from kits.sandbox_levels import LEVELS, needs_level

FULL = os.environ.get("FLYTUI_SUITES") == "full"
SOAK = 1_000 if FULL else 100


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Level:
    """Each level that this machine has. It comes before `nothing_left`: the trial of bubblewrap leaves the
    first process of its namespace to be reaped."""
    wanted: Level = request.param
    needs_level(wanted)
    return wanted


@pytest.fixture
def at_level(level: Level, tmp_path: Path) -> MakeJob:
    """Makes jobs like `sidecar`, at the level."""
    return python_jobs(tmp_path, level)


@pytest.mark.anyio
@pytest.mark.suite
@pytest.mark.usefixtures("level", "nothing_left")
@pytest.mark.parametrize("name", CHILDREN)
async def test_each_child_ends_as_it_must(name: str, level: Level, at_level: MakeJob) -> None:
    child = CHILDREN[name]
    # What the sandbox adds is no part of how much is read.
    megabytes = 1024 if FULL or level is Level.NONE else 32
    outcome = await call_sidecar(job_of(at_level, child, megabytes))
    assert (outcome.status, outcome.code) == (child.status, child.error), outcome
    assert len(outcome.stderr_tail) <= 65_536
    if child.status is Status.SUCCESS:
        assert outcome.output == {"n": 1}
    else:
        assert outcome.message


@pytest.mark.suite
@pytest.mark.usefixtures("level", "nothing_left")
@pytest.mark.timeout(900 if FULL else 120)
@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS if FULL else [Level.NONE], indirect=True)
def test_soak_of_hostile_spawns_sixteen_at_once(level: Level, tmp_path: Path) -> None:
    words = [str(tmp_path), str(SOAK), "1024" if FULL else "16", level.value]
    paths = os.pathsep.join(path for path in sys.path if path)
    before = own_children()
    done = subprocess.run(
        [sys.executable, "-m", "kits.hostile_children", *words],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    for pid in own_children() - before:
        if pid == launcher_id():
            continue
        # With the process that made the calls, what held the last namespaces became ours to be reaped.
        held = read_process(pid)
        assert held is None or (held.name == "bwrap" and not children_of(pid))
        os.waitpid(pid, 0)
    wrong, growth = json.loads(done.stdout)
    assert wrong == []
    assert growth <= 4 * 1_048_576


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_is_not_of_a_call_is_left_alone(sidecar: MakeJob) -> None:
    bystander = await anyio.open_process(["/bin/sleep", "600"])
    try:
        await call_sidecar(job_of(sidecar, CHILDREN["200 forks"], 1))
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
        await call_sidecar(job_of(sidecar, CHILDREN["daemon that hides where it came from"], 1))
        await anyio.Path(go).write_bytes(b"")
    assert results[0].output == {"alive": True}
