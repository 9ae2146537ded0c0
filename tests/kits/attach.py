"""Consoles at a real kernel: the one beside it, over a connection that is handed over as a supervisor does,
and others, paired as a person does it: the code is read where the kernel shows it."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from flycore.client.attach import open_attached_console, open_own_console
from flycore.client.serve import WaitCallback, open_served_kernel
from flycore.kernel.bus import Subscription
from flycore.kernel.kernel import Kernel
from flycore.model.enums import KernelRole
from flycore.model.events import PAIRING, EventClass
from flycore.registry.paths import RootPaths
from flycore.server.handed_over import ConsoleListener
from flycore.server.unix import serve_unix
from flysafe.unix_sockets import send_descriptor
from kits.kernel import PATIENCE, Root, close_console


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


class ConsoleDoor:
    """The way by which a supervisor hands consoles to a kernel."""

    def __init__(self) -> None:
        self._supervisor, self.kernel = socket.socketpair()

    def connect(self, pid: int = 0) -> socket.socket:
        """The console's end of a connection that the kernel takes for the console on `pid`. By default that
        is another process than the test, whose own connections are those of a caller."""
        ours, theirs = socket.socketpair()
        with theirs:
            send_descriptor(self._supervisor, str(pid or os.getppid()).encode(), theirs.fileno())
        return ours

    def close(self) -> None:
        """End both sides."""
        self._supervisor.close()
        self.kernel.close()


@asynccontextmanager
async def own_console(root: Root, kernel: Kernel) -> AsyncIterator[Any]:
    """The console beside a kernel that serves nobody yet; gives its client and its approver."""
    close_console(kernel)
    door = ConsoleDoor()
    try:
        async with (
            serve_unix(kernel, root.places.socket, ConsoleListener(fileno=door.kernel.detach())),
            open_own_console(root.places, door.connect()) as at_kernel,
        ):
            yield at_kernel
    finally:
        door.close()


@asynccontextmanager
async def open_console_kernel(places: RootPaths, *, on_wait: WaitCallback) -> AsyncIterator[Any]:
    """A kernel that serves, with its console; gives the client, which has the kernel as `kernel`, and the
    approver."""
    door = ConsoleDoor()
    opening = open_served_kernel(places, on_wait=on_wait, role=KernelRole.CONSOLE, consoles=door.kernel)
    try:
        async with opening as kernel, open_own_console(places, door.connect()) as (client, approver):
            client.kernel = kernel
            yield client, approver
    finally:
        door.close()
