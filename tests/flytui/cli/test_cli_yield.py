"""Commands at which a person decides, beside a `flytui mcp` that has started the kernel, and beside
`flytui serve`."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp_types import ToolListChangedNotification

from flycore.kernel.lock import read_holder
from kits.command_line import LONGEST, Desk
from kits.kernel import ECHO, Root, tool, until
from kits.mcp_clients import OLD, over_stdio

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.free"))
    made.policy(
        {"tool": "echo.free", "decision": "allow", "because": "it only echoes"},
        {"tool": "web.*", "decision": "deny", "because": "not now"},
    )
    return made


def desk_of(root: Root) -> Desk:
    """The command line on the same root."""
    return Desk(root.folder, root.base)


async def run(root: Root, *words: str) -> subprocess.CompletedProcess[str]:
    """The command without a terminal, while the loop goes on."""
    return await anyio.to_thread.run_sync(lambda: desk_of(root).run(*words))


async def document(root: Root, *words: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((await run(root, *words, "--json")).stdout)
    return value


@asynccontextmanager
async def idling(root: Root, changed: Callable[[], None] = lambda: None) -> AsyncIterator[Client]:
    """A client of a `flytui mcp`, which has started a kernel on demand."""

    async def handler(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    async with over_stdio(root, OLD, message_handler=handler) as client:
        await client.list_tools()
        holder = read_holder(root.places)
        assert holder is not None
        assert holder.on_demand
        yield client


async def names(client: Client) -> set[str]:
    return {one.name for one in (await client.list_tools()).tools}


async def test_a_kernel_that_a_signal_ends_leaves_no_record_of_itself(root: Root) -> None:
    """Each later command would try to reach the kernel that the record names."""
    kernel = desk_of(root).start("serve")
    try:
        await until(root.places.socket.exists)
        assert read_holder(root.places) is not None
        kernel.terminate()
        await anyio.to_thread.run_sync(lambda: kernel.communicate(timeout=LONGEST))
    finally:
        kernel.kill()
    assert read_holder(root.places) is None


async def test_trust_is_given_and_the_server_goes_on_with_the_new_tools(root: Root) -> None:
    changes: list[bool] = []
    async with idling(root, lambda: changes.append(True)) as client:
        assert "echo_free" not in await names(client)
        digest = (await document(root, "trust", "--print-digest"))["digest"]
        done = await run(root, "trust", "--digest", digest)
        assert (done.returncode, "trusted: echo" in done.stderr) == (0, True), done.stderr
        await until(lambda: changes, LONGEST)
        assert "echo_free" in await names(client)
        assert not (await client.call_tool("echo_free", {})).is_error
        assert (await run(root, "trust", "--revoke")).returncode == 0
        await until(lambda: len(changes) > 1, LONGEST)
        assert "echo_free" not in await names(client)


async def test_an_allow_is_taken_out_and_what_forbids_is_asked_at_the_terminal(root: Root) -> None:
    async with idling(root) as client:
        allow, deny = (rule["digest"] for rule in (await document(root, "grants"))["rules"])
        assert (await run(root, "grants", "revoke", allow)).returncode == 0
        refused = await run(root, "grants", "revoke", deny)
        assert (refused.returncode, "on a terminal" in refused.stderr) == (4, True)

        def agreed() -> int:
            with desk_of(root).terminal("grants", "revoke", deny) as shown:
                shown.until("y/N")
                shown.press("y\n")
                return shown.end()

        assert await anyio.to_thread.run_sync(agreed) == 0
        assert (await document(root, "grants"))["rules"] == []
        assert await names(client)
    removed = [line for line in root.audit() if line["event"] == "RULE_CHANGED"]
    assert [line["decision"] for line in removed] == ["removed"] * 2
    assert all(line["decidedBy"].startswith("a terminal, flytui (pid ") for line in removed)


async def test_a_stop_is_released_at_the_terminal(root: Root) -> None:
    async with idling(root) as client:
        stopped = await document(root, "panic")
        assert (stopped["kernel"], "panic --release" in stopped["message"]) == (True, True)

        def released() -> int:
            with desk_of(root).terminal("panic", "--release") as shown:
                shown.until("y/N")
                shown.press("y\n")
                return shown.end()

        assert await anyio.to_thread.run_sync(released) == 0
        assert await names(client)
        assert (await document(root, "status"))["panic"] is False


SLOW = """#!/bin/sh
read -r request
touch {base}/started
while [ ! -e {base}/go ]; do sleep 0.02; done
printf '{{"ok": true}}\\n'
"""


async def test_trust_is_given_while_a_call_runs(root: Root) -> None:
    root.sidecar("slow", SLOW.format(base=root.base), tool("slow.do"))
    root.policy({"tool": "slow.do", "decision": "allow", "because": "test"})
    digest = (await document(root, "trust", "--print-digest"))["digest"]
    assert (await run(root, "trust", "--digest", digest)).returncode == 0
    root.sidecar("late", ECHO, tool("late.do"))
    results: list[bool] = []
    async with idling(root) as client, anyio.create_task_group() as group:

        async def call() -> None:
            results.append((await client.call_tool("slow_do", {})).is_error)

        group.start_soon(call)
        await until(lambda: (root.base / "started").exists(), LONGEST)
        digest = (await document(root, "trust", "--print-digest"))["digest"]
        assert (await run(root, "trust", "--digest", digest)).returncode == 0
        assert results == []
        (root.base / "go").touch()
    assert results == [False]


def test_beside_flytui_serve_a_console_on_it_is_the_place(root: Root) -> None:
    desk = desk_of(root)
    with desk.serving():
        refused = desk.run("trust", "--digest", desk.document("trust", "--print-digest")["digest"])
        assert (refused.returncode, "a console attached to it" in refused.stderr) == (4, True)
        with desk.terminal("trust") as shown:
            shown.until("Waiting")
            assert ("flytui serve" in shown.shown, "y/N" in shown.shown) == (True, False)
            shown.process.send_signal(signal.SIGINT)
            assert shown.end() == 128 + signal.SIGINT
        assert "panic --release" not in desk.document("panic")["message"]
        with desk.terminal("panic", "--release") as shown:
            shown.until("in a console attached to flytui serve")
            assert shown.end() == 4
