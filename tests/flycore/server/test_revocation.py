"""A token that is taken away, here by another process: whatever is open under it ends at once."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from kits.kernel import ECHO, PATIENCE, Root, tool, until, waiting_ask
from kits.tcp import Listening, called, client, head, listening, listening_http, sent

pytestmark = pytest.mark.anyio

WAITS = """#!/bin/sh
read -r request
touch {base}/started
while :; do sleep 0.05; done
"""
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
TYPES = ("Content-Type: application/json", "Accept: application/json, text/event-stream")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.ask", risk="high"))
    made.sidecar("slow", WAITS.format(base=tmp_path), tool("slow.do"))
    made.policy({"tool": "slow.do", "decision": "allow", "because": "test"})
    return made


async def revoked(root: Root) -> None:
    """By the command, which is a process of its own."""
    argv = [sys.executable, "-m", "flytui", "--root", str(root.folder), "token", "revoke", "good"]
    done = await anyio.run_process(argv, env=root.environ, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr


NUMBERS = itertools.count(1)


def posted(at: Listening, method: str, params: object, *lines: str) -> bytes:
    number = next(NUMBERS)  # of two open requests with one id the second would be refused
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    common = (at.host, at.bearer, *TYPES, f"Content-Length: {len(body)}", *lines)
    return head("POST /mcp HTTP/1.1", *common) + body


async def cut(stream: anyio.abc.SocketStream) -> bytes:
    """What comes until the connection ends."""
    data = b""
    with anyio.fail_after(PATIENCE):
        try:
            while True:
                data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return data


def at_rest(at: Listening) -> bool:
    status = at.kernel.status()
    return status.waiting == status.running == 0


async def test_over_tcp(root: Root) -> None:
    ended: list[str] = []
    async with listening(root) as at:

        async def call(name: str) -> None:
            async with client(at) as connection:
                try:
                    await called(connection, name)
                except ConnectionClosed as closed:
                    ended.append(f"{name} {closed.rcvd.code if closed.rcvd else None}")

        async with client(at) as idle, anyio.create_task_group() as group:
            group.start_soon(call, "echo.ask")
            group.start_soon(call, "slow.do")
            await waiting_ask(at.kernel)
            await until(lambda: (root.base / "started").exists())
            await revoked(root)
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
                await idle.recv()
        await until(lambda: at_rest(at))
    assert sorted(ended) == ["echo.ask 4401", "slow.do 4401"]


# the SDK leaves a memory stream of a request that was cut off to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_over_http(root: Root) -> None:
    async with listening_http(root) as at:
        begun = await sent(at.port, posted(at, "initialize", INITIALIZE, "Connection: close"))
        session = next(line for line in begun.splitlines() if line.lower().startswith(b"mcp-session-id"))
        own = session.decode()
        calls = [
            posted(at, "tools/call", {"name": name, "arguments": {}}, own) for name in ("echo_ask", "slow_do")
        ]
        listens = head("GET /mcp HTTP/1.1", at.host, at.bearer, own, "Accept: text/event-stream")
        streams = []
        for data in (*calls, listens):
            streams.append(await anyio.connect_tcp("127.0.0.1", at.port))
            await streams[-1].send(data)
        assert b" 200 " in (await streams[-1].receive()).splitlines()[0]
        await waiting_ask(at.kernel)
        await until(lambda: (root.base / "started").exists())
        await revoked(root)
        for stream in streams:
            assert b'"result"' not in await cut(stream)
            await stream.aclose()
        await until(lambda: at_rest(at))
        again = await sent(at.port, posted(at, "ping", {}, own, "Connection: close"))
        assert again.startswith(b"HTTP/1.1 401 ")
