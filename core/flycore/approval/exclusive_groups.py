"""Exclusive groups: of a group's tools only one call runs at a time, across callers, first come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class _Group:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0
    """Calls that hold the group or wait for it."""
    holder: str = ""
    """Id of the call that has it."""


class GroupLocks:
    """A lock for each group that is in use; a group nobody uses takes no memory."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    @asynccontextmanager
    async def acquire(self, group: str | None, call_id: str = "") -> AsyncIterator[None]:
        """Wait for the group, then have it for the block. None is no group: no waiting."""
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
            entry.users -= 1
            if entry.users == 0:
                del self._groups[group]

    def holder(self, group: str, call_id: str | None) -> bool:
        """Whether that very call has the group now: its steps need not wait for it."""
        entry = self._groups.get(group)
        return bool(call_id) and entry is not None and entry.holder == call_id

    def busy(self, group: str | None) -> bool:
        """Whether a call would have to wait."""
        return group in self._groups

    def waiting(self, group: str) -> int:
        """How many calls wait for the group."""
        entry = self._groups.get(group)
        return 0 if entry is None else entry.users - 1
