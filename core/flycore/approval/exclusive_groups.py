"""Exclusive groups: of the tools of a group only one call runs at a time, in order of arrival."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec


class _Group(msgspec.Struct):
    lock: anyio.Lock = msgspec.field(default_factory=anyio.Lock)
    users: int = 0
    """Number of calls that hold the group or wait for it."""
    holder: str = ""
    """Id of the call that holds it; empty while none does."""


class GroupLocks:
    """The locks of the groups that are in use. A group that no call uses has no lock and takes no memory."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    @asynccontextmanager
    async def acquire(self, group: str | None, call_id: str = "") -> AsyncIterator[None]:
        """Wait for the group, and hold it for the block. None stands for no group and does not wait."""
        if group is None:
            yield
            return
        entry = self._groups.setdefault(group, _Group())
        entry.users += 1
        try:
            async with entry.lock:
                entry.holder = call_id
                try:
                    yield
                finally:
                    entry.holder = ""
        finally:
            # The lock goes only with its last user: a waiting call must not be left with a lock of its own.
            entry.users -= 1
            if entry.users == 0:
                del self._groups[group]

    def holder(self, group: str, call_id: str | None) -> bool:
        """Return whether that call holds the group now. The steps of a plan run in its place and do not
        wait."""
        entry = self._groups.get(group)
        return bool(call_id) and entry is not None and entry.holder == call_id

    def busy(self, group: str | None) -> bool:
        """Return whether a call would have to wait for the group."""
        return group in self._groups

    def waiting(self, group: str) -> int:
        """Return how many calls wait for the group."""
        entry = self._groups.get(group)
        return 0 if entry is None else entry.users - 1
