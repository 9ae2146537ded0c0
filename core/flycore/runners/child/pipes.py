"""Our ends of a child's pipes, on the event loop, without a thread and without a stream object."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Callable

from flycore.runners.child.epoll import WRITABLE, EpollReader

FIRST_READ = 65_536
CHUNK = 262_144
PIPE_SIZE = 1_048_576
TAIL = 65_536


class PipeReader:
    """Reads a pipe when the loop finds it readable: one chunk a turn, so that no child starves another.

    `take` gets each chunk and answers whether it wants more; `on_end` hears when nobody writes any more. The
    pipe is widened only once a chunk came full: small answers never pay for it, and the user's share of pipe
    memory is spared.
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
        """Read once; returns the number of bytes, 0 at the end or when nothing is there."""
        try:
            data = os.read(self._fd, min(self._size, most))
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            if self._on_end is not None:
                self._on_end()
            return 0
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
            return  # over the user's share: the pipe stays as it is, only slower

    def drain(self) -> None:
        """Take what is in the pipe now, and not what somebody may still write: that could have no end."""
        if self._fd < 0:
            return
        waiting: int = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4))[0]
        while waiting > 0 and self._fd >= 0:
            got = self._read(waiting)
            if not got:
                return
            waiting -= got

    def close(self) -> None:
        """Stop reading. It is forgotten first: a closed number may be somebody else's at once."""
        if self._fd >= 0:
            self._reactor.forget(self._fd)
            os.close(self._fd)
            self._fd = -1


class PipeWriter:
    """Writes one document into a pipe and closes it; a child that does not read, or leaves, is no error."""

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
        """Close the pipe, written out or not."""
        if self._fd >= 0:
            self._reactor.forget(self._fd)
            os.close(self._fd)
            self._fd = -1


class LineWriter:
    """Writes documents into a pipe that stays open. One that is not read, or was closed, is no error: it
    shows in `pending`."""

    def __init__(self, reactor: EpollReader, fd: int) -> None:
        self._reactor, self._fd = reactor, fd
        self._rest = bytearray()
        self._watched = False
        os.set_blocking(fd, False)

    def send(self, data: bytes) -> None:
        """Write as much as there is room for now, the rest when there is more."""
        self._rest += data
        if not self._watched:
            self._write()

    @property
    def pending(self) -> bool:
        """Whether something sent has not been taken, or never will be."""
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
        """Close the pipe, written out or not: to a process that stays, the word to leave."""
        if self._fd >= 0:
            self._unwatch()
            os.close(self._fd)
            self._fd = -1


class BoundedBuffer:
    """Keeps at most `limit` bytes; `over` says that there were more."""

    def __init__(
        self, limit: int, on_data: Callable[[bytes], None] | None, on_over: Callable[[], None]
    ) -> None:
        self.data = bytearray()
        self.over = False
        self._limit, self._on_data, self._on_over = limit, on_data, on_over

    def take(self, data: bytes) -> bool:
        """Keep the chunk, or what there is room for."""
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
    """Keeps the last `TAIL` bytes of whatever comes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> bool:
        """Always wants more: stderr never ends a call."""
        if len(data) >= TAIL:
            self._data[:] = data[-TAIL:]
        else:
            self._data += data
            if len(self._data) > 2 * TAIL:
                del self._data[:-TAIL]
        return True

    @property
    def data(self) -> bytes:
        """The tail so far."""
        return bytes(self._data[-TAIL:])
