"""What nobody can do at the HTTP door: dawdle over a later request, or learn how a fault came about."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from flycore.rpc.methods import Client
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.http import AsgiSend, Receive, Scope, serve_http
from flycore.server.mcp.http import http_app
from flycore.server.mcp.media import media_reader
from flycore.server.tokens import TokenStore
from kits.kernel import PATIENCE, Root
from kits.tcp import Listening, head, listening_http, sent
from kits.unix_socket import served

pytestmark = pytest.mark.anyio

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
TYPES = ("Content-Type: application/json", "Accept: application/json, text/event-stream")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def ping(at: Listening) -> bytes:
    lines = (at.host, at.bearer, *TYPES, f"Content-Length: {len(PING)}")
    return head("POST /mcp HTTP/1.1", *lines) + PING


async def answered(stream: anyio.abc.SocketStream) -> bytes:
    """One answer of the application."""
    data = b""
    with anyio.fail_after(PATIENCE):
        while b"\r\n\r\n" not in data or not data.endswith((b"}", b"0\r\n\r\n")):
            data += await stream.receive()
    return data


@asynccontextmanager
async def after_one(at: Listening) -> AsyncIterator[anyio.abc.SocketStream]:
    """A connection that has come in, was answered once, and stays."""
    async with await anyio.connect_tcp("127.0.0.1", at.port) as stream:
        await stream.send(ping(at))
        assert b"HTTP/1.1 " in await answered(stream)
        yield stream


async def dawdled(stream: anyio.abc.SocketStream, data: bytes) -> None:
    """Send byte by byte, as slowly as one may between two; until it is cut off."""
    for byte in data:
        await stream.send(bytes([byte]))
        with anyio.move_on_after(0.1):
            await stream.receive()


async def test_the_lines_of_a_later_request_have_to_come_in_time(root: Root) -> None:
    async with listening_http(root, gate=ConnectionLimits(seconds=2)) as at, after_one(at) as stream:
        slow = head("GET /health HTTP/1.1", at.host, "X-Slow: " + "x" * 4_000)
        with anyio.fail_after(PATIENCE), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await dawdled(stream, slow)


async def test_later_requests_that_come_in_pieces_are_answered(root: Root) -> None:
    async with listening_http(root, gate=ConnectionLimits(seconds=600)) as at, after_one(at) as stream:
        for _ in range(3):
            await stream.send(ping(at)[:9])
            await stream.send(ping(at)[9:])
            assert b"HTTP/1.1 " in await answered(stream)


async def test_a_fault_of_our_own_tells_nothing(root: Root, caplog: pytest.LogCaptureFixture) -> None:
    def broken(key: str) -> Client:
        raise KeyError(f"/secret/place of {key}")

    async with served(root) as kernel:
        book = TokenStore.load(root.places.state_dir)
        token = book.new("good")
        app = http_app(broken, media_reader(root.places))
        async with serve_http(kernel, app, book, 0) as address:
            port = int(address.split(":")[2].split("/")[0])
            lines = (f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {token}", *TYPES)
            request = head("POST /mcp HTTP/1.1", *lines, f"Content-Length: {len(PING)}") + PING
            with caplog.at_level(logging.DEBUG):
                answer = await sent(port, request)
    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 500 ")
    assert b"application/json" in top
    assert json.loads(body)["error"]["message"] == "internal error"
    assert b"secret" not in answer
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (line.name, "KeyError" in line.getMessage(), line.exc_info) == ("flytui.http", True, None)
    assert "secret" not in caplog.text


def posted(at: Listening, body: bytes, *lines: str, target: str = "/mcp") -> bytes:
    lines = (at.host, at.bearer, *TYPES, *lines, f"Content-Length: {len(body)}", "Connection: close")
    return head(f"POST {target} HTTP/1.1", *lines) + body


@pytest.mark.parametrize("number", ["{}", "1.5", "[]", "true", "null", f'"{"x" * 300}"'])
async def test_ids_of_other_types_are_refused(root: Root, number: str) -> None:
    body = f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}'.encode()
    async with listening_http(root) as at:
        answer = await sent(at.port, posted(at, body))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32600


async def test_queries_are_refused_also_empty_ones(root: Root) -> None:
    async with listening_http(root) as at:
        for target in ("/mcp?", "/mcp?token=x", "/health?"):
            assert (await sent(at.port, posted(at, PING, target=target))).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "method": "tools/call", "params": {"name": "x" * 900_000}},
        {"id": 1, "method": "y" * 900_000},
        {"id": "z" * 900_000, "method": "ping"},
        {"id": 1, "method": "resources/read", "params": {"uri": "file:///" + "x" * 900_000}},
    ],
)
async def test_long_names_are_not_repeated(root: Root, body: dict[str, object]) -> None:
    async with listening_http(root) as at:
        answer = await sent(at.port, posted(at, json.dumps({"jsonrpc": "2.0", **body}).encode()))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert len(answer) < 1_000


async def test_two_requests_of_a_session_with_one_id_are_both_answered(root: Root) -> None:
    go, begun = anyio.Event(), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: AsgiSend) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        begun.set()
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with served(root) as kernel:
        book = TokenStore.load(root.places.state_dir)
        token = book.new("good")
        async with serve_http(kernel, app, book, 0) as address, anyio.create_task_group() as group:
            at = Listening(kernel, book, token, address)
            first: list[bytes] = []

            async def post() -> None:
                first.append(await sent(at.port, posted(at, PING, "Mcp-Session-Id: s")))

            group.start_soon(post)
            await begun.wait()
            second = await sent(at.port, posted(at, PING, "Mcp-Session-Id: s"))
            assert b"this id is in use" in second
            go.set()
            other = await sent(at.port, posted(at, PING, "Mcp-Session-Id: t"))
            again = await sent(at.port, posted(at, PING, "Mcp-Session-Id: s"))
    assert [answer[:13] for answer in (*first, other, again)] == [b"HTTP/1.1 200 "] * 3


async def test_a_crowd_without_a_token_does_not_keep_others_out(root: Root) -> None:
    limits = ConnectionLimits(half_open=20, open_in_all=30, seconds=600)
    before = len(os.listdir("/proc/self/fd"))
    async with listening_http(root, gate=limits) as at, AsyncExitStack() as stack:
        crowd = []
        for _ in range(200):
            stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", at.port))
            crowd.append(stream)
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: ")
        answer = await sent(at.port, posted(at, PING))
        assert answer.startswith(b"HTTP/1.1 ")
        assert b" 503 " not in answer[:20]
        # Of this process's descriptors 200 are the crowd's own ends.
        assert len(os.listdir("/proc/self/fd")) - before - len(crowd) < limits.most + 60
