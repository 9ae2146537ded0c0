"""Cancelled and slow calls of a stateful MCP server: the server and the other callers go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Status
from flycore.pipeline.execute import LONGEST_WITH_PROGRESS_MS
from flycore.runners.mcp import stdio
from flycore.runners.mcp.call import _Progress
from flycore.runners.mcp.input_requests import RunningCall
from flycore.runners.one_shot import ProcessJsonJob
from kits.kernel import Root, kernel_of, processes_of, request, until
from kits.mcp_servers import connected, server_of

pytestmark = pytest.mark.anyio
SERVER = """
import json, os, secrets, sys, threading, time
from pathlib import Path

BASE = Path(%r)
LOCK = threading.Lock()
BORN = secrets.token_hex(8)
COUNT = 0


def say(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        sys.stdout.flush()


def log(line):
    with LOCK, open(BASE / "log", "a") as file:
        file.write(line + "\\n")


def wait_for(name):
    while not (BASE / name).exists():
        time.sleep(0.02)


def work(number, name, params):
    global COUNT
    if name == "stubborn":
        log("stubborn began")
        wait_for("go")
    elif name == "steady":
        for step in range(8):
            time.sleep(0.25)
            token = params["_meta"]["progressToken"]
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
    else:
        COUNT += 1
    text = json.dumps({"count": COUNT, "born": BORN, "meta": sorted(params.get("_meta", {}))})
    say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
    log(name + " answered")


TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "stubborn", "steady")]
for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "notifications/cancelled":
        log("cancelled")
    elif number is None:
        continue
    elif method == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        say({"id": number, "result": {**about, "serverInfo": {"name": "stateful", "version": "1"}}})
    elif method == "tools/list":
        say({"id": number, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        threading.Thread(target=work, args=(number, params["name"], params), daemon=True).start()
    else:
        say({"id": number, "error": {"code": -32601, "message": "no such method"}})
"""


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grace is shortened; nothing here waits for it to be over, except the calls themselves."""
    monkeypatch.setattr(stdio, "CANCEL_GRACE_S", 0.2)


def stateful(tmp_path: Path, **entry: Any) -> Root:
    root = Root(tmp_path)
    server_of(root, "state", SERVER % str(tmp_path), **entry)
    root.policy({"tool": "state.*", "decision": "allow", "because": "test"})
    return root


def log_of(root: Root) -> list[str]:
    file = root.base / "log"
    return file.read_text().splitlines() if file.exists() else []


async def count(kernel: Kernel) -> tuple[int, str]:
    """The server's state, and the mark of its process."""
    result = await kernel.call(request(kernel, "state.count"))
    assert isinstance(result.output, dict), result
    assert result.output["meta"] == ["progressToken"], "flytui's own mark must not reach the server"
    return int(str(result.output["count"])), str(result.output["born"])


async def cancelled_call(kernel: Kernel, root: Root) -> ToolResult:
    """A call of the stubborn tool that its caller cancels once it runs."""
    asked, results = request(kernel, "state.stubborn"), list[ToolResult]()
    before = log_of(root).count("stubborn began")

    async def run() -> None:
        results.append(await kernel.call(asked))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: log_of(root).count("stubborn began") > before)
        kernel.cancel(asked.call_id)
    return results[0]


async def test_a_cancelled_call_leaves_the_server_and_its_state(tmp_path: Path) -> None:
    root = stateful(tmp_path)
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        first = await count(kernel)
        result = await cancelled_call(kernel, root)
        assert result.error is not None
        assert result.error.code == Code.CANCELLED
        await until(lambda: "cancelled" in log_of(root))
        assert await count(kernel) == (first[0] + 1, first[1])
        # The late answer is dropped, and the session goes on after it.
        (root.base / "go").touch()
        await until(lambda: "stubborn answered" in log_of(root))
        assert await count(kernel) == (first[0] + 2, first[1])


async def test_a_call_out_of_time_leaves_the_server_and_says_so(tmp_path: Path) -> None:
    root = stateful(tmp_path)
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        first = await count(kernel)
        result = await kernel.call(request(kernel, "state.stubborn", timeout_ms=300))
        assert result.error is not None
        assert result.error.code == Code.TIMEOUT
        assert result.error.details["serverGoesOn"] is True
        assert "onCancel" in result.error.hint
        assert (await count(kernel))[1] == first[1]


async def test_the_entry_or_a_person_restarts_it(tmp_path: Path) -> None:
    root = stateful(tmp_path, onCancel="restart")
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        first = await count(kernel)
        await cancelled_call(kernel, root)
        again = await count(kernel)
        assert (again[0], again[1] != first[1]) == (1, True)
    root.sidecars["state"].pop("onCancel")
    root.write()
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        await cancelled_call(kernel, root)
        [first] = processes_of(root)
        kernel.probe("state")
        await until(lambda: set(processes_of(root)) - {first})
        assert (await count(kernel))[0] == 1


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    root = stateful(tmp_path)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        await connected(kernel, "state")
        results: list[ToolResult] = []

        async def slow() -> None:
            results.append(await kernel.call(request(kernel, "state.stubborn")))

        group.start_soon(slow)
        await until(lambda: "stubborn began" in log_of(root))
        assert (await count(kernel))[0] == 1
        assert results == []
        (root.base / "go").touch()
        await until(lambda: results)
        assert results[0].status is Status.SUCCESS


async def test_progress_moves_the_time_limit_up_to_ten_minutes() -> None:
    job = ProcessJsonJob(
        argv=("x",),
        env={},
        cwd="/",
        call_id="c",
        tool="state.steady",
        input={},
        project_dir="/",
        timeout_ms=30_000,
        progress_timeout_ms=LONGEST_WITH_PROGRESS_MS,
    )
    for progress_ms, moved, most in ((LONGEST_WITH_PROGRESS_MS, True, 600.0), (20_000, False, 20.0)):
        with anyio.CancelScope() as limit:
            begun = anyio.current_time()
            limit.deadline = begun + 25.0
            running = RunningCall(replace(job, progress_timeout_ms=progress_ms), None)
            running.limit = limit
            await _Progress(running)(1.0, None, None)
            assert (limit.deadline > begun + 25.0) is moved
            assert limit.deadline - begun < max(most, 25.0) + 1.0


async def test_progress_does_not_help_a_call_past_its_caller_s_limit(tmp_path: Path) -> None:
    root = stateful(tmp_path)
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        limited = await kernel.call(request(kernel, "state.steady", timeout_ms=400))
        assert limited.error is not None
        assert limited.error.code == Code.TIMEOUT


@contextmanager
def most_left(number: int) -> Iterator[None]:
    before, stdio.MOST_LEFT_ALONE = stdio.MOST_LEFT_ALONE, number
    try:
        yield
    finally:
        stdio.MOST_LEFT_ALONE = before


async def test_a_server_that_leaves_ever_more_calls_counts_as_broken(tmp_path: Path) -> None:
    root = stateful(tmp_path)
    async with kernel_of(root) as kernel:
        await connected(kernel, "state")
        first = await count(kernel)
        with most_left(1):
            await cancelled_call(kernel, root)
            assert (await count(kernel))[1] == first[1]
            await cancelled_call(kernel, root)
            await until(lambda: not os.path.exists(f"/proc/{first[1]}"))
