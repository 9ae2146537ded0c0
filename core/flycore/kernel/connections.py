"""Who is connected to a kernel: programs that may call, and viewers, which only look on or decide."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import anyio

from flycore.kernel.lock import LASTING_ROLES
from flycore.model.enums import KernelRole
from flycore.pipeline.targets.window import ProtectedWindows


class ConnectionInfo:
    """One connection. Whatever has not said that it is a viewer may call."""

    def __init__(self) -> None:
        self.viewer = False


class Connections:
    """The connections of one kernel."""

    def __init__(self) -> None:
        self._here: set[ConnectionInfo] = set()

    @contextmanager
    def enter(self) -> Iterator[ConnectionInfo]:
        """Around one connection."""
        present = ConnectionInfo()
        self._here.add(present)
        try:
            yield present
        finally:
            self._here.remove(present)

    @property
    def clients(self) -> int:
        """How many connections there are."""
        return len(self._here)

    @property
    def agents(self) -> int:
        """How many of them may call."""
        return sum(not present.viewer for present in self._here)


# The consoles that are open on one kernel: where a person is, and what no tool may touch.


CONSOLE_SETTLES_MS = 10_000
"""How long a console that holds the root may take to be ready for its first card."""


class OpenConsoles:
    """The open consoles. `moved` is called whenever they are others; `role` is as what the kernel holds its
    root."""

    def __init__(self, moved: Callable[[], None], role: KernelRole) -> None:
        self._moved = moved
        self._role = role
        self._taken: dict[Hashable, ProtectedWindows] = {}
        self._arrived = anyio.Event()

    def open(self, console: Hashable, seat: ProtectedWindows) -> bool:
        """A console is open; where it was already, that is its seat now, and this gives False."""
        opened = console not in self._taken
        self._taken[console] = seat
        self._arrived.set()
        self._moved()
        return opened

    def close(self, console: Hashable) -> bool:
        """A console is gone; False where it was none."""
        if self._taken.pop(console, None) is None:
            return False
        if not self._taken:
            self._arrived = anyio.Event()
        self._moved()
        return True

    def __len__(self) -> int:
        return len(self._taken)

    def present(self) -> bool:
        """Whether any is open."""
        return bool(self._taken)

    def protected_windows(self) -> ProtectedWindows:
        """Windows and processes of all of them."""
        taken = self._taken.values()
        return ProtectedWindows(
            window_ids=tuple(window for seat in taken for window in seat.window_ids),
            pids=tuple(pid for seat in taken for pid in seat.pids),
        )

    async def approver_within(self, milliseconds: int) -> bool:
        """Whether a console can decide, waiting so long at most for one to open. A console that holds the
        root is there in a moment; to others a caller has to give the time."""
        settles = CONSOLE_SETTLES_MS if self._role == KernelRole.CONSOLE else 0
        waits_ms = max(milliseconds, settles) if self._role in LASTING_ROLES else 0
        if not self._taken and waits_ms > 0:
            with anyio.move_on_after(waits_ms / 1000):
                await self._arrived.wait()
        return bool(self._taken)
