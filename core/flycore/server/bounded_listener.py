"""A listening socket that never holds more than so many connections, whatever arrives.

The event loop accepts what waits, many at once, before any limit of a server sees it. So the limit is in the
socket itself: what comes beyond it is accepted and closed at once, which costs one descriptor for a moment.
Where the process has no descriptor left, the spare one is given up for that moment. The loop would print a
traceback for each such connection instead, and try again a second later.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress

LISTEN_BACKLOG = 128
"""Connections that wait in the operating system until they are accepted."""
ACCEPTED_AT_ONCE = 16
"""Connections that the loop accepts in one turn; the servers get it as their `backlog`. Between two turns the
limits of half-open connections are applied."""
_REFUSED_AT_ONCE = 64
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class BoundedListener(socket.socket):
    """A stream socket whose `accept` gives at most `most` connections that are not closed yet."""

    def __init__(self, family: int, most: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._most = most
        self.open = 0
        """Accepted connections that have not been closed."""
        self.refused = 0
        """Connections that were closed at once."""
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def listen(self, backlog: int = LISTEN_BACKLOG) -> None:
        """Start to listen. The backlog is always `LISTEN_BACKLOG`: servers ask for thousands."""
        super().listen(LISTEN_BACKLOG)

    def accept(self) -> tuple[socket.socket, object]:
        """Accept one connection. Raises BlockingIOError where none waits that may be kept."""
        for _ in range(_REFUSED_AT_ONCE):
            accepted, address = self._accept_any()
            if accepted is None:
                continue
            if self.open < self._most:
                connection = _Connection(self, accepted)
                self.open += 1
                return connection, address
            accepted.close()
            self.refused += 1
        raise BlockingIOError

    def close(self) -> None:
        """Close the socket and the spare descriptor."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()

    def _accept_any(self) -> tuple[socket.socket | None, object]:
        """Accept one connection, or close it and give None where no descriptor is left."""
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _NO_ROOM or self._spare is None:
                raise
        os.close(self._spare)
        self._spare = None
        self.refused += 1
        try:
            super().accept()[0].close()
        finally:
            # Another thread may have taken the descriptor: then the next one is left to the event loop.
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return None, None


class _Connection(socket.socket):
    """An accepted connection, which tells its listener when it is closed."""

    def __init__(self, listener: BoundedListener, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._listener: BoundedListener | None = listener

    def close(self) -> None:
        """Close the connection, and count it out."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.open -= 1
        super().close()
