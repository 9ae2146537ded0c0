"""A synchronous client of the running kernel, for one request of a command that must start fast.

It speaks `flyflor.ws.v1` like the other clients, with what `rpc.wire` has of it. It uses the standard library
only: the libraries that the other clients use take several times as long to import as a request takes. Of
RFC 6455 it has what a client over a Unix socket needs: whole text messages, pings and the end.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import flycore
from flycore.registry.lock_record import is_socket_path, read_lock_record
from flycore.registry.paths import KERNEL_LOCK, RootPaths
from flycore.rpc.wire import (
    HELLO_SECONDS,
    MAX_ANSWER_BYTES,
    PROTOCOL,
    call_payload,
    hello_payload,
    message_body,
)
from flysafe.unix_sockets import is_same_user, peer_credentials, unsafe_socket

_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_FINAL = 0x80
_MAX_HEAD_BYTES = 16 * 1024


OPEN_SECONDS = 5.0
"""How long a kernel may take until the connection is open. One that takes longer is asked by another client,
which has more patience."""


class NoDirectKernel(Exception):
    """There is no kernel that this client can use. Whoever asks uses the other client, which says why."""


class ConnectionEnded(Exception):
    """The connection ended before the answer came."""


class SyncClient:
    """One connection to a running kernel of this user and of this version."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._deadline = time.monotonic() + OPEN_SECONDS
        self._left = b""
        """Bytes that were received and not read."""
        self._ids = 0

    def _time_left(self) -> float:
        """Return the seconds in which the kernel has to be reached and to answer a question. A time-out of
        zero would make the socket one that does not block."""
        return max(self._deadline - time.monotonic(), 0.001)

    def close(self) -> None:
        """Close the connection. The kernel withdraws what it was asked and has not decided."""
        self._socket.close()

    def ask(self, kind: str, payload: object) -> dict[str, Any]:
        """Send a message and return the payload of its answer. Raises ConnectionEnded, NoDirectKernel."""
        message_id = self.send(kind, payload)
        for message in self.answers(message_id, self._time_left()):
            if message is not None and message["type"] != "error":
                payload_of: dict[str, Any] = message["payload"]
                return payload_of
            break
        raise NoDirectKernel("the kernel refused the message, or did not answer in time")

    def call(
        self, tool: str, input: object, *, timeout_ms: int | None, purpose: str, inline_wait_ms: int
    ) -> str:
        """Send a call, and return the id of its message."""
        payload = call_payload(
            tool, input, timeout_ms=timeout_ms, purpose=purpose, inline_wait_ms=inline_wait_ms
        )
        return self.send("tool.call", payload)

    def cancel(self, message_id: str) -> None:
        """Ask the kernel to end a call. A kernel that is gone has ended it."""
        try:
            self.send("tool.cancel", {"requestId": message_id})
        except OSError:
            return

    def send(self, kind: str, payload: object) -> str:
        """Send a message and return its id. Raises OSError."""
        self._ids += 1
        message_id = f"r{self._ids}"
        self._socket.settimeout(HELLO_SECONDS)
        self._send_frame(_TEXT, json.dumps(message_body(kind, payload, message_id)).encode("ascii"))
        return message_id

    def answers(self, message_id: str, tick: float | None) -> Iterator[dict[str, Any] | None]:
        """Yield the answers to a message as they come, and None each `tick` seconds without one. Raises
        ConnectionEnded."""
        while True:
            message = self._receive(tick)
            if message is None or message.get("correlationId") == message_id:
                yield message

    def _receive(self, seconds: float | None) -> dict[str, Any] | None:
        """Return the next message; None where none came within the time."""
        parts: list[bytes] = []
        size = 0
        self._socket.settimeout(seconds)
        while True:
            try:
                first = self._exactly(1, begins=not parts)
            except TimeoutError:
                return None
            # Once a frame has begun, the rest follows at once.
            self._socket.settimeout(HELLO_SECONDS)
            final, kind, data = self._frame(first[0])
            if kind == _PING:
                self._pong(data)
            elif kind == _CLOSE:
                raise ConnectionEnded
            elif kind != _PONG:
                parts.append(data)
                size += len(data)
                if size > MAX_ANSWER_BYTES:
                    raise ConnectionEnded
                if final:
                    break
            if not parts:
                self._socket.settimeout(seconds)
        try:
            message: dict[str, Any] = json.loads(b"".join(parts))
        except ValueError as error:
            raise ConnectionEnded from error
        return message

    def _pong(self, data: bytes) -> None:
        try:
            self._send_frame(_PONG, data)
        except OSError as error:
            raise ConnectionEnded from error

    def _frame(self, first: int) -> tuple[bool, int, bytes]:
        (length,) = self._exactly(1)
        if length > 127 or first & 0x70:
            raise ConnectionEnded  # masked, or with an extension that was not agreed
        if length == 126:
            (length,) = struct.unpack("!H", self._exactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._exactly(8))
        if length > MAX_ANSWER_BYTES:
            raise ConnectionEnded
        return bool(first & _FINAL), first & 0x0F, self._exactly(length)

    def _send_frame(self, kind: int, data: bytes) -> None:
        length = len(data)
        if length < 126:
            head = struct.pack("!BB", _FINAL | kind, 0x80 | length)
        elif length < 65_536:
            head = struct.pack("!BBH", _FINAL | kind, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", _FINAL | kind, 0x80 | 127, length)
        # Clients have to mask what they send. Over a Unix socket no proxy is fooled by what is sent, so that
        # a mask of zeros, which changes nothing, does as well as a random one.
        self._socket.sendall(head + b"\0\0\0\0" + data)

    def _exactly(self, size: int, *, begins: bool = False) -> bytes:
        """Read so many bytes. Raises ConnectionEnded; with `begins`, TimeoutError before the first byte."""
        while len(self._left) < size:
            try:
                received = self._socket.recv(max(65_536, min(size - len(self._left), 1_048_576)))
            except TimeoutError:
                if begins and not self._left:
                    raise
                raise ConnectionEnded from None
            except OSError as error:
                raise ConnectionEnded from error
            if not received:
                raise ConnectionEnded
            self._left += received
        data, self._left = self._left[:size], self._left[size:]
        return data

    def open(self, *, viewer: bool) -> None:
        """Shake hands, read the first message, and say hello. Raises NoDirectKernel, ConnectionEnded and
        OSError."""
        if not is_same_user(peer_credentials(self._socket)[1]):
            raise NoDirectKernel("another user's program answers")
        key = binascii.b2a_base64(os.urandom(16), newline=False)
        self._socket.sendall(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
        )
        self._socket.settimeout(self._time_left())
        while b"\r\n\r\n" not in self._left:
            received = self._socket.recv(65_536)
            if not received or len(self._left) > _MAX_HEAD_BYTES:
                raise NoDirectKernel("no answer to the handshake")
            self._left += received
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        accepted = binascii.b2a_base64(
            hashlib.sha1(key + _ACCEPT, usedforsecurity=False).digest(), newline=False
        )
        lines = head.lower().split(b"\r\n")
        if not lines[0].startswith(b"http/1.1 101") or accepted not in head:
            raise NoDirectKernel("the program that answers does not shake hands")
        hello = self._receive(self._time_left())
        try:
            payload = (hello or {})["payload"]
            same = (payload["protocol"], payload["version"]) == (PROTOCOL, flycore.__version__)
        except (LookupError, TypeError) as error:
            raise NoDirectKernel("the program that answers is not a kernel") from error
        if not same:
            raise NoDirectKernel("the kernel is of another version")
        self.ask("client.hello", hello_payload("flytui", viewer=viewer, version=flycore.__version__))


def open_direct(places: RootPaths, *, viewer: bool) -> SyncClient:
    """Return a client of the kernel that holds the root. Raises NoDirectKernel; then nothing has been
    asked."""
    path = socket_path(places)
    if not os.path.exists(path) or unsafe_socket(path) is not None:
        raise NoDirectKernel(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client = SyncClient(sock)
    try:
        sock.settimeout(OPEN_SECONDS)
        sock.connect(path)
        client.open(viewer=viewer)
    except (OSError, ConnectionEnded, NoDirectKernel) as error:
        sock.close()
        raise NoDirectKernel(path) from error
    return client


def socket_path(places: RootPaths) -> str:
    """Return the path of the socket of the kernel that holds the root, as its lock names it."""
    record = read_lock_record(places.state_dir / KERNEL_LOCK)
    try:
        named = json.loads(record or b"{}").get("socket", "")
    except (ValueError, AttributeError):
        named = ""
    return named if isinstance(named, str) and is_socket_path(named) else str(places.socket)
