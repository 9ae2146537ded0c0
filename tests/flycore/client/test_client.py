"""A client that stays while kernels come and go: an agent's door is open for days, a console is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.client import client as client_module
from flycore.client.client import KernelClient, KernelFinder, connect
from flycore.client.kernel_link import link_to
from flycore.client.serve import open_served_kernel
from flycore.model.approval import Answer
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Status
from flycore.model.errors import ConnectionLost, KernelUnreachable
from flycore.model.events import MISSED, Event
from flycore.rpc import messages as m
from flycore.server.calls import ConnectionCalls
from kits.attach import open_console_kernel
from kits.kernel import ECHO, PATIENCE, Root, a_caller, kernel_of, tool, until

pytestmark = pytest.mark.anyio
ONCE = Answer(choice=Choice.APPROVE_ONCE)
WAITS = """#!/bin/sh
read -r request
echo $$ >> {base}/started
while [ ! -e {base}/go ]; do sleep 0.02; done
printf '{{"ok": true}}\\n'
"""
HOLDER = """
import os, sys
from pathlib import Path
from typing import Any
import anyio
from flycore.client.serve import open_served_kernel
from flycore.registry.paths import find_paths

async def main():
    places = find_paths(sys.argv[1], None, os.environ, Path(sys.argv[1]))
    async with open_served_kernel(places, on_wait=print):
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask"))
    found.sidecar("slow", WAITS.format(base=tmp_path), tool("slow.free"))
    found.policy(
        *({"tool": name, "decision": "allow", "because": "test"} for name in ("echo.free", "slow.free"))
    )
    async with kernel_of(found):
        pass
    return found


@asynccontextmanager
async def console(root: Root) -> AsyncIterator[Any]:
    async with open_console_kernel(root.places, on_wait=lambda *told: None) as (client, approver):
        yield client, approver


@asynccontextmanager
async def kernel_elsewhere(root: Root) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A served kernel in a process of its own; killed at the end."""
    holder = subprocess.Popen(  # noqa: ASYNC220 - it starts within a millisecond
        [sys.executable, "-c", HOLDER, str(root.folder)],
        env={**root.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert await anyio.to_thread.run_sync(holder.stdout.readline) == b"open\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


async def next_of(events: AsyncIterator[Event], kind: str) -> Event:
    with anyio.fail_after(PATIENCE):
        async for event in events:
            if event.type == kind:
                return event
    raise AssertionError(f"the events ended without {kind}")


async def test_a_kernel_on_demand_yields_to_a_console_though_no_call_ends(root: Root) -> None:
    """An agent's door that idles for hours does not keep the person out, and goes on as their client."""
    async with connect(root.places) as door, door.events() as events:
        assert (await door.status()).on_demand
        async with console(root):
            await next_of(events, MISSED)
            assert (await door.status()).role == "console"
            assert (await door.call("echo.free", {})).status is Status.SUCCESS
            await next_of(events, "call.finished")
        assert (await door.call("echo.free", {})).status is Status.SUCCESS
        assert (await door.status()).on_demand
        await next_of(events, MISSED)


async def test_a_kernel_on_demand_yields_to_flytui_serve_after_its_last_call(root: Root) -> None:
    results: list[ToolResult] = []

    async def slow() -> None:
        results.append(await door.call("slow.free", {}))

    async def late() -> None:
        results.append(await door.call("echo.free", {}))

    async with connect(root.places) as door, anyio.create_task_group() as group:
        group.start_soon(slow)
        await until(lambda: (root.base / "started").exists())
        waited = anyio.Event()

        async def serve() -> None:
            async with open_served_kernel(root.places, on_wait=lambda *told: waited.set()) as kernel:
                await until(lambda: len(results) == 2)
                assert [call.tool for call in kernel.activity()][:1] == ["echo.free"]

        group.start_soon(serve)
        await waited.wait()
        group.start_soon(late)
        (root.base / "go").touch()
    assert [result.status for result in results] == [Status.SUCCESS] * 2
    started = [line["tool"] for line in root.audit() if line["event"] == "TOOL_STARTED"]
    assert sorted(started) == ["echo.free", "slow.free"]


