"""The list of tools as it is now, and the word that it has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from flycore.model.errors import FlyError
from flycore.model.events import EventClass
from flycore.rpc.methods import Client
from flycore.serve.mcp.tools import ToolList, tool_list_of

RETRY_SECONDS = 0.5
"""Before a kernel that went away is looked for again."""
_EVENT_CLASSES = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))

Changed = Callable[[], Awaitable[None]]
"""Tells the clients that the list is another."""


class CurrentTools:
    """Asks for the catalog only when it may have changed; while nothing watches it, every time."""

    def __init__(self, door: Client) -> None:
        self._client = door
        self._watched = False
        self._cached: ToolList | None = None
        self._last: ToolList | None = None
        self._generation = 0
        """Grows with every word of a change: what was asked for before it is not kept."""

    async def current(self) -> ToolList:
        """The tools as they are. Raises FlyError where no kernel answers."""
        held = self._cached
        if held is not None and self._watched:
            return held
        moment = self._generation
        catalog = await self._client.catalog()
        before = self._last.names if self._last is not None else None
        fresh = self._last = tool_list_of(catalog, before)
        if moment == self._generation and self._watched:
            self._cached = fresh
        return fresh

    async def last_known(self) -> ToolList:
        """The same, or while no kernel answers what was known last: a call finds the next kernel, and is
        judged by that one. Raises FlyError where nothing was ever known."""
        try:
            return await self.current()
        except FlyError:
            if self._last is None:
                raise
            return self._last

    async def watch(self, changed: Changed) -> None:
        """Follow the kernel's catalog until cancelled, also from one kernel to the next. `changed` is awaited
        when what is listed differs from what was listed before, not for other differences."""
        before: ToolList | None = None
        while True:
            try:
                async with self._client.events(_EVENT_CLASSES) as events:
                    self._watched = True
                    before = await self._refresh(before, changed)
                    async for _ in events:
                        before = await self._refresh(before, changed)
            except FlyError:
                pass  # no kernel for now: whoever asks meanwhile is told so
            finally:
                self._watched = False
            await anyio.sleep(RETRY_SECONDS)

    async def _refresh(self, before: ToolList | None, changed: Changed) -> ToolList:
        self._cached = None
        self._generation += 1
        fresh = await self.current()
        if before is not None and before.tools != fresh.tools:
            await changed()
        return fresh
