"""The client in the kernel's own process: the same interface without a connection between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from flycore.kernel.kernel import Kernel
from flycore.model.call import Activity, Caller, CallRequest, ToolResult
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.methods import Method, OnProgress
from flycore.rpc.proxies import ClientProxy
from flycore.server.queries import Queries

CONSOLE_DOOR = "console"
"""Door of the console in the kernel's own process."""


class LocalClient(ClientProxy):
    """Calls as `caller`, which the composition root names, and reads everything."""

    def __init__(self, kernel: Kernel, caller: Caller) -> None:
        self._kernel = kernel
        self._caller = caller
        self._queries = Queries(kernel, caller, viewer=True, paired=True)

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Ask the kernel."""
        return await self._queries.perform(method, arguments)

    async def activity(self) -> tuple[Activity, ...]:
        """List the calls that are known by now. Those of earlier kernels are read in the background: a
        console draws without them, and asks again at the event `history.read`."""
        return self._kernel.activity()

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool through the whole pipeline."""
        request = CallRequest(
            call_id=self._kernel.new_call_id(),
            tool=tool,
            input=input,
            caller=self._caller,
            timeout_ms=timeout_ms,
            said=said,
            inline_wait_ms=self._kernel.inline_wait_ms if inline_wait_ms is None else inline_wait_ms,
        )
        return await self._kernel.call(request, on_progress)

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to the kernel's bus."""
        person = self._caller.door == CONSOLE_DOOR
        with self._kernel.bus.subscribe(classes, person=lambda: person) as subscription:
            yield aiter(subscription)
