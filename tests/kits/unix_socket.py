"""The Unix socket of a real kernel, used by a plain WebSocket client or byte by byte."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from websockets.asyncio.client import ClientConnection, unix_connect

from flycore.kernel.kernel import Kernel
from flycore.server.unix import serve_unix
from kits.kernel import PATIENCE, Root, kernel_of


@asynccontextmanager
async def served(root: Root) -> AsyncIterator[Kernel]:
    """A kernel with a console attached, and its Unix socket."""
    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket):
        yield kernel


@asynccontextmanager
async def plain(root: Root) -> AsyncIterator[ClientConnection]:
    """A WebSocket client after the handshake and the kernel's first message."""
    async with unix_connect(str(root.places.socket), uri="ws://localhost/ws", compression=None) as connection:
        hello = json.loads(await connection.recv())
        assert hello["type"] == "server.hello"
        yield connection


async def say(connection: ClientConnection, kind: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    """Send a message and return the first answer to it."""
    message = {
        "protocol": "flyflor.ws.v1",
        "id": "m1",
        "type": kind,
        "at": 0.0,
        "payload": {} if payload is None else payload,
        **more,
    }
    await connection.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(await connection.recv())
    return answer


def message(kind: str, payload: object, number: str) -> str:
    """A message of that id, as text. A payload that is a text is its JSON."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return f'{{"protocol": "flyflor.ws.v1", "id": "{number}", "type": "{kind}", "at": 0, "payload": {text}}}'


async def answer_to(connection: ClientConnection, number: str) -> dict[str, Any]:
    """The answer to the message of that id."""
    while True:
        answer: dict[str, Any] = json.loads(await connection.recv())
        if answer.get("correlationId") == number and answer["type"] != "tool.progress":
            return answer


async def answered(connection: ClientConnection, name: str, text: str, number: str) -> str:
    """Call a tool with that text as its input; how the call ended."""
    await connection.send(message("tool.call", f'{{"tool": "{name}", "input": {text}}}', number))
    with anyio.fail_after(4 * PATIENCE):
        answer = await answer_to(connection, number)
    payload = answer["payload"]
    if payload.get("status") == "denied":
        return str(payload["error"])
    return str(payload.get("status") or payload.get("code"))


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked WebSocket frame. The mask is zero, so that the payload is not changed."""
    size = len(payload)
    head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([0x80 | opcode]) + head + bytes(4) + payload


@asynccontextmanager
async def raw(root: Root) -> AsyncIterator[anyio.abc.SocketStream]:
    """A connection for raw bytes, after the handshake and the first bytes of the kernel's message."""
    async with await anyio.connect_unix(root.places.socket) as stream:
        await stream.send(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert b"101 Switching" in await stream.receive()
        yield stream
