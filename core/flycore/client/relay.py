"""A client that hands every question on to another one, which is found anew for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flycore.client.protocol import Client, OnProgress
from flycore.model.approval import Ask, Lease
from flycore.model.audit import Metrics
from flycore.model.call import Activity, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.check import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question
from flycore.model.standing import StandingRule
from flycore.model.status import Status
from flycore.model.trust import TrustItem


class RelayClient(ABC):
    """A Client by means of another one."""

    @abstractmethod
    async def reach(self) -> Client:
        """The client that answers now; what this raises, every question raises."""

    async def status(self) -> Status:
        """See Client."""
        return await (await self.reach()).status()

    async def catalog(self) -> Catalog:
        """See Client."""
        return await (await self.reach()).catalog()

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
        client = await self.reach()
        return await client.call(
            tool,
            input,
            timeout_ms=timeout_ms,
            said=said,
            inline_wait_ms=inline_wait_ms,
            on_progress=on_progress,
        )

    async def cancel(self, call_id: str) -> bool:
        """See Client."""
        return await (await self.reach()).cancel(call_id)

    async def activity(self) -> tuple[Activity, ...]:
        """See Client."""
        return await (await self.reach()).activity()

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """See Client."""
        return await (await self.reach()).picture(call_id, index)

    async def metrics(self) -> Metrics:
        """See Client."""
        return await (await self.reach()).metrics()

    async def asks(self) -> tuple[Ask, ...]:
        """See Client."""
        return await (await self.reach()).asks()

    async def leases(self) -> tuple[Lease, ...]:
        """See Client."""
        return await (await self.reach()).leases()

    async def blocks(self) -> tuple[Block, ...]:
        """See Client."""
        return await (await self.reach()).blocks()

    async def rules(self) -> tuple[StandingRule, ...]:
        """See Client."""
        return await (await self.reach()).rules()

    async def questions(self) -> tuple[Question, ...]:
        """See Client."""
        return await (await self.reach()).questions()

    async def panic(self) -> bool:
        """See Client."""
        return await (await self.reach()).panic()

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """See Client."""
        return await (await self.reach()).pending_trust()

    async def probe(self, sidecar: str) -> None:
        """See Client."""
        await (await self.reach()).probe(sidecar)

    async def checks(self) -> tuple[Check, ...]:
        """See Client."""
        return await (await self.reach()).checks()

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """See Client."""
        async with (await self.reach()).events(classes) as stream:
            yield stream
