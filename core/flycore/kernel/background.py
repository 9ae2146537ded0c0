"""The processes that a kernel keeps between calls: persistent sidecars, MCP servers, and probes."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from flycore.kernel.bus import Bus
from flycore.kernel.mcp_servers import McpServers
from flycore.kernel.refresh import StateRefresher
from flycore.model.events import EventClass
from flycore.runners.pool import ProcessPool

_MAY_CHANGE_KEYS = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))


@dataclass(frozen=True, slots=True)
class BackgroundProcesses:
    """All of them, for whoever stops everything and lets it go on."""

    instances: ProcessPool
    upstreams: McpServers
    upkeep: StateRefresher

    async def watch(self, bus: Bus) -> None:
        """End persistent processes that rest for too long, and those whose entry is another, disabled or no
        longer trusted. Runs until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.instances.run)
            with bus.subscribe(_MAY_CHANGE_KEYS) as changes:
                async for _ in changes:
                    self.instances.review()

    async def halt(self) -> None:
        """End every persistent process and every session; returns when none is left."""
        async with anyio.create_task_group() as ending:
            ending.start_soon(self.instances.halt)
            ending.start_soon(self.upstreams.halt)

    def resume(self) -> None:
        """Start the probes and the sessions that are wanted; persistent processes start with their calls."""
        self.upkeep.start_probes()
        self.upstreams.review()