async def test_a_call_that_a_stopping_kernel_has_not_begun_is_not_answered(root: Root) -> None:
    """Its caller sees the connection end before any progress, and makes it again at the next kernel."""
    sent: list[str] = []

    async def send(kind: str, payload: object, answers: m.Envelope | None) -> None:
        sent.append(kind)

    async with kernel_of(root, role="on-demand", trusted=False) as kernel:
        calls = ConnectionCalls(kernel, send)
        message = m.Envelope(protocol=m.PROTOCOL, id="r1", type="tool.call", at=0.0)
        async with anyio.create_task_group() as group:
            # Tasks begin in this order, so the kernel stops after `start` and before the call's own task.
            group.start_soon(calls.start, message, m.ToolCall(tool="echo.free"), a_caller(), group)
            group.start_soon(kernel.stop)
        await calls.wait_until_answered()
        assert sent == []
        assert not any(line["event"] == "TOOL_CALLED" for line in root.audit())


async def test_a_read_goes_to_the_next_kernel(root: Root) -> None:
    async with kernel_elsewhere(root) as holder, connect(root.places) as door:
        assert (await door.status()).role == "headless"
        holder.kill()
        assert (await door.catalog()).capability("echo.free") is not None
        assert (await door.status()).on_demand


async def test_a_killed_kernel_s_calls_are_unknown_and_the_rest_goes_on_at_the_next(root: Root) -> None:
    results: list[ToolResult] = []

    async def slow() -> None:
        results.append(await door.call("slow.free", {}))

    async with (
        kernel_elsewhere(root) as first,
        connect(root.places, start=False) as door,
        door.events() as events,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            await until(lambda: (root.base / "started").exists())
            first.kill()
        (error,) = [result.error for result in results]
        assert error is not None
        assert error.code == Code.OUTCOME_UNKNOWN
        (root.base / "go").touch()
        async with anyio.create_task_group() as group:

            async def free() -> None:
                results.append(await door.call("echo.free", {}))

            group.start_soon(free)
            async with kernel_elsewhere(root):
                await until(lambda: len(results) == 2)
                await next_of(events, MISSED)
        assert results[1].status is Status.SUCCESS


async def test_nobody_is_looked_for_longer_than_that(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_SECONDS", 0.3)
    async with (
        kernel_elsewhere(root) as holder,
        connect(root.places, start=False) as door,
        door.events() as events,
    ):
        holder.kill()
        with pytest.raises(KernelUnreachable):
            await door.call("echo.free", {})
        with anyio.fail_after(PATIENCE):
            async for event in events:
                assert event.type != MISSED


async def test_a_kernel_without_a_console_leaves_looser_rules_to_the_next_one(root: Root) -> None:
    async with connect(root.places, viewer=True) as door:
        kernel = os.pidfd_open((await door.status()).pid)
        root.policy({"tool": "*", "decision": "allow", "because": "more"})
        await door.refresh(False)
        assert (await door.status()).waiting_rules
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(kernel)
    os.close(kernel)
    async with connect(root.places, viewer=True) as door:
        assert not (await door.status()).waiting_rules
        assert [rule.because for rule in await door.rules()] == ["more"]


async def test_a_call_that_waited_long_at_a_kernel_goes_to_the_next(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for further kernels begins with the first one that was lost."""
    monkeypatch.setattr(client_module, "RECONNECT_SECONDS", 0.0)
    lost: list[str] = []

    class Losing(KernelClient):
        async def _call_once(self, *arguments: Any) -> ToolResult:
            if not lost:
                lost.append("the kernel gave way")
                raise ConnectionLost("the kernel went away")
            return await super()._call_once(*arguments)

    async with kernel_elsewhere(root), anyio.create_task_group() as group:
        opening = partial(link_to, root.places.socket, viewer=False, name="test")
        client = Losing(group, opening, finder=KernelFinder(root.places, start=False))
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
        await client.release()
    assert lost
