"""A console on another connection, paired as a person does it: the code is read where the kernel shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from flycore.client.attach import open_attached_console
from flycore.kernel.bus import Subscription
from flycore.kernel.kernel import Kernel
from flycore.model.events import PAIRING, EventClass
from kits.kernel import PATIENCE, Root


@contextmanager
def codes_of(kernel: Kernel) -> Iterator[Subscription]:
    """The codes that the kernel shows to a person from now on."""
    with kernel.bus.subscribe(frozenset((EventClass.APPROVAL,)), person=lambda: True) as events:
        yield events


async def shown_code(events: Subscription) -> str:
    """Wait for the next code that the kernel shows."""
    with anyio.fail_after(PATIENCE):
        async for event in events:
            if event.type == PAIRING:
                return str(event.payload["code"])
    raise AssertionError("the kernel has left")


@asynccontextmanager
async def attached(root: Root, kernel: Kernel, **more: Any) -> AsyncIterator[Any]:
    """Pair a console; gives its client and its approver."""
    with codes_of(kernel) as events:

        async def code() -> str:
            return await shown_code(events)

        async with open_attached_console(root.places, code=code, **more) as at_kernel:
            yield at_kernel
