"""Suite S2 at level none: whatever a child does, a typed outcome, and nobody and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Status
from flycore.runners.one_shot import call_sidecar
from flysafe.procfs import own_children
from kits.hostile_children import CHILDREN, GOOD, MakeJob, job_of

FULL = os.environ.get("FLYTUI_SUITES") == "full"
SOAK = 1_000 if FULL else 100


@pytest.mark.anyio
@pytest.mark.suite
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", CHILDREN)
async def test_each_child_ends_as_it_must(name: str, sidecar: MakeJob) -> None:
    child = CHILDREN[name]
    outcome = await call_sidecar(job_of(sidecar, child, 1024))
    assert (outcome.status, outcome.code) == (child.status, child.error), outcome
    assert len(outcome.stderr_tail) <= 65_536
    if child.status is Status.SUCCESS:
        assert outcome.output == {"n": 1}
    else:
        assert outcome.message


@pytest.mark.suite
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.timeout(900 if FULL else 120)
@pytest.mark.long
def test_soak_of_hostile_spawns_sixteen_at_once(tmp_path: Path) -> None:
    words = [str(tmp_path), str(SOAK), "1024" if FULL else "16"]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "kits.hostile_children", *words],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
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
