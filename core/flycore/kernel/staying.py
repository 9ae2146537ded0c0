"""Looks after the processes that stay, for as long as a kernel runs."""

from __future__ import annotations

import anyio

from flycore.kernel.bus import Bus
from flycore.model.events import EventClass
from flycore.runners.pool import InstancePool

_MAY_CHANGE_KEYS = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))


async def keep_instances(pool: InstancePool, bus: Bus) -> None:
    """End those that rest for too long, and those whose entry is another, disabled or no longer trusted."""
    async with anyio.create_task_group() as group:
        group.start_soon(pool.run)
        with bus.subscribe(_MAY_CHANGE_KEYS) as changes:
            async for _ in changes:
                pool.review()
