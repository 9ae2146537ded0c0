"""The client in the kernel's own process: the same Protocol without a socket between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread

from flycore.client.protocol import OnProgress
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask, Lease
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller, CallRequest, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.check import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question
from flycore.model.standing import StandingRule
from flycore.model.status import Status
from flycore.model.trust import TrustItem

CONSOLE_DOOR = "console"
"""Door of the console in the kernel's own process."""


class LocalClient:
    """Calls as `caller`, which the composition root names."""

    def __init__(self, kernel: Kernel, caller: Caller) -> None:
        self._kernel = kernel
        self._caller = caller

    async def status(self) -> Status:
        """See Client."""
        return self._kernel.status()

    async def catalog(self) -> Catalog:
        """See Client."""
        return self._kernel.catalog()

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
        """See Client."""
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

    async def cancel(self, call_id: str) -> bool:
        """See Client."""
        return self._kernel.cancel(call_id)

    async def activity(self) -> tuple[Activity, ...]:
        """See Client."""
        return self._kernel.activity()

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """See Client."""
        return await self._kernel.picture(call_id, index)

    async def metrics(self) -> Metrics:
        """See Client."""
        return await self._kernel.metrics()

    async def asks(self) -> tuple[Ask, ...]:
        """See Client."""
        return self._kernel.asks()

    async def leases(self) -> tuple[Lease, ...]:
        """See Client."""
        return self._kernel.leases()

    async def blocks(self) -> tuple[Block, ...]:
        """See Client."""
        return self._kernel.blocks()

    async def rules(self) -> tuple[StandingRule, ...]:
        """See Client."""
        return await anyio.to_thread.run_sync(self._kernel.rules)

    async def questions(self) -> tuple[Question, ...]:
        """See Client."""
        return self._kernel.questions()

    async def panic(self) -> bool:
        """See Client."""
        return await self._kernel.panic(str(self._caller))

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """See Client."""
        return self._kernel.pending_trust()

    async def probe(self, sidecar: str) -> None:
        """See Client."""
        self._kernel.probe(sidecar)

    async def checks(self) -> tuple[Check, ...]:
        """See Client."""
        return await self._kernel.checks()

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """See Client."""
        person = self._caller.door == CONSOLE_DOOR
        with self._kernel.bus.subscribe(classes, person=lambda: person) as subscription:
            yield aiter(subscription)
