"""`task.background` in a whole kernel: not idle while a task runs, ended with the kernel, readable after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.enums import Effective, Status
from flycore.model.json import JsonObject
from kits.kernel import Root, a_caller, kernel_of, processes_of, request, until

pytestmark = pytest.mark.anyio
TOOL = "task.background"
TICKS = """
import os, sys, time
print("begun", flush=True)
ticks = open("ticks", "ab", 0)
while not os.path.exists("go"):
    ticks.write(b".")
    time.sleep(0.01)
print("done")
"""
HIDES = """
import os, signal
signal.signal(15, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
open(f"up-{os.getpid()}", "w").close()
while True:
    signal.pause()
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.policy({"tool": "*", "decision": "allow", "because": "it is a test"})
    made.sidecars["utility.tasks"] = {
        "command": "flytui-sidecar",
        "args": ["utility.local"],
        "kind": "process-json-persistent",
        "idleMs": 50,
        "config": {"tasks": {"allow": [["python3", "-c"]]}},
        "permissions": {"fs": {"read": ["."], "write": ["."]}},
        "tools": [TOOL],
    }
    made.write()
    return made


async def ask(kernel: Kernel, caller: str = "agent", **input: Any) -> JsonObject:
    result = await kernel.call(request(kernel, TOOL, input, caller=a_caller(caller)))
    assert result.status is Status.SUCCESS, result.error
    assert result.warnings == ()
    assert isinstance(result.output, dict)
    return result.output


async def start(kernel: Kernel, text: str) -> str:
    return str((await ask(kernel, action="start", command=["python3", "-c", text]))["id"])


async def test_it_is_not_idle_while_a_task_runs_and_readable_when_it_is_gone(root: Root) -> None:
    async with kernel_of(root) as kernel:
        name = await start(kernel, TICKS)
        ticks = root.folder / "ticks"
        await until(lambda: ticks.exists() and ticks.stat().st_size > 50)
        said = await ask(kernel, action="output", id=name)
        assert (said["state"], said["output"]) == ("running", "begun\n")
        assert processes_of(root)
        (root.folder / "go").touch()
        await until(lambda: not processes_of(root))
        said = await ask(kernel, "another", action="output", id=name)
        assert (said["state"], said["exitCode"], said["output"]) == ("exited", 0, "begun\ndone\n")


@pytest.mark.parametrize("how", ["leaves", "panics"])
async def test_no_task_survives_the_kernel(root: Root, how: str) -> None:
    async with kernel_of(root) as kernel:
        name = await start(kernel, HIDES)
        await until(lambda: len(list(root.folder.glob("up-*"))) == 2)
        if how == "panics":
            await kernel.panic("a test")
            assert not processes_of(root)
    assert not processes_of(root)
    assert (root.folder / ".flyflor" / "tasks" / name / "record.json").exists()


async def test_what_is_not_configured_is_unavailable_with_its_remedy(root: Root) -> None:
    root.sidecars["utility.tasks"]["config"] = {"tasks": {"allow": []}}
    root.write()
    async with kernel_of(root) as kernel:

        def stability() -> Any:
            view = kernel.catalog().capability(TOOL)
            return view and view.stability.effective is Effective.UNAVAILABLE and view.stability

        (reason, *_) = (await until(stability)).reasons
        assert "config.tasks" in reason.remedy
        result = await kernel.call(request(kernel, TOOL, {"action": "status"}))
        assert result.status is Status.UNAVAILABLE
