"""Watches the descriptors of all children through one epoll, which is one descriptor of the event loop.

The loop's own `add_reader` costs several objects and dictionary entries for each of a child's three
descriptors, and one turn of the loop for each that is ready. Here that is one system call each, and all that
are ready are served in one turn.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from weakref import WeakKeyDictionary

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
_MOST_AT_ONCE = 256


class EpollReader:
    """The watcher of one event loop. Made by `epoll_reader_of`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, fd: int, ready: Callable[[], object], mask: int = READABLE) -> None:
        """Have `ready` called on the loop, each turn in which `fd` is ready, has ended or has failed."""
        self._epoll.register(fd, mask)
        self._calls[fd] = ready

    def forget(self, fd: int) -> None:
        """Watch `fd` no more; called before it is closed. Nothing where it is not watched."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _serve(self) -> None:
        for fd, _ in self._epoll.poll(0, _MOST_AT_ONCE):
            ready = self._calls.get(fd)  # who was served before may have had it forgotten
            if ready is not None:
                ready()


_reactors: WeakKeyDictionary[asyncio.AbstractEventLoop, EpollReader] = WeakKeyDictionary()


def epoll_reader_of(loop: asyncio.AbstractEventLoop) -> EpollReader:
    """The reactor of that loop; it lives as long as the loop."""
    reactor = _reactors.get(loop)
    if reactor is None:
        reactor = _reactors[loop] = EpollReader(loop)
    return reactor
