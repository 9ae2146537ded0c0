"""Watches the descriptors of all children through one epoll, which is one descriptor of the event loop."""

# The loop's own `add_reader` costs several objects for each of a child's descriptors, and a callback in the
# loop's queue for each one that is ready. Here a descriptor costs one system call, and all that are ready
# are served in one turn of the loop.

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from weakref import WeakKeyDictionary

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
