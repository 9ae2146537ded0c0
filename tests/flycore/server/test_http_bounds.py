"""What nobody can do at the HTTP door: dawdle over a later request, or learn how a fault came about."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from flycore.rpc.methods import Client
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.http import serve_http
from flycore.server.mcp.http import http_app
from flycore.server.mcp.images import image_reader
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
        app = http_app(broken, image_reader(root.places))
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
