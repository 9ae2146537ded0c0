"""The kernel's values without a trace of the machine they came from, for pictures and pages of the docs."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import msgspec

from flycore.client.local import LocalClient
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask, Lease
from flycore.model.call import Activity, Caller
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.json import Json
from flycore.model.question import Question, TrustItem
from flycore.model.status import Status

MIDDAY = 1_735_732_800.0
"""When it is in the pictures: 1 January 2025, 12:00 UTC, Unix seconds."""

T = TypeVar("T")


class NeutralClient(LocalClient):
    """The kernel's values with this machine's folders and the calendar replaced."""

    def __init__(self, kernel: Kernel, caller: Caller, folders: dict[str, str]) -> None:
        super().__init__(kernel, caller)
        self.folders = folders
        self.began = time.time()

    def neutral(self, value: T, kind: Any) -> T:
        """The same value as it would be in the folders shown, at `MIDDAY`."""
        fresh: T = msgspec.convert(self._replaced(msgspec.to_builtins(value)), kind)
        return fresh

    def _replaced(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._replaced(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(item) for item in value]
        if isinstance(value, float) and abs(value - self.began) < 3_600:
            return value - self.began + MIDDAY
        if isinstance(value, str):
            for folder, shown in self.folders.items():
                value = value.replace(folder, shown)
        return value

    async def status(self) -> Status:
        """See Client."""
        return self.neutral(await super().status(), Status)

    async def catalog(self) -> Catalog:
        """See Client."""
        return self.neutral(await super().catalog(), Catalog)

    async def activity(self) -> tuple[Activity, ...]:
        """See Client."""
        return self.neutral(await super().activity(), tuple[Activity, ...])

    async def asks(self) -> tuple[Ask, ...]:
        """See Client."""
        return self.neutral(await super().asks(), tuple[Ask, ...])

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """See Client."""
        return self.neutral(await super().pending_trust(), tuple[TrustItem, ...])

    async def leases(self) -> tuple[Lease, ...]:
        """See Client."""
        return self.neutral(await super().leases(), tuple[Lease, ...])

    async def checks(self) -> tuple[Check, ...]:
        """See Client."""
        return self.neutral(await super().checks(), tuple[Check, ...])

    async def questions(self) -> tuple[Question, ...]:
        """See Client."""
        return self.neutral(await super().questions(), tuple[Question, ...])
