"""Ways to a kernel: the one that runs, one of one's own, and the change from one to the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.client.attach import open_attached_console
from flycore.client.client import KernelClient, KernelFinder, connect, connect_unix
from flycore.client.kernel_link import link_to
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import RootLock, lock_path, read_holder
from flycore.model.approval import Answer
from flycore.model.call import Progress, ToolResult
from flycore.model.enums import Choice, Code, KernelRole, Phase, RequestState, Status
from flycore.model.errors import ConnectionLost, KernelUnreachable, OtherVersion, RootBusy, UnsafeSocket
from kits.attach import open_console_kernel
from kits.kernel import ECHO, PATIENCE, Root, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio

WAITS = """#!/bin/sh
read -r request
echo $$ >> {base}/started
while [ ! -e {base}/go ]; do sleep 0.02; done
printf '{{"ok": true}}\\n'
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask", risk="high"))
    found.sidecar("slow", WAITS.format(base=tmp_path), tool("slow.free"))
    for name in ("echo.free", "slow.free"):
        _allow(found, name)
    return found


def _allow(root: Root, name: str) -> None:
    file = root.base / "config" / "flytui" / "policy.jsonc"
    rules = json.loads(file.read_text())["rules"] if file.exists() else []
    root.policy(*rules, {"tool": name, "decision": "allow", "because": "test"})


@pytest.fixture(autouse=True)
async def trusted(root: Root) -> None:
    """Everything of the root is trusted before a test begins."""
    async with kernel_of(root):
        pass


def started(root: Root) -> int:
    """How many slow calls have begun."""
    file = root.base / "started"
    return len(file.read_text().split()) if file.exists() else 0


class Waits:
    """What a console that has to wait was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, str]] = []

    def __call__(self, pid: int, since: float, role: str, calls: str) -> None:
        assert since > 0 or not pid
        self.told.append((pid, role, calls))


@asynccontextmanager
async def console(root: Root, waits: Waits | None = None) -> AsyncIterator[Any]:
    async with open_console_kernel(root.places, on_wait=waits or Waits()) as (client, approver):
        yield client, approver


async def say(answer: Answer, client: Any, approver: Any) -> None:
    """Answer the first request that comes."""
    while True:
        waiting = [ask for ask in await client.asks() if ask.state is RequestState.WAITING]
        if waiting:
            request_ = waiting[0].request
            await approver.decide(request_.id, request_.subject_digest, answer)
            return
        await anyio.sleep(0.01)


async def test_nobody_is_there(root: Root) -> None:
    with pytest.raises(KernelUnreachable):
        async with connect(root.places, start=False):
            pass
    with pytest.raises(KernelUnreachable):
        async with connect_unix(root.places.socket):
            pass
    assert read_holder(root.places) is None


async def test_a_call_without_a_kernel_starts_one_that_serves_the_next_one(root: Root) -> None:
    root.settings(kernel={"idleMinutes": 1})
    async with connect(root.places) as client:
        first = await client.status()
        assert (first.role, first.on_demand) == ("headless", True)
        assert first.pid != os.getpid()
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
        denied = await client.call("echo.ask", {})
        assert denied.error is not None
        assert denied.error.code == Code.NO_APPROVER
    async with connect(root.places) as client:
        assert (await client.status()).pid == first.pid


async def test_a_kernel_that_nobody_uses_leaves(root: Root) -> None:
    root.settings(kernel={"idleMinutes": 0})
    async with connect(root.places) as client:
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
        kernel = os.pidfd_open((await client.status()).pid)
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(kernel)
    os.close(kernel)
    assert not root.places.socket.exists()
    assert read_holder(root.places) is None


async def test_with_a_console_calls_go_there(root: Root) -> None:
    async with console(root) as (inside, approver), connect(root.places) as client:
        assert (await client.status()).role == "console"
        async with anyio.create_task_group() as group:
            group.start_soon(say, Answer(choice=Choice.APPROVE_ONCE), inside, approver)
            assert (await client.call("echo.ask", {})).status is Status.SUCCESS


async def test_what_the_body_raises_comes_as_itself(root: Root) -> None:
    for opening in (connect(root.places), connect_unix(root.places.socket)):
        with pytest.raises(ZeroDivisionError):
            async with opening:
                raise ZeroDivisionError


async def test_callers_at_once_share_one_kernel(root: Root) -> None:
    kernels: set[int] = set()

    async def one() -> None:
        async with connect(root.places) as client:
            kernels.add((await client.status()).pid)
            assert (await client.call("slow.free", {})).status is Status.SUCCESS

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
        await until(lambda: started(root) == 4)
        (root.base / "go").touch()
    assert len(kernels) == 1
    assert started(root) == 4


async def test_a_kernel_serves_another_caller_to_the_end(root: Root) -> None:
    """Its own call is over long before; the other's is not cut short."""
    results: list[ToolResult] = []

    async def other() -> None:
        async with connect(root.places) as client:
            results.append(await client.call("slow.free", {}))

    async with anyio.create_task_group() as group, connect(root.places) as own:
        group.start_soon(other)
        await until(lambda: started(root) == 1)
        assert (await own.call("echo.free", {})).status is Status.SUCCESS
        group.start_soon(_go_soon, root)
    assert [result.status for result in results] == [Status.SUCCESS]


