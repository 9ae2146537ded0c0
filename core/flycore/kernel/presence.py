"""Who is connected to a kernel: programs that may call, and viewers, which only look on or decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ConnectionInfo:
    """One connection. Whatever has not said that it is a viewer may call."""

    def __init__(self) -> None:
        self.viewer = False


class Connections:
    """The connections of one kernel."""

    def __init__(self) -> None:
        self._here: set[ConnectionInfo] = set()

    @contextmanager
    def enter(self) -> Iterator[ConnectionInfo]:
        """Around one connection."""
        present = ConnectionInfo()
        self._here.add(present)
        try:
            yield present
        finally:
            self._here.remove(present)

    @property
    def clients(self) -> int:
        """How many connections there are."""
        return len(self._here)

    @property
    def agents(self) -> int:
        """How many of them may call."""
        return sum(not present.viewer for present in self._here)
