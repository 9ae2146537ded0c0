"""A person who is away is called by their own program, which learns how many wait and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.kernel.notify import EVERY_SECONDS
from flycore.model.clock import SystemClock
from flycore.model.enums import Code, Risk, Status
from kits.kernel import ECHO, Root, a_caller, kernel_of, request, tool, until, waiting_ask

pytestmark = pytest.mark.anyio
SECRET, PAYLOAD = "a-secret-of-the-kernel", "the-payload-of-the-call"
RECORDER = """#!{python}
import json, os, sys
with open({into!r}, "a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
                           "leads": os.getsid(0) == os.getpid(), "stdin": sys.stdin.read()}}) + "\\n")
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.do"), tool("echo.high", risk="high"))
    made.environ |= {"API_TOKEN": SECRET, "LC_ALL": "C.UTF-8", "DISPLAY": ":9"}
    return made


def settings(root: Root, **content: Any) -> None:
    folder = root.base / "config" / "flytui"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "config.new"
    fresh.write_text(json.dumps(content))
    fresh.replace(folder / "config.jsonc")


def recorder(root: Root) -> tuple[str, Path]:
    """A program that writes down what it is started with, and where it does."""
    into, program = root.base / "told.jsonl", root.base / "recorder"
    program.write_text(RECORDER.format(python=sys.executable, into=str(into)))
    program.chmod(0o700)
    return str(program), into


def told(into: Path) -> list[dict[str, Any]]:
    lines = into.read_text().splitlines() if into.exists() else []
    return [json.loads(line) for line in lines]


async def asked(kernel: Kernel, group: anyio.abc.TaskGroup, *tools: str, after: int = 0) -> None:
    """Calls that wait, `after` so many that did before."""
    for number, name in enumerate(tools, after + 1):
        group.start_soon(kernel.call, request(kernel, name, {"say": PAYLOAD, "n": number}, said=PAYLOAD))
        await waiting_ask(kernel, number)


async def test_the_command_learns_count_and_risk_and_no_payload_and_no_secret(root: Root) -> None:
    program, into = recorder(root)
    settings(root, notify={"command": [program, "flytui", "{count} at {risk}", "$(id)", "; id"]})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        await asked(kernel, group, "echo.high")
        [first] = await until(lambda: told(into))
        group.cancel_scope.cancel()
    assert first["argv"] == ["flytui", "1 at high", "$(id)", "; id"]
    assert (first["env"]["FLYTUI_WAITING"], first["env"]["FLYTUI_RISK"]) == ("1", "high")
    assert first["env"]["DISPLAY"] == ":9"
    everything = json.dumps(first)
    assert all(word not in everything for word in (SECRET, PAYLOAD, "echo.high", a_caller().executable))
    assert (first["cwd"], first["leads"], first["stdin"]) == (str(root.base), True, "")


class HandClock(SystemClock):
    """Short waits last until the test lets them end."""

    def __init__(self) -> None:
        self.waits = 0
        self.over = anyio.Event()

    async def sleep_until(self, monotonic: float) -> None:
        if monotonic - self.monotonic() > 2 * EVERY_SECONDS:
            await super().sleep_until(monotonic)
        self.waits += 1
        await self.over.wait()


async def test_what_comes_within_five_seconds_is_told_together(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, into = recorder(root)
    settings(root, notify={"command": [program, "{count}", "{risk}"]})
    clock = HandClock()
    monkeypatch.setattr("flycore.kernel.compose.SystemClock", lambda: clock)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        await asked(kernel, group, "echo.do")
        await until(lambda: clock.waits)
        await asked(kernel, group, "echo.high", "echo.do", "echo.do", after=1)
        assert [line["argv"] for line in told(into)] == [["1", "medium"]]
        clock.over.set()
        both = await until(lambda: told(into)[1:] and told(into))
        group.cancel_scope.cancel()
    assert [line["argv"] for line in both] == [["1", "medium"], ["4", "high"]]


@pytest.mark.parametrize(
    ("command", "words"),
    [("/nowhere/at/all", "not found"), (["/bin/sh", "-c", "echo why >&2; exit 3"], "failed with 3: why")],
)
async def test_a_command_that_fails_is_told_and_holds_up_nothing(
    root: Root, command: object, words: str
) -> None:
    settings(root, notify={"command": command})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        await asked(kernel, group, "echo.do")
        problem = await until(lambda: kernel.status().notify_problem)
        assert kernel.status().waiting_risk is Risk.MEDIUM
        group.cancel_scope.cancel()
    assert words in problem


async def test_settings_count_without_a_restart(root: Root) -> None:
    program, into = recorder(root)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        settings(
            root, approvals={"queuePerCaller": 1}, quota={"callsPerMinute": 3}, notify={"command": program}
        )
        await until(lambda: kernel._refresher.root_state.files.settings.queue_per_caller == 1)
        await asked(kernel, group, "echo.do")
        await until(lambda: told(into))
        full = await kernel.call(request(kernel, "echo.do", {"n": 2}))
        assert (full.status, full.error and full.error.code) == (Status.DENIED, Code.QUEUE_FULL)
        await kernel.call(request(kernel, "echo.do", {"n": 3}))
        over = await kernel.call(request(kernel, "echo.do", {"n": 4}))
        assert over.error is not None
        assert over.error.code == Code.QUOTA
        group.cancel_scope.cancel()
