"""The HTTP door with the real MCP application behind it: who comes in, as whom, and how it ends."""

from __future__ import annotations

import json
import logging
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from flycore.server.connection_limits import ConnectionLimits
from flycore.server.http import MAX_BODY_BYTES
from kits.kernel import ECHO, PATIENCE, Root, approve, tool, until, waiting_ask
from kits.tcp import Listening, head, listening_http, mcp_client, sent

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
).encode()


def posted(at: Listening, *lines: str, body: bytes = INITIALIZE, target: str = "/mcp") -> bytes:
    """A request as MCP clients make it."""
    common = (
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "Connection: close",
    )
    return head(f"POST {target} HTTP/1.1", *lines, *common, f"Content-Length: {len(body)}") + body


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
            b'"params": {"name": "echo_free", "arguments": {"a": 1, "a": 2}}}'
        ),
        b"{]",
        b"[" * 900_000,
        b"\xff\xfe",
    ],
)
async def test_a_body_that_two_programs_could_read_differently_is_not_read(root: Root, body: bytes) -> None:
    async with listening_http(root) as at:
        opened = await sent(at.port, posted(at, at.host, at.bearer))
        session = next(line for line in opened.split(b"\r\n") if line.lower().startswith(b"mcp-session-id"))
        answer = await sent(at.port, posted(at, at.host, at.bearer, session.decode(), body=body))
        assert status(answer) == 400
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32700
        assert at.kernel.activity() == ()


async def test_what_the_sdk_warns_of_is_written_nowhere(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flycore.server.mcp.http.MAX_SESSIONS", 1)
    # What reaches the root's handlers is written. Those of pytest may also listen at loggers themselves.
    written = BufferingHandler(1_000)
    logging.getLogger().addHandler(written)
    try:
        async with listening_http(root) as at:
            answers = [status(await sent(at.port, posted(at, at.host, at.bearer))) for _ in range(2)]
    finally:
        logging.getLogger().removeHandler(written)
    assert answers == [200, 503]
    assert [record for record in written.buffer if record.name.startswith("mcp")] == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_s_name_is_the_caller(root: Root, mode: Any) -> None:
    async with listening_http(root) as at:
        assert at.kernel.status().listening == (at.address,)
        async with mcp_client(at, mode=mode) as session:
            assert not (await session.call_tool("echo_free", {})).is_error
            results: list[bool] = []

            async def ask() -> None:
                results.append((await session.call_tool("echo_ask", {})).is_error)

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                waiting = await waiting_ask(at.kernel)
                assert str(waiting.request.caller) == "good via http"
                await approve(at.kernel, waiting)
            assert results == [False]
    assert at.kernel.status().listening == ()


async def test_what_it_answers_names_no_server_and_health_says_ok(root: Root) -> None:
    async with listening_http(root) as at:
        health = await sent(at.port, head("GET /health HTTP/1.1", at.host, "Connection: close"))
        good = await sent(at.port, posted(at, at.host, at.bearer))
    assert (status(health), health.endswith(b"\r\n\r\nok\n")) == (200, True)
    assert status(good) == 200
    assert b"\r\nserver:" not in (health + good).lower()


async def test_a_body_is_bounded(root: Root) -> None:
    large = b"x" * (MAX_BODY_BYTES + 1)
    async with listening_http(root) as at:
        assert status(await sent(at.port, posted(at, at.host, at.bearer, body=large))) == 413
        told = head("POST /mcp HTTP/1.1", at.host, at.bearer, "Content-Length: 99999999999")
        assert status(await sent(at.port, told)) == 413
        chunked = head("POST /mcp HTTP/1.1", at.host, at.bearer, "Transfer-Encoding: chunked")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        assert status(await sent(at.port, chunked + chunk * 17 + b"0\r\n\r\n")) == 413
        assert status(await sent(at.port, posted(at, at.host, at.bearer))) == 200


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_revoked_token_loses_what_it_has_open(root: Root, mode: Any) -> None:
    async with listening_http(root) as at:
        ended: list[str] = []

        async def wait() -> None:
            try:
                async with mcp_client(at, mode=mode) as session:
                    result = await session.call_tool("echo_ask", {})
                    ended.append("refused" if result.is_error else "done")
            except* (MCPError, httpx2.HTTPError):
                ended.append("cut off")

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await waiting_ask(at.kernel)
            at.book.revoke("good")
            await until(lambda: at.kernel.status().waiting == at.kernel.status().running == 0)
            assert status(await sent(at.port, posted(at, at.host, at.bearer))) == 401
            group.cancel_scope.cancel()
        assert "done" not in ended


async def test_an_open_stream_does_not_hold_up_the_end(root: Root) -> None:
    with anyio.fail_after(PATIENCE):
        async with listening_http(root, gate=ConnectionLimits(seconds=600)) as at:
            stream = await anyio.connect_tcp("127.0.0.1", at.port)
            idle = await anyio.connect_tcp("127.0.0.1", at.port)
            first = await sent(at.port, posted(at, at.host, at.bearer))
            session = next(line for line in first.splitlines() if line.lower().startswith(b"mcp-session-id"))
            lines = (at.host, at.bearer, session.decode(), "Accept: text/event-stream")
            await stream.send(head("GET /mcp HTTP/1.1", *lines))
            assert b" 200 " in (await stream.receive()).splitlines()[0]
    await stream.aclose()
    await idle.aclose()
