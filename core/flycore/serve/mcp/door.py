"""What the MCP server needs of a client of the kernel. Any `Client` is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flycore.model.call import Progress, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject


class McpDoor(Protocol):
    """Its caller is decided where it is made; nothing an MCP client says changes it."""

    async def catalog(self) -> Catalog:
        """The catalog as it is now. Raises FlyError where no kernel answers."""
        ...

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        """Run a tool through the whole pipeline; cancelling the awaiting task cancels the call. Raises
        FlyError where no kernel took it."""
        ...

    def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe; the stream ends when the kernel goes away."""
        ...
