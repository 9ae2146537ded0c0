"""A real kernel's listeners on loopback, and requests to them, byte by byte where needed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client
from websockets.asyncio.client import ClientConnection, connect

from flycore.kernel.kernel import Kernel
from flycore.model.caller import parse_caller_key
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.http import serve_http
from flycore.server.local import LocalClient
from flycore.server.mcp.http import http_app
from flycore.server.mcp.media import media_reader
from flycore.server.tcp import serve_tcp
from flycore.server.tokens import TokenStore
from flycore.server.unix import serve_unix
from kits.kernel import PATIENCE, Root, kernel_of

UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 13",
)


@dataclass(frozen=True, slots=True)
class Listening:
    """A kernel that listens, and the token of the client `good`."""

    kernel: Kernel
    book: TokenStore
    token: str
    address: str

    @property
    def port(self) -> int:
        """The TCP port."""
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def host(self) -> str:
        """The Host line that the kernel accepts."""
        return f"Host: 127.0.0.1:{self.port}"

    @property
    def bearer(self) -> str:
        """The Authorization line of the client `good`."""
        return f"Authorization: Bearer {self.token}"


@asynccontextmanager
async def listening(root: Root, *, gate: ConnectionLimits | None = None) -> AsyncIterator[Listening]:
    """A kernel with a console attached, its Unix socket, and a free TCP port."""
    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket):
        book = TokenStore.load(root.places.state_dir)
        token = book.new("good")
        async with serve_tcp(kernel, book, 0, limits=gate) as address:
            yield Listening(kernel, book, token, address)


@asynccontextmanager
async def client(at: Listening, token: str = "") -> AsyncIterator[ClientConnection]:
    """A plain `websockets` client after the handshake and the kernel's first message."""
    headers = {"Authorization": f"Bearer {token or at.token}"}
    async with connect(at.address, additional_headers=headers, compression=None, proxy=None) as connection:
        assert json.loads(await connection.recv())["type"] == "server.hello"
        yield connection


def head(first: str, *lines: str) -> bytes:
    """A request without a body."""
    return "\r\n".join((first, *lines, "", "")).encode("latin-1", "replace")


async def sent(port: int, data: bytes) -> bytes:
    """Send these bytes on a new connection and return everything up to its end."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        heard = b""
        with anyio.fail_after(PATIENCE):
            try:
                await stream.send(data)
                while True:
                    heard += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return heard


async def asked(at: Listening, lines: Sequence[str], target: str = "/ws") -> bytes:
    """The answer to a WebSocket handshake with these lines, up to the connection's end."""
    return await sent(at.port, head(f"GET {target} HTTP/1.1", *lines, *UPGRADE))


async def called(connection: ClientConnection, tool: str, input: dict[str, Any] | None = None) -> str:
    """Call a tool and return its final status."""
    call = {"protocol": "flyflor.ws.v1", "id": "call", "type": "tool.call", "at": 0}
    await connection.send(json.dumps({**call, "payload": {"tool": tool, "input": input or {}}}))
    while True:
        answer = json.loads(await connection.recv())
        if answer.get("correlationId") == "call" and answer["type"] != "tool.progress":
            return str(answer["payload"].get("status") or answer["payload"].get("code"))


@asynccontextmanager
async def listening_http(root: Root, *, gate: ConnectionLimits | None = None) -> AsyncIterator[Listening]:
    """A kernel with a console attached, its Unix socket, and MCP over HTTP on a free port."""
    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket):
        book = TokenStore.load(root.places.state_dir)
        token = book.new("good")
        app = http_app(lambda key: LocalClient(kernel, parse_caller_key(key)), media_reader(root.places))
        async with serve_http(kernel, app, book, 0, limits=gate) as address:
            yield Listening(kernel, book, token, address)


@asynccontextmanager
async def mcp_client(at: Listening, token: str = "", mode: ConnectMode = "auto") -> AsyncIterator[Client]:
    """The official MCP client over HTTP. `legacy` is the protocol with sessions."""
    headers = {"Authorization": f"Bearer {token or at.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False) as plain,
        Client(streamable_http_client(at.address, http_client=plain), mode=mode) as session,
    ):
        yield session
