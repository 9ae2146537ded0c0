"""A WebSocket connection whose peer cannot make this process keep what it never reads."""

from __future__ import annotations

from websockets.asyncio.server import ServerConnection

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