async def _go_soon(root: Root) -> None:
    await anyio.sleep(0.2)
    (root.base / "go").touch()


async def test_a_console_waits_for_the_last_call_and_new_calls_wait_for_the_console(root: Root) -> None:
    waits, results = Waits(), list[ToolResult]()

    async def slow() -> None:
        async with connect(root.places) as client:
            results.append(await client.call("slow.free", {}))

    async def late() -> None:
        async with connect(root.places) as client:
            results.append(await client.call("echo.free", {"late": True}))
            assert (await client.status()).role == "console"

    async with anyio.create_task_group() as group:
        group.start_soon(slow)
        await until(lambda: started(root) == 1)
        opened = anyio.Event()

        async def sit() -> None:
            async with console(root, waits):
                opened.set()
                await until(lambda: len(results) == 2)

        group.start_soon(sit)
        await until(lambda: waits.told)
        group.start_soon(late)
        await anyio.sleep(0.3)
        assert not opened.is_set()
        assert results == []
        (root.base / "go").touch()
        await opened.wait()
    assert [result.status for result in results] == [Status.SUCCESS] * 2
    assert {(role, calls) for _, role, calls in waits.told} == {("headless", "slow.free")}
    executed = [line["tool"] for line in root.audit() if line["event"] == "TOOL_STARTED"]
    assert sorted(executed) == ["echo.free", "slow.free"]


