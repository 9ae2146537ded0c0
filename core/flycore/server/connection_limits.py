"""Limits on the connections of the TCP and HTTP listeners: how many may be open, and how many half open.

A connection is half open until it has presented a token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable

import msgspec
from websockets.asyncio.server import ServerConnection

from flycore.server.admission import TOO_MANY_CONNECTIONS, Refusal
from flycore.server.bounded_listener import ACCEPTED_AT_ONCE
from flycore.server.tokens import Token

HANDSHAKE_SECONDS = 5.0
"""How long a connection may take to present its token."""
MAX_HALF_OPEN = 64
MAX_OPEN = 256
MAX_OPEN_PER_TOKEN = 64


class _OpenConnection(msgspec.Struct):
    close: Callable[[], None]
    deadline: asyncio.TimerHandle
    token: Token | None = None


class ConnectionLimits:
    """The connections of one listener, each under a hashable key. Use it in the event loop's thread only."""

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
        """How long a connection may take to present its token, or to send the head of its next request."""
        self._connections: dict[Hashable, _OpenConnection] = {}

    @property
    def most(self) -> int:
        """How many connections there may be at all, with those that were just accepted."""
        return self._open + self._half_open + ACCEPTED_AT_ONCE

    def opened(self, key: Hashable, close: Callable[[], None]) -> None:
        """Add a new, half-open connection. `close` drops it and is called at most once."""
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self.seconds, self._drop, key)
        self._connections[key] = _OpenConnection(close, deadline)
        # The oldest half-open connection goes, not the new one: a flood of connections without tokens must
        # not keep out a client that presents its token at once. Dictionaries keep the order of insertion.
        half_open = [other for other, entry in self._connections.items() if entry.token is None]
        if len(half_open) > self._half_open:
            self._drop(half_open[0])

    def admit(self, key: Hashable, token: Token, close: Callable[[], None] | None = None) -> Refusal | None:
        """Count the connection as open with that token, or return why it is refused.

        `close`, where it is given, replaces the function that drops the connection.
        """
        entry = self._connections.get(key)
        if entry is None:  # it was dropped while its token was read
            return TOO_MANY_CONNECTIONS
        if entry.token is None:
            tokens = [other.token for other in self._connections.values() if other.token is not None]
            if len(tokens) >= self._open or tokens.count(token) >= self._per_token:
                return TOO_MANY_CONNECTIONS
        entry.deadline.cancel()
        entry.token, entry.close = token, close or entry.close
        return None

    def closed(self, key: Hashable) -> None:
        """Remove a connection that has ended. A key that is not known is ignored."""
        entry = self._connections.pop(key, None)
        if entry is not None:
            entry.deadline.cancel()

    def keep_only(self, tokens: tuple[Token, ...]) -> None:
        """Drop every open connection whose token is not one of `tokens`."""
        for key, entry in tuple(self._connections.items()):
            if entry.token is not None and entry.token not in tokens:
                self._drop(key)

    def drop_half_open(self) -> None:
        """Drop every connection that has not presented a token."""
        for key, entry in tuple(self._connections.items()):
            if entry.token is None:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        entry = self._connections.get(key)
        if entry is not None:
            self.closed(key)
            entry.close()


MAX_PER_PROCESS = 64
"""Connections that one process may have open over the Unix socket."""
RESERVED = 16
"""Connections over the Unix socket beyond the limit, and descriptors, that are kept for the person's own
commands, such as `flytui status` and `flytui panic`."""


class ProcessLimits:
    """The connections over the Unix socket, each with the process at its other end.

    One process, or many that work together, cannot keep others out: where there is no room, the process with
    the most connections loses its latest one. Where many processes have one each, the person's own commands
    still find a place. Use it in the event loop's thread only.
    """

    def __init__(
        self,
        *,
        open_in_all: int = MAX_OPEN,
        per_process: int = MAX_PER_PROCESS,
        reserved: int = RESERVED,
        is_own_command: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`is_own_command` says whether a process is a command of the person, for which `reserved` places are
        kept."""
        self.most = open_in_all
        self._per_process, self._reserved = per_process, reserved
        self._is_own_command = is_own_command
        self._connections: dict[Hashable, tuple[int, Callable[[], None]]] = {}

    def opened(self, key: Hashable, pid: int, close: Callable[[], None]) -> None:
        """Add a connection of that process; `close` drops it, at once where the process has too many."""
        counts = Counter(other for other, _ in self._connections.values())
        self._connections[key] = pid, close
        if counts[pid] >= self._per_process:
            self._drop(key)
        elif len(self._connections) > self.most:
            greediest, count = counts.most_common(1)[0]
            latest = [other for other, (owner, _) in self._connections.items() if owner == greediest][-1]
            if count > counts[pid] + 1:
                self._drop(latest)
            elif not self._has_reserved_place(pid):
                self._drop(key)

    def _has_reserved_place(self, pid: int) -> bool:
        return len(self._connections) <= self.most + self._reserved and self._is_own_command(pid)

    def closed(self, key: Hashable) -> None:
        """Remove a connection that has ended. A key that is not known is ignored."""
        self._connections.pop(key, None)

    def _drop(self, key: Hashable) -> None:
        _, close = self._connections.pop(key)
        close()


MAX_UNREAD_BYTES = 1024 * 1024
"""Bytes of automatic answers that a peer may leave unread."""


class PingLimitedConnection(ServerConnection):
    """A WebSocket connection that drops a peer that sends pings and never reads the answers."""

    _unread_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer. The answers to pings are written on the way."""
        # websockets answers pings without waiting for the peer to read, so that the write buffer would grow
        # without a bound. What this call adds to the buffer is such answers.
        before = self.transport.get_write_buffer_size()
        super().data_received(data)
        self._unread_bytes += self.transport.get_write_buffer_size() - before
        if not self.paused:
            self._unread_bytes = 0
        elif self._unread_bytes > MAX_UNREAD_BYTES:
            self.transport.abort()
