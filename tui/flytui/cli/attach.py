"""`flytui` where the root is held already: the console attaches to the kernel of whoever holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flycore.client.attach import Attachment
    from flycore.registry.paths import RootPaths
    from flytui.console.attachment import AttachedKernel

FindWindows = Callable[[], tuple[tuple[int, ...], tuple[int, ...]]]


class ConsolePairing:
    """See flytui.console.attachment.Pairing."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment

    async def ask(self) -> None:
        """See Pairing."""
        await self._attachment.request_code()

    async def pair(self, code: str) -> str:
        """See Pairing."""
        from flycore.model.errors import NotPaired

        try:
            await self._attachment.pair(code)
        except NotPaired as why_not:
            return str(why_not)
        return ""


@asynccontextmanager
async def attach_to_kernel(places: RootPaths, seat: FindWindows) -> AsyncIterator[AttachedKernel]:
    """Attached to the kernel of that root. Raises KernelUnreachable, also where only a provisional kernel
    runs, which yields to a console, and FlyErrors of what does not go together."""
    from anyio import to_thread

    from flycore.client.attach import attach_console
    from flycore.model.errors import KernelUnreachable
    from flycore.offline.root import LASTING_ROLES
    from flytui.console.attachment import AttachedKernel

    async with attach_console(places, await to_thread.run_sync(seat)) as attachment:
        kernel = attachment.kernel
        if kernel.role not in LASTING_ROLES:
            raise KernelUnreachable(str(places.socket))
        yield AttachedKernel(
            client=attachment.client,
            approver=attachment.approver,
            pairing=ConsolePairing(attachment),
            pid=kernel.pid,
            since=kernel.since,
            role=kernel.role,
        )
