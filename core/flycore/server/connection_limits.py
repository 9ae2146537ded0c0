"""How many may stand in a listener's door, and how many may be inside: both for TCP and for HTTP.

Who has connected and not yet shown a token costs a place among few; when those are full the one that has
stood there longest has to go, so that a crowd at the door keeps out nobody who brings a token at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from websockets.asyncio.server import ServerConnection

from flycore.server.admission import CROWDED, Refusal
from flycore.server.tokens import Token

HANDSHAKE_SECONDS = 5.0
"""How long a connection may take to bring its token."""
MAX_HALF_OPEN = 64
MAX_OPEN = 256
MAX_OPEN_PER_TOKEN = 64


@dataclass(slots=True)
class _OpenConnection:
    close: Callable[[], None]
    deadline: asyncio.TimerHandle
    token: Token | None = None


class ConnectionLimits:
    """The connections of one listener, by whatever tells them apart. To be used in the event loop."""

    def __init__(
        self,
        *,
        half_open: int = MAX_HALF_OPEN,
        open_in_all: int = MAX_OPEN,
        per_token: int = MAX_OPEN_PER_TOKEN,
        seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._half_open, self._open, self._per_token = half_open, open_in_all, per_token
        self.seconds = seconds
        """How long a connection may take to bring its token, or the lines of its next request."""
        self._connections: dict[Hashable, _OpenConnection] = {}

    def opened(self, key: Hashable, close: Callable[[], None]) -> None:
        """Somebody has connected. `close` drops the connection; it may be called once."""
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self.seconds, self._drop, key)
        self._connections[key] = _OpenConnection(close, deadline)
        waiting = [other for other, place in self._connections.items() if place.token is None]
        if len(waiting) > self._half_open:
            self._drop(waiting[0])

    def admit(self, key: Hashable, token: Token, close: Callable[[], None] | None = None) -> Refusal | None:
        """Let it in with that token, from now on to be ended by `close`; else why not."""
        place = self._connections.get(key)
        if place is None:  # it has been dropped
            return CROWDED
        if place.token is None:
            inside = [other.token for other in self._connections.values() if other.token is not None]
            if len(inside) >= self._open or inside.count(token) >= self._per_token:
                return CROWDED
        place.deadline.cancel()
        place.token, place.close = token, close or place.close
        return None

    def closed(self, key: Hashable) -> None:
        """The connection is gone."""
        place = self._connections.pop(key, None)
        if place is not None:
            place.deadline.cancel()

    def keep_only(self, tokens: tuple[Token, ...]) -> None:
        """End every connection whose token is none of these."""
        for key, place in tuple(self._connections.items()):
            if place.token is not None and place.token not in tokens:
                self._drop(key)

    def drop_half_open(self) -> None:
        """Drop everybody who has not come in."""
        for key, place in tuple(self._connections.items()):
            if place.token is None:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        place = self._connections.get(key)
        if place is not None:
            self.closed(key)
            place.close()


# A WebSocket connection whose peer cannot make this process keep what it never reads.


MAX_UNREAD_BYTES = 1024 * 1024
"""Bytes of automatic answers that a peer may leave unread."""


class PingLimitedConnection(ServerConnection):
    """Drops a peer that pings and never reads: the answers would be kept for good."""

    _unread_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer; answers to pings are written on the way."""
        before = self.transport.get_write_buffer_size()
        super().data_received(data)
        self._unread_bytes += self.transport.get_write_buffer_size() - before
        if not self.paused:
            self._unread_bytes = 0
        elif self._unread_bytes > MAX_UNREAD_BYTES:
            self.transport.abort()
