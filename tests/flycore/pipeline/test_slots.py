"""Persistent sidecars in a whole kernel: who shares a process, and what ends one."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Effective, Status
from flysafe.procfs import read_process
from kits.console_processes import gone
from kits.kernel import (
    Root,
    a_caller,
    approved_call,
    approver_of,
    kernel_of,
    permitted_call,
    processes_of,
    request,
    tool,
    until,
)
from kits.programs import needs

pytestmark = pytest.mark.anyio

PROGRAM = """#!/usr/bin/env python3
import json, os, secrets, sys
said, born = "SAID", secrets.token_hex(8)
for line in sys.stdin:
    request = json.loads(line)
    if "cancel" in request:
        continue
    given = request["input"]
    if given.get("die") and not os.path.exists(given["die"]):
        open(given["die"], "w").close()
        os.kill(os.getpid(), 9)
    stays = request.get("persistent", False)
    answer = {"ok": True, "said": said, "born": born, "stays": stays}
    print(json.dumps({**answer, "requestId": request["requestId"]}), flush=True)
"""
KIND = "process-json-persistent"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "writing-sidecars.md"
ALLOW = {"tool": "*", "decision": "allow", "because": "it is a test"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.policy(ALLOW)
    tools = (tool("stay.do", "low"), tool("stay.read", "low", readOnly=True))
    made.sidecar("stay", PROGRAM, *tools, kind=KIND)
    return made


async def call(kernel: Kernel, name: str = "stay.do", input: Any = None, **more: Any) -> ToolResult:
    return await kernel.call(request(kernel, name, input, **more))


async def born(kernel: Kernel, **more: Any) -> str:
    """The mark of the process that answers: by its id in a namespace of its own, each is alike."""
    result = await call(kernel, **more)
    assert result.status is Status.SUCCESS, result.error
    assert isinstance(result.output, dict)
    assert "requestId" not in result.output
    return str(result.output["born"])


async def the_process(kernel: Kernel, root: Root) -> int:
    """The process that answered a call, the only one of the root."""
    await born(kernel)
    [process] = processes_of(root)
    return process


async def ended(process: int) -> None:
    await until(lambda: read_process(process) is None)


async def test_calls_of_one_caller_share_a_process_and_two_callers_never_do(root: Root) -> None:
    async with kernel_of(root) as kernel:
        assert kernel.catalog().sidecars[0].stability.effective is Effective.AVAILABLE
        one = {await born(kernel) for _ in range(3)}
        two = {await born(kernel, caller=a_caller("other", 77)) for _ in range(3)}
        assert (len(one), len(two)) == (1, 1)
        assert one.isdisjoint(two)
        assert len(processes_of(root)) == 2
    assert processes_of(root) == []


async def test_an_approved_call_runs_in_a_process_of_what_was_approved(root: Root) -> None:
    root.policy()
    async with kernel_of(root) as kernel:
        first = await approved_call(kernel, "stay.do")
        second = await approved_call(kernel, "stay.do")
        assert first.output == second.output
        [process] = processes_of(root)
        program = root.folder / "tools" / "bin-stay" / "run"
        program.write_text(PROGRAM.replace("SAID", "other"))
        third = await approved_call(kernel, "stay.do")
        assert isinstance(third.output, dict)
        assert third.output["said"] == "other"
        await ended(process)


@pytest.mark.parametrize(
    "permissions",
    [
        {"secrets": ["A_SECRET"]},
        {"fs": {"write": ["${input.folder}"]}},
        {"desktop": True},
    ],
    ids=["secret", "input", "desktop"],
)
async def test_what_must_not_outlive_a_call_gets_a_process_of_its_own(
    root: Root, permissions: dict[str, Any]
) -> None:
    root.environ["A_SECRET"] = "a long enough secret"
    root.sidecar("alone", PROGRAM, tool("alone.do", "low"), kind=KIND, permissions=permissions)
    async with kernel_of(root) as kernel:
        results = [await permitted_call(kernel, "alone.do", {"folder": "x"}) for _ in range(2)]
    outputs = [result.output for result in results if isinstance(result.output, dict)]
    assert len({output["born"] for output in outputs}) == 2
    assert [output["stays"] for output in outputs] == [False, False]


@pytest.mark.parametrize("how", ["edited", "disabled", "revoked", "removed"])
async def test_an_entry_that_holds_no_longer_ends_its_process(root: Root, how: str) -> None:
    async with kernel_of(root) as kernel:
        process = await the_process(kernel, root)
        if how == "revoked":
            await kernel.revoke_trust("a test")
        else:
            more = {"config": {"x": 1}} if how == "edited" else {"enabled": False}
            root.sidecars["stay"].update(more)
            if how == "removed":
                del root.sidecars["stay"]
            root.write()
            if how == "edited":
                waiting = await until(kernel.pending_trust)
                await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        await ended(process)


async def test_stopping_everything_ends_what_stays(root: Root) -> None:
    async with kernel_of(root) as kernel:
        process = await the_process(kernel, root)
        await kernel.panic("a test")
        assert gone(process)


async def test_a_death_is_told_and_only_what_reads_is_asked_again(root: Root, tmp_path: Path) -> None:
    async with kernel_of(root) as kernel:
        result = await call(kernel, "stay.do", {"die": str(tmp_path / "one")})
        assert result.error is not None
        assert (result.status, result.error.code, result.exit_code) == (Status.FAILED, Code.CRASHED, -9)
        view = await until(
            lambda: next(
                (v for v in kernel.catalog().sidecars if v.stability.effective is Effective.DEGRADED), None
            )
        )
        assert [reason.code for reason in view.stability.reasons] == ["runtime-failed"]
        again = await call(kernel, "stay.read", {"die": str(tmp_path / "two")})
        assert again.status is Status.SUCCESS
        assert "ran again" in again.warnings[0]


async def test_killed_between_two_calls_the_next_one_gets_a_new_process(root: Root) -> None:
    async with kernel_of(root) as kernel:
        process = await the_process(kernel, root)
        os.kill(process, signal.SIGKILL)
        await ended(process)
        assert await the_process(kernel, root) != process


async def test_it_is_ended_for_idleness(root: Root) -> None:
    root.sidecars["stay"]["idleMs"] = 1
    root.write()
    async with kernel_of(root) as kernel:
        await born(kernel)
        await until(lambda: not processes_of(root))


@pytest.mark.parametrize(
    ("name", "input"), [("uptime.sh", {}), ("tally.mjs", {"text": "one two\nthree"})], ids=["shell", "node"]
)
async def test_programs_written_from_the_contract_alone_stay(root: Root, name: str, input: Any) -> None:
    needs("node" if name.endswith(".mjs") else "sh")
    blocks = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    program = root.sidecar("told", dict(blocks)[name], tool("told.do", "low"), kind=KIND)
    if name.endswith(".mjs"):
        program.rename(program.with_suffix(".mjs"))
        root.sidecars["told"]["command"] += ".mjs"
        root.write()
    async with kernel_of(root) as kernel:
        results = [await call(kernel, "told.do", input) for _ in range(3)]
    outputs = [result.output for result in results if isinstance(result.output, dict)]
    assert len(outputs) == 3, results
    assert len({output["process"] for output in outputs}) == 1


async def test_a_call_that_is_cancelled_is_taken_back_from_one_of_our_own(root: Root) -> None:
    echo = {
        "command": "flytui-sidecar",
        "args": ["mock.echo"],
        "kind": KIND,
        "tools": [tool("echo.do", "low")],
    }
    root.sidecars["echo"] = echo
    root.write()
    async with kernel_of(root) as kernel:
        asked = request(kernel, "echo.do", {"delayMs": 3_600_000})
        told: list[float | None] = []
        results: list[ToolResult] = []

        async def slow() -> None:
            results.append(await kernel.call(asked, lambda step: told.append(step.progress)))

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            await until(lambda: told and told[-1] is not None)
            assert kernel.cancel(asked.call_id)
        assert results[0].error is not None
        assert results[0].error.code == Code.CANCELLED
        assert (await call(kernel, "echo.do", {"a": 1})).status is Status.SUCCESS
