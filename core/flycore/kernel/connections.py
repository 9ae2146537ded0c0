"""The connections to a kernel, and the consoles that are open on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import anyio

from flycore.kernel.lock import LockHolder
from flycore.model.enums import KernelRole
from flycore.pipeline.targets.window import ProtectedWindows

FIRST_CLIENT_SECONDS = 30.0
"""How long a kernel on demand waits for its first client, whatever `kernel.idleMinutes` says."""


class ConnectionInfo:
    """One connection, and whether it is that of an agent: a client that makes calls."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self.agent = False

    def declare(self, *, agent: bool) -> None:
        """Record what the connection has turned out to be, by its greeting or its first call."""
        if agent is not self.agent:
            self.agent = agent
            self._on_change()


class Connections:
    """The connections of one kernel. `on_change` is called whenever the number of agents changes."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._connections: set[ConnectionInfo] = set()
        self._changed = anyio.Event()
        # A kernel on demand was started for a client, which still has to connect.
        self._unused_since = time.monotonic() + FIRST_CLIENT_SECONDS

    @contextmanager
    def enter(self) -> Iterator[ConnectionInfo]:
        """Count one connection while the block runs."""
        # Nothing changes yet: a connection that has sent nothing may turn out to be a viewer, and the header
        # of every console would show an agent for a moment.
        connection = ConnectionInfo(self._on_change)
        self._connections.add(connection)
        self._note_change()
        try:
            yield connection
        finally:
            self._connections.remove(connection)
            self._unused_since = time.monotonic()
            self._note_change()
            if connection.agent:
                self._on_change()

    def _note_change(self) -> None:
        # An event cannot be cleared, so a new one replaces it for the next wait.
        self._changed.set()
        self._changed = anyio.Event()

    async def changed(self) -> None:
        """Wait until a connection begins or ends."""
        await self._changed.wait()

    def unused_seconds(self) -> float:
        """Return for how many seconds there has been no connection; 0 while there is one."""
        return 0.0 if self._connections else time.monotonic() - self._unused_since

    @property
    def clients(self) -> int:
        """The number of connections."""
        return len(self._connections)

    @property
    def agents(self) -> int:
        """The number of connections that make calls."""
        return sum(connection.agent for connection in self._connections)


# Consoles.


CONSOLE_SETTLES_MS = 10_000
"""How long a call waits for the console beside the kernel, which opens just after the kernel."""


class OpenConsoles:
    """The consoles that are open on one kernel, with their windows and processes, which no tool may touch.

    `moved` is called whenever a console opens or closes.
    """

    def __init__(self, moved: Callable[[], None], holder: LockHolder) -> None:
        self._on_change = moved
        self._role = holder.role
        self._on_demand = holder.on_demand
        self._windows: dict[Hashable, ProtectedWindows] = {}
        self._arrived = anyio.Event()

    def open(self, console: Hashable, windows: ProtectedWindows) -> bool:
        """Add a console, or replace its windows and return False if it was already open."""
        opened = console not in self._windows
        self._windows[console] = windows
        self._arrived.set()
        self._on_change()
        return opened

    def close(self, console: Hashable) -> bool:
        """Remove a console; return False if it was not open."""
        if self._windows.pop(console, None) is None:
            return False
        if not self._windows:
            self._arrived = anyio.Event()
        self._on_change()
        return True

    def serve_alone(self) -> None:
        """Expect no console beside the kernel any more: calls do not wait for one that starts."""
        self._role = KernelRole.HEADLESS

    def __len__(self) -> int:
        return len(self._windows)

    def present(self) -> bool:
        """Whether a console is open."""
        return bool(self._windows)

    def protected_windows(self) -> ProtectedWindows:
        """Return the windows and processes of all consoles."""
        windows = self._windows.values()
        displays: dict[int, tuple[str, ...]] = {}
        for own in windows:
            for number in own.window_ids:
                # No name of a display stands for any.
                displays[number] = (*displays.get(number, ()), *own.displays.get(number, ("",)))
        return ProtectedWindows(
            window_ids=tuple(window for own in windows for window in own.window_ids),
            pids=tuple(pid for own in windows for pid in own.pids),
            displays=displays,
        )

    async def approver_within(self, milliseconds: int) -> bool:
        """Whether a console can decide, after waiting at most that long for one to open."""
        # The kernel's own console opens a moment after the kernel, so each call waits for it. For another one
        # the caller must offer the time. A kernel on demand never has a console: it gives way to one.
        settles = CONSOLE_SETTLES_MS if self._role == KernelRole.CONSOLE else 0
        waits_ms = 0 if self._on_demand else max(milliseconds, settles)
        if not self._windows and waits_ms > 0:
            with anyio.move_on_after(waits_ms / 1000):
                await self._arrived.wait()
        return bool(self._windows)
