"""Reads and writes the messages of the language server protocol: a header with Content-Length, then JSON.

Source: Language Server Protocol 3.17, section "Base Protocol".
"""

from __future__ import annotations

import json

from flysidecars.sdk import JsonObject

MAX_HEADER_BYTES = 4096
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_PER_FEED = 10_000
"""Messages in one `feed`. A server that sends more is treated as broken."""
_FIRST = b"content-"
"""The first bytes of every header, in lower case."""


class FramingError(Exception):
    """The server wrote something that is not a message of the protocol. The text says what is wrong."""


def encode(message: JsonObject) -> bytes:
    """The bytes of a message, with its header."""
    body = json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode("ascii")
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class MessageReader:
    """Splits a stream of bytes into messages."""

    __slots__ = ("_body_bytes", "_buffer")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_bytes = -1

    @property
    def partial(self) -> bool:
        """Whether a message has begun and is not complete."""
        return self._body_bytes >= 0 or bool(self._buffer)

    def feed(self, data: bytes) -> list[JsonObject]:
        """Add bytes and return the messages that are complete now. Raises `FramingError`."""
        self._buffer += data
        found: list[JsonObject] = []
        while (message := self._next()) is not None:
            found.append(message)
            if len(found) > MAX_PER_FEED:
                raise FramingError("it sends too many messages at once")
        return found

    def _next(self) -> JsonObject | None:
        if self._body_bytes < 0 and not self._header():
            return None
        if len(self._buffer) < self._body_bytes:
            return None
        body = bytes(self._buffer[: self._body_bytes])
        del self._buffer[: self._body_bytes]
        self._body_bytes = -1
        return _message(body)

    def _header(self) -> bool:
        """Remove the header from the buffer; False if it is not complete."""
        # A program that is no language server often prints a banner: fail on its first bytes instead of
        # waiting for a header until the deadline.
        first = bytes(self._buffer[: len(_FIRST)]).lower()
        if not _FIRST.startswith(first):
            raise FramingError("its stdout does not begin with a header of the protocol")
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES + 4)
        if end < 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise FramingError(f"a header is longer than {MAX_HEADER_BYTES} bytes")
            return False
        self._body_bytes = _length(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        return True


def _length(header: bytes) -> int:
    lengths = [
        value.strip()
        for name, _, value in (line.partition(b":") for line in header.split(b"\r\n"))
        if name.strip().lower() == b"content-length"
    ]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 12:
        raise FramingError("a header has no readable Content-Length")
    length = int(lengths[0])
    if length > MAX_BODY_BYTES:
        raise FramingError(f"a message is larger than {MAX_BODY_BYTES} bytes")
    return length


def _message(body: bytes) -> JsonObject:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as broken:
        raise FramingError("a message is not JSON") from broken
    if not isinstance(message, dict):
        raise FramingError("a message is not an object")
    return message
