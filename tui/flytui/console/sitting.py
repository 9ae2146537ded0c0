"""Where the console sits: at a kernel of its own, or at one that another console or `flytui serve` has.

own root ── held by another ──▶ attached ── its kernel goes ──▶ looked for ── found ──▶ attached
    ▲                                                              │
    └──────────────────── the person takes the root ───────────────┘
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

from flycore.client.protocol import Approver, Client
from flycore.model.errors import FlyError, KernelUnreachable, RootBusy
from flycore.rpc.proxies import DeferredClient
from flytui.console.app import FlytuiApp
from flytui.console.joined import Joining

LOOK_AGAIN_S = 0.5
SETTLE_S = 10.0
"""How long the root may be held before its kernel answers, while that starts or ends."""
Opening = Callable[[Callable[[str], None]], AbstractAsyncContextManager[tuple[Client, Approver]]]
"""Opens the kernel; tells meanwhile whom it waits for."""
Seat = Callable[[], tuple[tuple[int, ...], tuple[int, ...]]]
"""Looks for the console's own windows and processes, which no desktop tool may touch."""


class Sitting:
    """Sits the application down, and down again. `coming` is the client that it was drawn with."""

    def __init__(
        self, app: FlytuiApp, coming: DeferredClient, opening: Opening, seat: Seat, joining: Joining | None
    ) -> None:
        self._app = app
        self._coming = coming
        self._opening = opening
        self._seat = seat
        self._joining = joining
        self._sat = False
        """Whether the console has been at a kernel."""
        self._patience = 0.0

    async def until(self, over: anyio.Event) -> None:
        """Be at a kernel from when one is open until the console is over. The first frame waits for nothing
        of this; keys that were pressed before have met nothing that could be approved.

        Raises what the opening raises; RootBusy only where no attaching is possible."""
        await self._app.drawn.wait()
        self._patience = anyio.current_time() + SETTLE_S
        while not over.is_set():
            try:
                await self._at_own(over)
            except RootBusy as busy:
                if self._joining is None:
                    raise
                await self._at_others(self._joining, busy, over)

    async def _at_own(self, over: anyio.Event) -> None:
        async with self._opening(self._app.awaits) as (client, approver):
            approver.attach(*await anyio.to_thread.run_sync(self._seat))
            try:
                self._sat = True
                self._app.awaits("")
                self._app.arrive(client, approver)
                self._coming.set_client(client)
                await over.wait()
            finally:
                approver.detach()

    async def _at_others(self, joining: Joining, busy: RootBusy, over: anyio.Event) -> None:
        """Attached, for as long as there is something to be attached to; back when the person wants the
        root. Raises RootBusy where the holder does not answer a console that was at no kernel before."""
        while not over.is_set():
            try:
                async with joining() as joined:
                    self._app.awaits("")
                    self._app.arrive(joined.client, joined.approver, joined)
                    self._coming.set_client(joined.client)
                    self._sat = True
                    await first_of(over, self._app.left_alone)
            except KernelUnreachable:
                if not self._sat:
                    if anyio.current_time() >= self._patience:
                        raise busy from None
                    await anyio.sleep(LOOK_AGAIN_S)
                    return  # it may have left in between: then the root is ours
            except FlyError:
                if not self._sat:
                    raise
            if not over.is_set() and await self._takes_root(over):
                return

    async def _takes_root(self, over: anyio.Event) -> bool:
        """After a kernel went: whether the person takes the root. False when it is time to try to attach
        again, which is every LOOK_AGAIN_S for SILENT_S, and never after that."""
        app = self._app
        if app.desk.gone is None:
            app.leave_kernel()
        gone = app.desk.gone
        looks = gone is not None and gone.left(app.desk.clock()) > 0
        with anyio.move_on_after(LOOK_AGAIN_S if looks else None):
            await first_of(over, app.wants_root)
        return app.wants_root.is_set()


async def first_of(*events: anyio.Event) -> None:
    """Wait until one of them is set."""

    async def wait(event: anyio.Event, group: TaskGroup) -> None:
        await event.wait()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for event in events:
            group.start_soon(wait, event, group)
