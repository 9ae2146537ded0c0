"""Our ends of a child's pipes, read and written on the event loop, and the buffers for what is read.

The descriptors of all children are watched through one epoll, which is one descriptor of the event loop.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import struct
import termios
from collections.abc import Callable
from weakref import WeakKeyDictionary

# The loop's own `add_reader` costs several objects for each of a child's descriptors, and a callback in the
# loop's queue for each one that is ready. Here a descriptor costs one system call, and all that are ready
# are served in one turn of the loop.


READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
_MOST_AT_ONCE = 256


class EpollReader:
    """The watcher of one event loop, made by `epoll_reader_of`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, fd: int, ready: Callable[[], object], mask: int = READABLE) -> None:
        """Call `ready` on the event loop in each turn in which `fd` is ready, was closed at its other end, or
        has failed."""
        self._epoll.register(fd, mask)
        self._calls[fd] = ready

    def forget(self, fd: int) -> None:
        """Stop watching `fd`; nothing where it is not watched."""
        # This comes before the close: a closed number may at once belong to another file, which epoll would
        # take for the watched one.
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _serve(self) -> None:
        for fd, _ in self._epoll.poll(0, _MOST_AT_ONCE):
            # A callback of this turn may have stopped watching a descriptor that comes later in the list.
            ready = self._calls.get(fd)
            if ready is not None:
                ready()


_reactors: WeakKeyDictionary[asyncio.AbstractEventLoop, EpollReader] = WeakKeyDictionary()


def epoll_reader_of(loop: asyncio.AbstractEventLoop) -> EpollReader:
    """The watcher of that event loop; it lives as long as the loop."""
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = EpollReader(loop)
    return reactor


FIRST_READ = 65_536
"""Bytes of a read until one is full: the size that Linux gives a pipe."""
CHUNK = 262_144
"""Bytes of each later read."""
PIPE_SIZE = 1_048_576
"""Bytes of a widened pipe: what Linux allows without privileges by default."""
TAIL = 65_536
"""Bytes of stderr that are kept."""


class PipeReader:
    """Reads a pipe when the event loop finds it readable.

    `take` is called with each chunk and returns whether it wants more; `on_end` is called when the last
    writer has closed the pipe.
    """

    def __init__(
        self,
        reactor: EpollReader,
        fd: int,
        take: Callable[[bytes], bool],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._reactor, self._fd, self._take, self._on_end = reactor, fd, take, on_end
        self._size = FIRST_READ
        os.set_blocking(fd, False)
        reactor.watch(fd, self._read)

    def _read(self, most: int = CHUNK) -> int:
        """Read once, and return the number of bytes: 0 at the end, or when there is nothing to read."""
        # One chunk in each turn of the loop, so that a child that writes without end does not delay the
        # others.
        try:
            data = os.read(self._fd, min(self._size, most))
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            if self._on_end is not None:
                self._on_end()
            return 0
        # Only a pipe that came full is widened: small answers do not pay for it, and pipe memory is limited
        # for each user.
        if len(data) == FIRST_READ == self._size:
            self._widen()
        if not self._take(data):
            self.close()
        return len(data)

    def _widen(self) -> None:
        self._size = CHUNK
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:
            return  # over the user's limit: the pipe keeps its size and is only slower

    def drain(self) -> None:
        """Read what is in the pipe now."""
        if self._fd < 0:
            return
        # The amount is read first, because a grandchild may go on writing: reading to the end could have no
        # end.
        waiting: int = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4))[0]
        while waiting > 0 and self._fd >= 0:
            got = self._read(waiting)
            if not got:
                return
            waiting -= got

    def close(self) -> None:
        """Stop reading, and close the pipe."""
        if self._fd >= 0:
            self._reactor.forget(self._fd)
            os.close(self._fd)
            self._fd = -1


class PipeWriter:
    """Writes one document into a pipe and closes it. A child that does not read it, or exits, is no error."""

    def __init__(self, reactor: EpollReader, fd: int, data: bytes) -> None:
        self._reactor, self._fd, self._rest = reactor, fd, memoryview(data)
        os.set_blocking(fd, False)
        self._write()
        if self._fd >= 0:
            reactor.watch(fd, self._write, WRITABLE)

    def _write(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = self._rest[len(self._rest) :]
        self.close()

    def close(self) -> None:
        """Close the pipe, whether all was written or not."""
        if self._fd >= 0:
            self._reactor.forget(self._fd)
            os.close(self._fd)
            self._fd = -1


class LineWriter:
    """Writes documents into a pipe that stays open. A document that is not read is no error; `pending` shows
    it."""

    def __init__(self, reactor: EpollReader, fd: int) -> None:
        self._reactor, self._fd = reactor, fd
        self._rest = bytearray()
        self._watched = False
        os.set_blocking(fd, False)

    def send(self, data: bytes) -> None:
        """Write as much as the pipe has room for now, and the rest when it has more."""
        self._rest += data
        if not self._watched:
            self._write()

    @property
    def pending(self) -> bool:
        """Whether a part of what was sent is not in the pipe yet, or never will be because the pipe is
        closed."""
        return bool(self._rest)

    def _write(self) -> None:
        if self._fd < 0:
            return
        try:
            while self._rest:
                del self._rest[: os.write(self._fd, self._rest[:CHUNK])]
        except BlockingIOError:
            self._watch()
            return
        except BrokenPipeError:
            self.close()
            return
        self._unwatch()

    def _watch(self) -> None:
        if not self._watched:
            self._watched = True
            self._reactor.watch(self._fd, self._write, WRITABLE)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._reactor.forget(self._fd)

    def close(self) -> None:
        """Close the pipe, whether all was written or not. The end of its stdin tells a persistent process to
        exit."""
        if self._fd >= 0:
            self._unwatch()
            os.close(self._fd)
            self._fd = -1


class BoundedBuffer:
    """Keeps at most `limit` bytes of what is read; `over` says that there were more."""

    def __init__(
        self, limit: int, on_data: Callable[[bytes], None] | None, on_over: Callable[[], None]
    ) -> None:
        self.data = bytearray()
        self.over = False
        self._limit, self._on_data, self._on_over = limit, on_data, on_over

    def take(self, data: bytes) -> bool:
        """Keep the chunk, or as much of it as the limit allows; False when the limit is passed."""
        room = self._limit - len(self.data)
        kept = data if len(data) <= room else data[:room]
        self.data += kept
        if self._on_data is not None:
            self._on_data(kept)
        if len(data) > room:
            self.over = True
            self._on_over()
        return not self.over


class TailBuffer:
    """Keeps the last `TAIL` bytes of what is read."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> bool:
        """Keep the end of the data. Always True: no amount of stderr ends a call."""
        if len(data) >= TAIL:
            self._data[:] = data[-TAIL:]
        else:
            self._data += data
            # Cut only at twice the size: a cut at each small write would copy the whole tail each time.
            if len(self._data) > 2 * TAIL:
                del self._data[:-TAIL]
        return True

    @property
    def data(self) -> bytes:
        """The last bytes read until now, at most `TAIL`."""
        return bytes(self._data[-TAIL:])
