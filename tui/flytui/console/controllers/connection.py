"""The connection to a kernel: the one beside this console, or the one of another console or `flytui serve`.

own kernel ── root held by another ──▶ attached ── its kernel goes ──▶ looked for ── found ──▶ attached
  ▲  │  ▲                                                                 │
  └──┘  └─────────────────────── the person takes the root ───────────────┘
it dies: the supervisor starts the next one

There is one connection for each root, and none knows of another.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from textual.app import App

from flycore.model.errors import ConnectionLost, FlyError, KernelUnreachable, RootBusy, single_exception
from flytui.console.controllers.notifications import Notifications
from flytui.console.kernel_connection import (
    FailedConnection,
    LostConnection,
    OpenAttachment,
    OpenConnection,
    OpeningConnection,
    OpenKernel,
)
from flytui.console.screens.base import kernel_values_open
from flytui.console.state import ALL_TOPICS, ConsoleState, update_screens
from flytui.console.state_sync import StateSync

RETRY_S = 0.5
"""Seconds between two attempts to reach a kernel."""
PATIENCE_S = 10.0
"""Seconds for which another process may hold the root without its kernel answering: it starts or ends
then."""


class KernelConnection:
    """The kernel of one root that the application works with now. It may be lost, and another one may take
    its place."""

    def __init__(
        self, app: App[None], state: ConsoleState, notifications: Notifications, sync: StateSync
    ) -> None:
        self._app = app
        self._state = state
        self._notifications = notifications
        self._sync = sync
        self._started = False
        self.drawn = anyio.Event()
        """Is set once the first frame is on the terminal."""
        self.ended = anyio.Event()
        """Is set when the present kernel has gone. There is a new event for every kernel."""
        self.root_wanted = anyio.Event()
        """Is set when the person takes the root that nobody holds. There is a new event for every kernel."""

    @property
    def gone(self) -> bool:
        """Whether the kernel is known to have gone."""
        return self._state.lost is not None

    @property
    def restarts(self) -> bool:
        """Whether the supervisor starts the next kernel."""
        return self._state.lost is not None and self._state.lost.restarts

    @property
    def looked_for(self) -> bool:
        """Whether a kernel that has gone is still being looked for, which ends after `SEARCH_S`."""
        return self._state.lost is not None and self._state.lost.seconds_left(self._state.clock()) > 0

    def start(self) -> None:
        """Turn the events of this kernel, and of each one after it, into values. The views that show them are
        there from now on."""
        self._started = True
        if isinstance(self._state.connection, OpenConnection):
            self._follow(self._state.connection)

    def show_wait(self, whom: str) -> None:
        """Show the process that the first connection waits for. An alert about a lost one says more."""
        if isinstance(self._state.connection, OpeningConnection):
            self._state.set_connection(OpeningConnection(whom))
            self._notifications.redraw_bars()

    def use(self, connection: OpenConnection) -> None:
        """Work with the kernel of that connection. Open screens about values of one before are closed: its
        ids mean other requests now."""
        state = self._state
        again = self.gone
        self.ended, self.root_wanted = anyio.Event(), anyio.Event()
        state.set_connection(connection)
        state.pairing_requests = ()
        if again:
            while kernel_values_open(self._app.screen_stack, state):
                self._app.pop_screen()
        if self._started:
            self._follow(connection)
        self._notifications.redraw_bars()

    def mark_gone(self, reason: str = "the kernel ended", *, restarts: bool = False) -> None:
        """Record that the kernel has gone. What is known of it can still be read, but not decided. `restarts`
        says that the supervisor starts the next one."""
        state = self._state
        last = state.connection if state.lost is None else state.lost.last
        if not isinstance(last, OpenConnection):
            return
        state.set_connection(LostConnection(last, state.clock(), reason, restarts))
        state.desktop_controlled = False
        if state.attachment is not None:
            state.attachment.paired = state.attachment.pairing_offered = False
        update_screens(self._app, frozenset())

    def mark_failed(self, reason: str) -> None:
        """Record that the root has no kernel, and why. What it asked can be decided by nobody now."""
        state = self._state
        self.root_wanted = anyio.Event()
        state.set_connection(FailedConnection(reason))
        state.asks, state.questions, state.trust, state.pairing_requests = (), (), (), ()
        state.desktop_controlled = False
        while kernel_values_open(self._app.screen_stack, state):
            self._app.pop_screen()
        update_screens(self._app, ALL_TOPICS)

    def open_again(self) -> None:
        """Record that a root that could not be opened is being opened again."""
        self._state.set_connection(OpeningConnection())
        update_screens(self._app, frozenset())

    @property
    def can_be_taken(self) -> bool:
        """Whether the person can have a kernel opened here."""
        waits = bool(self._state.waiting_for) and self._state.end_calls is not None
        return (
            waits or isinstance(self._state.connection, FailedConnection) or (self.gone and not self.restarts)
        )

    def take_root(self) -> None:
        """Have a kernel opened here, where the previous one has gone or could not be opened. End the calls
        of a kernel that is waited for."""
        if self._state.waiting_for and self._state.end_calls is not None:
            self._state.end_calls()
            self._notifications.show("ends the calls that it runs")
        elif isinstance(self._state.connection, FailedConnection):
            self.root_wanted.set()
        elif not self.gone:
            self._notifications.show("the root is held; there is nothing to take")
        elif self.restarts:
            self._notifications.show("the next kernel is being started")
        else:
            self.root_wanted.set()

    def tick(self) -> None:
        """Draw the times that pass: how long a code is valid, how long a kernel is looked for."""
        if self._state.pairing_requests or self.gone:
            self._state.pairing_requests = self._state.open_pairing_requests
            self._notifications.redraw_bars()

    def _follow(self, connection: OpenConnection) -> None:
        """Start to turn the events of this kernel into values, until the kernel goes away."""
        # `use` may put another event in its place before this kernel's stream has ended.
        ended = self.ended

        async def follow() -> None:
            reason = await self._sync.run()
            if self._state.connection is connection:
                self.mark_gone(reason, restarts=connection.attachment is None)
            ended.set()

        self._app.run_worker(follow(), group="pump")


class KernelConnectionController:
    """Connects the application to a kernel, or attaches it to one, from its start to its end."""

    def __init__(
        self,
        connection: KernelConnection,
        open_kernel: OpenKernel,
        open_attachment: OpenAttachment | None,
    ) -> None:
        """`open_attachment` attaches to the kernel that holds the root, and is None where attaching is not
        possible."""
        self._connection = connection
        self._open_kernel = open_kernel
        self._open_attachment = open_attachment
        self._connected = False
        """Whether the console has been connected to a kernel before."""
        self._patience = 0.0
        """Until when, on anyio's clock, a held root may have no kernel that answers."""

    async def run_until(self, over: anyio.Event) -> None:
        """Keep the application connected to a kernel until `over` is set.

        Raises what `open_kernel` raises, but RootBusy only where the console cannot attach."""
        # The first frame comes before the kernel. Keys pressed until then find nothing that could be
        # approved.
        await self._connection.drawn.wait()
        self._patience = anyio.current_time() + PATIENCE_S
        while not over.is_set():
            try:
                await self._run_own_kernel(over)
            except RootBusy as busy:
                if self._open_attachment is None:
                    raise
                await self._run_attached(self._open_attachment, busy, over)

    async def run_beside_others(self, over: anyio.Event) -> None:
        """The same for one of several roots: what would be raised is shown, and ends nothing. The person may
        try again."""
        while not over.is_set():
            try:
                with single_exception():
                    await self.run_until(over)
            except (FlyError, OSError) as error:
                self._connection.mark_failed(str(error))
            else:
                return
            self._connected = False
            await first_of(over, self._connection.root_wanted)
            if not over.is_set():
                self._connection.open_again()

    async def _run_own_kernel(self, over: anyio.Event) -> None:
        """Use the kernel beside this console until it ends. The supervisor starts the next one then."""
        try:
            async with self._open_kernel(self._connection.show_wait) as connection:
                self._use(connection)
                await first_of(over, self._connection.ended)
        except (ConnectionLost, KernelUnreachable):
            await anyio.lowlevel.checkpoint()  # it ended before it answered
        if self._connected and not over.is_set() and not self._connection.gone:
            self._connection.mark_gone(restarts=True)

    async def _run_attached(self, open_attachment: OpenAttachment, busy: RootBusy, over: anyio.Event) -> None:
        """Be attached, for as long as there is something to be attached to; return when the person wants the
        root. Raises RootBusy where the holder does not answer a console that was at no kernel before."""
        while not over.is_set():
            try:
                async with open_attachment() as connection:
                    self._use(connection)
                    await first_of(over, self._connection.ended)
            except KernelUnreachable:
                if not self._connected:
                    if anyio.current_time() >= self._patience:
                        raise busy from None
                    await anyio.sleep(RETRY_S)
                    return  # the holder may have ended in between: then this console opens the root
            except FlyError:
                if not self._connected:
                    raise
            if not over.is_set() and await self._wait_for_root(over):
                return

    def _use(self, connection: OpenConnection) -> None:
        self._connected = True
        self._connection.use(connection)

    async def _wait_for_root(self, over: anyio.Event) -> bool:
        """Wait after a kernel has gone. Return True where the person takes the root, and False when it is
        time to try to attach again: every RETRY_S for SEARCH_S, and never after that."""
        connection = self._connection
        if not connection.gone or connection.restarts:
            connection.mark_gone()
        with anyio.move_on_after(RETRY_S if connection.looked_for else None):
            await first_of(over, connection.root_wanted)
        return connection.root_wanted.is_set()


async def first_of(*events: anyio.Event) -> None:
    """Wait until at least one of the events is set."""

    async def wait(event: anyio.Event, group: TaskGroup) -> None:
        await event.wait()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for event in events:
            group.start_soon(wait, event, group)
