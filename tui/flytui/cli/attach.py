"""Attaches the console to the kernel of another process, which holds the root already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio import to_thread

from flycore.client.attach import Attachment, attach_console
from flycore.model.errors import ConnectionLost, KernelUnreachable, NotPaired
from flycore.registry.paths import RootPaths
from flytui.console.kernel_connection import AttachedKernel, OpenConnection

FindWindows = Callable[[], tuple[tuple[int, ...], tuple[int, ...]]]
"""Finds the window ids and the pids of this console."""


class ConsolePairing:
    """Pairs the console with the kernel through its attachment; implements
    `flytui.console.kernel_connection.PairingConnection`."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment

    async def ask(self) -> None:
        """Ask the kernel for a code, which the console of that kernel shows."""
        await self._attachment.request_code()

    async def pair(self, code: str) -> str:
        """Try the code. Returns why it was refused, or an empty text when the console is paired."""
        try:
            await self._attachment.pair(code)
        except NotPaired as why_not:
            return str(why_not)
        return ""


@asynccontextmanager
async def attach_to_kernel(places: RootPaths, find_windows: FindWindows) -> AsyncIterator[OpenConnection]:
    """Attach to the kernel of that root for the block. Raises KernelUnreachable, also where only a
    kernel on demand runs, and other FlyErrors where the two versions do not fit."""
    async with attach_console(places, await to_thread.run_sync(find_windows)) as attachment:
        try:
            kernel = await attachment.client.status()
        except ConnectionLost as lost:
            raise KernelUnreachable(str(places.socket)) from lost
        # A kernel on demand ends as soon as a console wants the root, so it is not worth an attachment.
        if kernel.on_demand:
            raise KernelUnreachable(str(places.socket))
        attached = AttachedKernel(ConsolePairing(attachment), kernel.pid, kernel.since, kernel.role)
        yield OpenConnection(attachment.client, attachment.approver, attached)
