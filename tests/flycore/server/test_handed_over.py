"""The console that its supervisor hands over is paired; nothing else becomes it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from flycore.client.attach import attach_console, open_own_console
from flycore.client.client import connect
from flycore.model.approval import Answer
from flycore.model.enums import Choice, Status
from flycore.server.handed_over import ConsoleListener
from flycore.server.unix import serve_unix
from kits.attach import ConsoleDoor, open_console_kernel, own_console
from kits.kernel import ECHO, Root, close_console, kernel_of, tool, until, waiting_ask

pytestmark = pytest.mark.anyio
ONCE = Answer(choice=Choice.APPROVE_ONCE)


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask"))
    async with kernel_of(root):
        pass
    return root


async def test_the_connection_is_paired_by_itself_and_its_end_leaves_nobody_to_decide(root: Root) -> None:
    async with open_console_kernel(root.places, on_wait=lambda *_: None) as (client, approver):
        status = await client.status()
        assert (status.approver, status.consoles, status.agents) == (True, 1, 0)
        assert await approver.hold("no such request", True) is False
        assert client.kernel.pairing.own_pid == os.getppid()
    events = [line["event"] for line in root.audit() if line["event"].startswith("CONSOLE")]
    assert events[-2:] == ["CONSOLE_OPENED", "CONSOLE_LEFT"]


async def test_what_waits_goes_on_waiting_until_the_next_console_decides(root: Root) -> None:
    door = ConsoleDoor()
    listener = ConsoleListener(fileno=door.kernel.detach())
    results: list[Status] = []

    async def call() -> None:
        async with connect(root.places) as agent:
            results.append((await agent.call("echo.ask", {})).status)

    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket, listener):
        close_console(kernel)
        async with anyio.create_task_group() as group:
            async with open_own_console(root.places, door.connect(), ((7,), (8,))) as (client, _):
                assert kernel.pairing.protected_windows.window_ids == (7,)
                group.start_soon(call)
                await waiting_ask(kernel)
            await until(lambda: not kernel.status().approver)
            assert (len(kernel.asks()), results) == (1, [])
            async with open_own_console(root.places, door.connect()) as (client, approver):
                [ask] = await client.asks()
                outcome = await approver.decide(ask.request.id, ask.request.subject_digest, ONCE)
                assert outcome.accepted
                await until(lambda: results)
        assert results == [Status.SUCCESS]
    door.close()


async def test_the_end_of_an_earlier_console_does_not_close_the_one_after_it(root: Root) -> None:
    door = ConsoleDoor()
    listener = ConsoleListener(fileno=door.kernel.detach())
    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket, listener):
        close_console(kernel)
        opened, leave = anyio.Event(), anyio.Event()

        async def first() -> None:
            async with open_own_console(root.places, door.connect(pid=101)):
                opened.set()
                await leave.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(first)
            await opened.wait()
            async with open_own_console(root.places, door.connect(pid=102)):
                leave.set()
                await until(lambda: kernel.status().clients == 1)
                assert (kernel.status().approver, kernel.pairing.own_pid) == (True, 102)
        await until(lambda: not kernel.status().approver)
    door.close()


async def test_a_viewer_over_the_socket_file_gets_nothing_by_an_empty_code(root: Root) -> None:
    async with kernel_of(root) as kernel, own_console(root, kernel):
        async with attach_console(root.places) as attachment:
            with pytest.raises(Exception, match="no valid code"):
                await attachment.pair("")
            refused = await attachment.approver.decide("r", "d", ONCE)
            assert not refused.accepted
        assert kernel.status().consoles == 1
