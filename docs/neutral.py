"""A client whose values show nothing of the machine that they came from, for the pictures of the docs."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from flycore.client.audit_reader import AuditReader, NewLines
from flycore.model.approval import Ask, Lease
from flycore.model.call import Activity, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import Json, JsonObject
from flycore.model.question import Question, TrustItem
from flycore.model.status import Status
from flycore.registry.paths import RootPaths
from flycore.rpc.method_row import Method
from flycore.rpc.methods import Client, OnProgress
from flycore.rpc.proxies import ClientProxy

MIDDAY = 1_735_732_800.0
"""The time in the pictures, in Unix seconds: 1 January 2025, 12:00 UTC."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")

T = TypeVar("T")


class NeutralClient(ClientProxy):
    """A console's client that replaces this machine's folders and times in what the kernel returns."""

    def __init__(self, inner: Client, folders: dict[str, str]) -> None:
        self.inner = inner
        self.folders = folders
        self.began = time.time()

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Call the same method of the other client."""
        return await getattr(self.inner, method.name)(*arguments)

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
        """Run a tool through the other client."""
        return await self.inner.call(
            tool,
            input,
            timeout_ms=timeout_ms,
            purpose=purpose,
            inline_wait_ms=inline_wait_ms,
            observe=observe,
            samples=samples,
            on_progress=on_progress,
        )

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe through the other client."""
        async with self.inner.events(classes) as stream:
            yield stream

    def neutral(self, value: T, kind: Any) -> T:
        """Returns the value with the folders of the pictures, as if this run had begun at `MIDDAY`."""
        fresh: T = msgspec.convert(self._replaced(msgspec.to_builtins(value)), kind)
        return fresh

    def _replaced(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._replaced(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(item) for item in value]
        # Durations are floats, too: only a value within an hour of the start of this run is a point in time.
        if isinstance(value, float) and abs(value - self.began) < 3_600:
            return value - self.began + MIDDAY
        if isinstance(value, str):
            for folder, shown in self.folders.items():
                value = value.replace(folder, shown)
        return value

    async def status(self) -> Status:
        """Returns the kernel's status, neutral."""
        return self.neutral(await self.inner.status(), Status)

    async def catalog(self) -> Catalog:
        """Returns the kernel's catalog, neutral."""
        return self.neutral(await self.inner.catalog(), Catalog)

    async def activity(self) -> tuple[Activity, ...]:
        """Returns the kernel's calls, neutral."""
        return self.neutral(await self.inner.activity(), tuple[Activity, ...])

    async def asks(self) -> tuple[Ask, ...]:
        """Returns the kernel's requests, neutral."""
        return self.neutral(await self.inner.asks(), tuple[Ask, ...])

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """Returns the kernel's entries that wait for trust, neutral."""
        return self.neutral(await self.inner.pending_trust(), tuple[TrustItem, ...])

    async def leases(self) -> tuple[Lease, ...]:
        """Returns the kernel's leases, neutral."""
        return self.neutral(await self.inner.leases(), tuple[Lease, ...])

    async def checks(self) -> tuple[Check, ...]:
        """Returns the kernel's checks, neutral."""
        return self.neutral(await self.inner.checks(), tuple[Check, ...])

    async def questions(self) -> tuple[Question, ...]:
        """Returns the kernel's questions, neutral."""
        return self.neutral(await self.inner.questions(), tuple[Question, ...])


class NeutralReader(AuditReader):
    """A reader of the log that replaces this machine's folders and times in the lines that it shows."""

    def __init__(self, places: RootPaths, folders: dict[str, str]) -> None:
        super().__init__(places.audit_dir, places.anchors_file)
        self._folders = folders
        self._began = time.time()

    async def read_new(self) -> NewLines:
        """Returns the new lines, neutral."""
        found = await super().read_new()
        return found._replace(lines=tuple(self._neutral(line) for line in found.lines))

    def _neutral(self, line: bytes) -> bytes:
        text = line.decode()
        for folder, shown in self._folders.items():
            text = text.replace(folder, shown)
        return _TIME.sub(self._moved, text).encode()

    def _moved(self, found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0]).timestamp() - self._began + MIDDAY
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
