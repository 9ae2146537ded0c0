"""The processes that a kernel keeps between calls: persistent sidecars, MCP servers, and probes."""

from __future__ import annotations

import anyio
import msgspec

from flycore.kernel.bus import Bus
from flycore.kernel.mcp_servers import McpServers
from flycore.kernel.refresh import StateRefresher
from flycore.model.events import EventClass
from flycore.runners.pool import ProcessPool

_MAY_CHANGE_KEYS = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))


class BackgroundProcesses(msgspec.Struct, frozen=True):
    """All background processes of one kernel, to be stopped and resumed together."""

    pool: ProcessPool
    mcp_servers: McpServers
    refresher: StateRefresher

    async def watch(self, bus: Bus) -> None:
        """End persistent processes that idle too long, or whose entry changed or lost its trust; until
        cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.pool.run)
            with bus.subscribe(_MAY_CHANGE_KEYS) as changes:
                async for _ in changes:
                    self.pool.review()

    async def halt(self) -> None:
        """End every persistent process and every MCP session, and wait until none is left."""
        async with anyio.create_task_group() as ending:
            ending.start_soon(self.pool.halt)
            ending.start_soon(self.mcp_servers.halt)

    def resume(self) -> None:
        """Start the waiting probes and MCP sessions again; a persistent process starts with its next call."""
        self.refresher.start_probes()
        self.mcp_servers.review()
