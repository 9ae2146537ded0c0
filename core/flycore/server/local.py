"""The client of a door in the kernel's own process, such as MCP over HTTP. It has no connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller, CallRequest, ToolResult
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.method_row import Method
from flycore.rpc.methods import OnProgress
from flycore.rpc.proxies import ClientProxy
from flycore.server.queries import Queries


class LocalClient(ClientProxy):
    """A client that reads what a viewer reads, and calls tools as `caller`. It is no console: it decides
    nothing, and does not see the letters that confirm approvals."""

    def __init__(self, kernel: Kernel, caller: Caller) -> None:
        self._kernel = kernel
        self._caller = caller
        self._queries = Queries(kernel, caller, viewer=True)

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Return the result of that method of the kernel."""
        return await self._queries.perform(method, arguments)

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        observe: bool = False,
        samples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool through the whole pipeline."""
        request = CallRequest(
            call_id=self._kernel.new_call_id(),
            tool=tool,
            input=input,
            caller=self._caller,
            timeout_ms=timeout_ms,
            said=purpose,
            inline_wait_ms=self._kernel.inline_wait_ms if inline_wait_ms is None else inline_wait_ms,
            observe=observe,
            samples=samples,
        )
        return await self._kernel.call(request, on_progress)

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe to the kernel's bus."""
        with self._kernel.bus.subscribe(classes) as subscription:
            yield aiter(subscription)
