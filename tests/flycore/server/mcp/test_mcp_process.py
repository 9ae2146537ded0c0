"""`flytui mcp` as a process beside a kernel: byte by byte, ended in every way, and left by its kernel."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import read_holder
from flycore.model.approval import Ask
from flycore.model.enums import RequestState
from flycore.server.mcp.stdio import MAX_PENDING, PendingRequests
from kits.kernel import ECHO, PATIENCE, Root, kernel_of, tool, until, waiting_ask
from kits.mcp_clients import OLD, about, command, over_stdio
from kits.unix_socket import served

pytestmark = pytest.mark.anyio

BEGIN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "plain", "version": "1"},
}
WAITS = """#!/bin/sh
read -r request
echo $$ >> {base}/started
while [ ! -e {base}/go ]; do sleep 0.02; done
printf '{{"ok": true}}\\n'
"""


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask", "high"))
    made.sidecar("slow", WAITS.format(base=tmp_path), tool("slow.free"))
    made.policy(
        *({"tool": name, "decision": "allow", "because": "test"} for name in ("echo.free", "slow.free"))
    )
    async with kernel_of(made):
        pass
    return made


class Plain:
    """A client that speaks lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, line: bytes) -> None:
        """One line, whatever it holds."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, method: str, params: Any = None, **more: Any) -> None:
        """One message."""
        body = {"jsonrpc": "2.0", "method": method, **more}
        self.send(json.dumps(body if params is None else {**body, "params": params}).encode())

    async def heard(self) -> dict[str, Any]:
        """The next line, which is JSON."""
        assert self.process.stdout is not None
        with anyio.fail_after(PATIENCE):
            line = await anyio.to_thread.run_sync(self.process.stdout.readline)
        value: dict[str, Any] = json.loads(line)
        return value

    async def begin(self) -> None:
        """The handshake."""
        self.say("initialize", BEGIN, id=0)
        assert (await self.heard())["result"]["serverInfo"]["name"] == "flytui"
        self.say("notifications/initialized")

    async def ended(self) -> int:
        """Its exit code."""
        return await anyio.to_thread.run_sync(lambda: self.process.wait(PATIENCE))


@contextmanager
def plain(root: Root, *words: str) -> Iterator[Plain]:
    started = command(root, *words)
    process = subprocess.Popen(
        [started.command, *started.args],
        env=root.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Plain(process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def about_plain(answer: dict[str, Any]) -> str:
    """How the call ended."""
    status: str = answer["result"]["_meta"]["flytui/result"]["status"]
    return status


def state_of(kernel: Kernel, ask: Ask) -> RequestState:
    return next(one.state for one in kernel.asks() if one.request.id == ask.request.id)


async def test_what_is_no_message_is_answered_and_the_next_one_served(root: Root) -> None:
    odd = {
        b"no json": -32700,
        b"\xff\xfe": -32700,
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}': -32700,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}': -32700,
        b"[" * 200: -32700,
        b"[]": -32600,
        b"null": -32600,
        b'{"id":1}': -32600,
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}': -32600,
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}': -32600,
    }
    with plain(root) as client:
        await client.begin()
        for line, code in odd.items():
            client.send(line)
            answer = await client.heard()
            assert (answer["id"], answer["error"]["code"]) == (None, code), line
        client.send(b"")
        client.say("ping", id="x")
        assert (await client.heard())["id"] == "x"


async def test_an_id_in_use_is_refused_and_its_call_goes_on(root: Root) -> None:
    with plain(root) as client:
        await client.begin()
        client.say("tools/call", {"name": "slow_free", "arguments": {}}, id=1)
        await until(lambda: (root.base / "started").exists())
        for again in (1, "1"):
            client.say("tools/call", {"name": "slow_free", "arguments": {}}, id=again)
            answer = await client.heard()
            assert (answer["id"], answer["error"]["message"]) == (None, "this id is in use")
        (root.base / "go").touch()
        answer = await client.heard()
        assert (answer["id"], about_plain(answer)) == (1, "success")
        client.say("ping", id=1)
        assert await client.heard() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert len((root.base / "started").read_text().split()) == 1


async def test_a_message_that_is_too_large_ends_it_and_it_says_so(root: Root) -> None:
    with plain(root) as client:
        stdin, stderr = client.process.stdin, client.process.stderr
        assert stdin is not None
        assert stderr is not None
        large = b'{"x":"' + b"x" * (5 * 1024 * 1024)

        def write() -> None:
            with suppress(BrokenPipeError):
                stdin.write(large)
                stdin.flush()

        await anyio.to_thread.run_sync(write)
        assert await client.ended() == 0
        assert stderr.read() == b"flytui mcp: ended: a message may have at most 4 MiB\n"
        with suppress(BrokenPipeError):
            stdin.close()


async def test_it_ends_with_a_client_that_never_reads(root: Root) -> None:
    with plain(root) as client:
        await client.begin()
        stdin, stdout = client.process.stdin, client.process.stdout
        assert stdin is not None
        assert stdout is not None
        fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, 4096)
        for number in range(4 * MAX_PENDING):
            client.say("tools/list", id=number)
        stdin.close()
        assert await client.ended() == 0


def test_so_many_requests_wait_for_their_answers_and_no_more() -> None:
    def asked(id: int) -> JSONRPCRequest:
        return JSONRPCRequest(jsonrpc="2.0", id=id, method="tools/list")

    owed = PendingRequests()
    assert [owed.add_or_refuse(asked(number)) for number in range(MAX_PENDING)] == [None] * MAX_PENDING
    refused = owed.add_or_refuse(asked(MAX_PENDING))
    assert refused is not None
    assert (refused.id, refused.error.code) == (MAX_PENDING, -32603)
    owed.remove(JSONRPCResponse(jsonrpc="2.0", id=5, result={}))
    assert owed.add_or_refuse(asked(MAX_PENDING)) is None
    cancel = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 7})
    assert owed.add_or_refuse(cancel) is None
    assert owed.add_or_refuse(asked(7)) is None
    assert owed.add_or_refuse(asked(8)) is not None


@pytest.mark.parametrize("leave", ["closes", "killed", "told to end"])
async def test_however_it_ends_what_it_asked_is_withdrawn(root: Root, leave: str) -> None:
    async with served(root) as kernel:
        with plain(root) as client:
            await client.begin()
            client.say("tools/call", {"name": "echo_ask", "arguments": {}}, id=1)
            ask = await waiting_ask(kernel)
            caller = ask.request.caller
            assert (caller.door, caller.pid) == ("socket", os.getpid())
            ends: dict[str, Callable[[], None]] = {
                "closes": client.process.stdin.close if client.process.stdin else client.process.kill,
                "killed": client.process.kill,
                "told to end": client.process.terminate,
            }
            ends[leave]()
            code = await client.ended()
            assert code == {"closes": 0, "killed": -signal.SIGKILL, "told to end": 143}[leave]
        await until(lambda: state_of(kernel, ask) is RequestState.WITHDRAWN)


async def test_it_ends_when_nothing_was_ever_said_and_writes_nothing(root: Root) -> None:
    with plain(root) as client:
        out, err = client.process.communicate(b"", timeout=PATIENCE)
    assert (client.process.returncode, out, err) == (0, b"", b"")


async def test_a_kernel_that_leaves_is_followed_by_the_next_one(root: Root) -> None:
    async def call(client: Plain, id: int) -> dict[str, Any]:
        client.say("tools/call", {"name": "echo_free", "arguments": {}}, id=id)
        while (answer := await client.heard()).get("id") != id:
            assert answer["method"] == "notifications/tools/list_changed"
        result: dict[str, Any] = answer["result"]
        return result

    with ExitStack() as stack:
        async with served(root):
            client = stack.enter_context(plain(root))
            await client.begin()
            assert (await call(client, 1))["structuredContent"] == {"said": "hello"}
        assert (await call(client, 2))["structuredContent"] == {"said": "hello"}


async def test_a_killed_kernel_leaves_the_outcome_unknown(root: Root) -> None:
    with plain(root):
        await until(lambda: root.places.socket.exists())
        async with over_stdio(root, OLD) as client, anyio.create_task_group() as group:
            ended: list[Any] = []

            async def run() -> None:
                ended.append(await client.call_tool("slow_free", {}))

            group.start_soon(run)
            await until(lambda: (root.base / "started").exists())
            holder = read_holder(root.places)
            assert holder is not None
            os.kill(holder.pid, signal.SIGKILL)
            await until(lambda: ended)
            (root.base / "go").touch()
            assert ended[0].is_error
            assert about(ended[0])["error"]["code"] == "outcome-unknown"
            assert not (await client.call_tool("echo_free", {})).is_error
            assert "echo_free" in {one.name for one in (await client.list_tools()).tools}
