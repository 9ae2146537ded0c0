"""A listening socket that never holds more than so many connections, whatever arrives.

The event loop accepts what waits, many at once, before any limit of a server sees it. So the limit is in the
socket itself: what comes beyond it is accepted and closed at once, which costs one descriptor for a moment.
Where the process has no descriptor left, the spare one is given up for that moment. The loop would print a
traceback for each such connection instead, and try again a second later.

A listener may keep a reserve of descriptors for some connections, such as those of the person's own commands:
while one of them is open, the whole reserve is free for what it asks for.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from flysafe.spare_descriptors import NONE_LEFT

LISTEN_BACKLOG = 128
"""Connections that wait in the operating system until they are accepted."""
ACCEPTED_AT_ONCE = 16
"""Connections that the loop accepts in one turn; the servers get it as their `backlog`. Between two turns the
limits of half-open connections are applied."""
_REFUSED_AT_ONCE = 64
_NO_ROOM = (*NONE_LEFT, errno.ENOBUFS, errno.ENOMEM)


class BoundedListener(socket.socket):
    """A stream socket whose `accept` gives at most `most` connections that are not closed yet."""

    def __init__(
        self,
        family: int,
        most: int,
        *,
        reserve: int = 1,
        may_use_reserve: Callable[[socket.socket], bool] = lambda _: False,
    ) -> None:
        """Keep `reserve` descriptors. `may_use_reserve` says for which connections they are; those are also
        accepted beyond `most`, up to `reserve` of them."""
        super().__init__(family, socket.SOCK_STREAM)
        self._reserve, self._may_use_reserve = reserve, may_use_reserve
        self._using = 0
        """Open connections that were accepted from the reserve."""
        self._most = most
        self.open = 0
        """Accepted connections that have not been closed."""
        self.refused = 0
        """Connections that were closed at once."""
        self._spare: list[int] = []
        self._refill()

    def listen(self, backlog: int = LISTEN_BACKLOG) -> None:
        """Start to listen. The backlog is always `LISTEN_BACKLOG`: servers ask for thousands."""
        super().listen(LISTEN_BACKLOG)

    def accept(self) -> tuple[socket.socket, object]:
        """Accept one connection. Raises BlockingIOError where none waits that may be kept."""
        for _ in range(_REFUSED_AT_ONCE):
            accepted, address, from_reserve = self._accept_any()
            if self.open - self._using >= self._most:
                from_reserve = True
            if not from_reserve or self._is_for_reserve(accepted):
                self.open += 1
                self._using += from_reserve
                return _Connection(self, accepted, from_reserve=from_reserve), address
            accepted.close()
            self.refused += 1
            self._refill()
        raise BlockingIOError

    def note_closed(self, *, from_reserve: bool) -> None:
        """Count an accepted connection out."""
        self.open -= 1
        self._using -= from_reserve
        self._refill()

    def close(self) -> None:
        """Close the socket and the spare descriptors."""
        self._reserve = 0
        self._release()
        super().close()

    def _accept_any(self) -> tuple[socket.socket, object, bool]:
        """Accept one connection; the last value says whether it has one of the reserve's descriptors."""
        self._refill()
        try:
            # A descriptor that is free while the reserve is in use, or not whole, belongs to the reserve: a
            # crowd that waits would take all that a command of the person gave back.
            return *super().accept(), len(self._spare) < self._reserve
        except OSError as error:
            if error.errno not in _NO_ROOM or not self._spare:
                raise
        # All of them: to find out who connects takes some, too.
        self._release()
        try:
            return *super().accept(), True
        except OSError:
            # Another thread may have taken the descriptors: then the event loop tries again.
            self._refill()
            raise

    def _is_for_reserve(self, connection: socket.socket) -> bool:
        return self._using < self._reserve and self._may_use_reserve(connection)

    def _release(self) -> None:
        while self._spare:
            os.close(self._spare.pop())

    def _refill(self) -> None:
        """Open the spare descriptors again, as far as nothing uses them and there are any."""
        with suppress(OSError):
            while not self._using and len(self._spare) < self._reserve:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


class _Connection(socket.socket):
    """An accepted connection, which tells its listener when it is closed."""

    def __init__(self, listener: BoundedListener, accepted: socket.socket, *, from_reserve: bool) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._listener: BoundedListener | None = listener
        self._from_reserve = from_reserve

    def close(self) -> None:
        """Close the connection, and count it out."""
        listener, self._listener = self._listener, None
        # Closed first: the listener may take the descriptor back into its reserve.
        super().close()
        if listener is not None:
            listener.note_closed(from_reserve=self._from_reserve)