async def test_a_call_that_waits_for_an_approver_is_put_before_the_console_that_opens(root: Root) -> None:
    results: list[ToolResult] = []

    async def call() -> None:
        async with connect(root.places, wait_approver=30.0) as client:
            results.append(await client.call("echo.ask", {}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await until(lambda: any(line.get("code") == Code.NO_APPROVER for line in root.audit()))
        async with console(root) as (client, approver):
            await say(Answer(choice=Choice.DENY, reason="not now"), client, approver)
            await until(lambda: results)
    error = results[0].error
    assert error is not None
    assert error.code == Code.DENIED


async def test_nobody_comes_and_the_call_ends_as_it_did(root: Root) -> None:
    async with connect(root.places, wait_approver=0.3) as client:
        result = await client.call("echo.ask", {})
        assert result.error is not None
        assert result.error.code == Code.NO_APPROVER


async def test_a_second_console_is_told_who_holds_the_root(root: Root) -> None:
    async with console(root):
        with pytest.raises(RootBusy) as busy:
            async with console(root):
                pass
        assert (busy.value.pid, busy.value.role) == (os.getpid(), "console")


async def test_a_lock_file_of_a_dead_holder_stops_nobody(root: Root) -> None:
    root.places.state_dir.mkdir(parents=True, exist_ok=True)
    for left in (b'{"pid": 1, "since": 1.0, "role": "console"}', b"\xff garbage", b""):
        lock_path(root.places).write_bytes(left)
        async with console(root) as (client, _):
            assert (await client.status()).pid == os.getpid()


async def test_a_holder_nobody_can_read_is_waited_for_without_spinning(root: Root) -> None:
    looks = 0
    waits = Waits()
    with RootLock.acquire(root.places, KernelRole.CONSOLE):
        lock_path(root.places).write_bytes(b"{")
        before = os.times()
        with anyio.move_on_after(1.0):
            async with console(root, waits):
                looks += 1
        spent = os.times()
    assert looks == 0
    assert {pid for pid, *_ in waits.told} == {0}
    assert (spent.user + spent.system) - (before.user + before.system) < 0.7


async def test_cancelling_before_the_call_was_taken_cancels_it(root: Root) -> None:
    """At every early moment: whatever the kernel had begun of it ends."""
    async with console(root) as (inside, _), connect_unix(root.places.socket) as client:
        for spins in range(40):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call, "slow.free", {})
                    for _ in range(spins):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            await client.status()
        await until(lambda: not any(call.result is None for call in kernel_of_client(inside).activity()))
        calls = await inside.activity()
        assert {call.result.error.code for call in calls if call.result and call.result.error} <= {
            Code.CANCELLED,
            Code.QUOTA,
        }


def kernel_of_client(client: Any) -> Kernel:
    """The kernel behind a client of the same process."""
    kernel: Kernel = client.kernel
    return kernel


HOLDER = """
import os, sys
from pathlib import Path
import anyio
from flycore.client.serve import open_served_kernel
from flycore.registry.paths import find_paths
from kits.kernel import open_console

async def main():
    places = find_paths(sys.argv[1], None, os.environ, Path(sys.argv[1]))
    async with open_served_kernel(places, on_wait=print, role="console") as kernel:
        open_console(kernel)
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@asynccontextmanager
async def console_elsewhere(root: Root, first: str = "") -> AsyncIterator[subprocess.Popen[bytes]]:
    """A console's kernel in a process of its own, which begins with `first`."""
    holder = subprocess.Popen(  # noqa: ASYNC220 - it starts within a millisecond
        [sys.executable, "-c", first + HOLDER, str(root.folder)],
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


async def test_a_kernel_killed_while_a_call_runs_leaves_its_outcome_unknown(root: Root) -> None:
    async with console_elsewhere(root) as holder, connect(root.places, start=False) as client:
        async with anyio.create_task_group() as group:

            async def kill() -> None:
                await until(lambda: started(root) == 1)
                os.kill(holder.pid, signal.SIGKILL)

            group.start_soon(kill)
            result = await client.call("slow.free", {})
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.UNKNOWN, Code.OUTCOME_UNKNOWN)
        assert result.exit_status == 7
    (root.base / "go").touch()
    async with console(root) as (client, _):
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
    assert started(root) == 1


async def test_a_kernel_killed_before_it_took_the_call_is_replaced(root: Root) -> None:
    async with console_elsewhere(root) as holder, connect(root.places) as client:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
        assert (await client.status()).on_demand


async def test_a_console_that_yields_while_it_dies_does_not_take_the_next_one_along(root: Root) -> None:
    """The kernel on demand goes away between being found and being asked to yield."""
    for _ in range(10):
        async with anyio.create_task_group() as group, connect(root.places) as client:
            opening = anyio.Event()

            async def sit(opening: anyio.Event = opening) -> None:
                opening.set()
                async with console(root) as (inside, _):
                    assert (await inside.status()).role == "console"

            group.start_soon(sit)
            await opening.wait()
            await client.call("echo.free", {})


async def test_a_lost_connection_is_lost_for_everybody_who_waits(root: Root) -> None:
    async with console_elsewhere(root) as holder, connect_unix(root.places.socket) as client:
        lost: list[str] = []

        async def ask() -> None:
            try:
                while True:
                    await client.status()
            except ConnectionLost:
                lost.append("status")

        async def listen() -> None:
            async with client.events() as events:
                async for _ in events:
                    pass
            lost.append("events")

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(listen)
            await anyio.sleep(0.2)
            os.kill(holder.pid, signal.SIGKILL)
        assert sorted(lost) == ["events", "status"]


async def test_progress_comes_in_order_and_names_the_call(root: Root) -> None:
    steps: list[Progress] = []
    async with console(root), connect(root.places) as client:
        result = await client.call("echo.free", {}, on_progress=steps.append)
    assert [step.phase for step in steps] == [Phase.CHECKING, Phase.RUNNING]
    assert {step.call_id for step in steps} == {result.call_id}


async def test_a_client_that_let_go_says_so(root: Root) -> None:
    async with anyio.create_task_group() as group:
        finder = KernelFinder(root.places, start=False)
        client = KernelClient(
            group, lambda: link_to(root.places.socket, viewer=False, name="test"), finder=finder
        )
        with pytest.raises(KernelUnreachable):
            await client.status()


async def test_a_request_of_nobody_is_never_run_by_a_stopped_kernel(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await kernel.stop()
        result = await kernel.call(request(kernel, "echo.free"))
    assert result.status is not Status.SUCCESS


async def test_a_socket_that_need_not_be_this_user_s_kernel_is_not_spoken_to(root: Root) -> None:
    path = root.places.socket
    async with console(root):
        path.parent.chmod(0o777)
        with pytest.raises(UnsafeSocket, match="other users may write"):
            async with connect_unix(path):
                pass
        path.parent.chmod(0o700)
        async with connect_unix(path) as client:
            assert (await client.status()).role == "console"
    for other in (Path.touch, Path.mkdir):
        other(path)
        with pytest.raises(UnsafeSocket, match="not a socket"):
            async with connect_unix(path):
                pass
        with pytest.raises(UnsafeSocket, match="not a socket"):
            async with console(root):
                pass
        path.unlink() if path.is_file() else path.rmdir()
    async with console(root) as (client, _):
        assert (await client.status()).pid == os.getpid()


@pytest.mark.parametrize(
    ("version", "protocol", "goes"),
    [("99.0.1", "flyflor.ws.v1", True), ("99.0.1", "flyflor.ws.v2", False)],
)
async def test_a_kernel_of_another_version_is_spoken_to_where_the_protocol_is_the_same(
    root: Root, version: str, protocol: str, goes: bool
) -> None:
    other = (
        "import flycore, flycore.rpc.messages as messages\n"
        f"flycore.__version__ = {version!r}\nmessages.PROTOCOL = {protocol!r}\n"
    )
    async with console_elsewhere(root, other):
        if goes:
            async with connect(root.places, start=False) as client:
                assert (await client.status()).version == version
                assert (await client.call("echo.free", {})).status is Status.SUCCESS
            with pytest.raises(OtherVersion, match="end the older one"):
                async with open_attached_console(root.places, code=_no_code):
                    pass
        else:
            with pytest.raises(OtherVersion, match=r"v2.*end the older one"):
                async with connect(root.places, start=False):
                    pass


async def _no_code() -> str:
    raise AssertionError("no code may be asked for")
