"""The emergency stop: everything is stopped when its key is pressed twice within a second."""

from __future__ import annotations

import msgspec
from textual.app import App

from flycore.model.errors import FlyError
from flytui.console.controllers.notifications import Notifications
from flytui.console.kernel_connection import FailedConnection
from flytui.console.state import ConsoleState, SharedState

SECOND_PRESS_S = 1.0
"""Seconds within which the second press has to follow the first."""


class TwoPresses(msgspec.Struct):
    """A key that acts when it is pressed twice within `SECOND_PRESS_S`. Times are seconds on one clock."""

    first: float = float("-inf")

    def press(self, at: float) -> bool:
        """Record a press, and return whether it is the second one."""
        second = 0 <= at - self.first <= SECOND_PRESS_S
        self.first = float("-inf") if second else at
        return second


class EmergencyStop:
    """Stops all calls and leases of the kernel. It never waits for another part of the application."""

    def __init__(self, app: App[None], shared: SharedState, notifications: Notifications) -> None:
        self._app = app
        self._shared = shared
        self._notifications = notifications
        self._key = TwoPresses()

    def press(self, at: float) -> None:
        """Take one press of the key, made at `at` on the console's clock."""
        if self._key.press(at):
            self.stop()
        else:
            key = self._shared.shown.keys.label("app.panic")
            self._notifications.show(f"{key} again within a second stops everything")

    def stop(self) -> None:
        """Stop everything at every root; the header shows it at once."""
        # Each by itself: a kernel that does not answer must not hold up the others.
        for root in self._shared.roots:
            if not isinstance(root.connection, FailedConnection):
                root.panic_requested = True
                self._app.run_worker(self._stop(root), group="panic")
        self._notifications.redraw_bars()

    async def _stop(self, root: ConsoleState) -> None:
        try:
            # Where the kernel is not there yet, the stop is sent as soon as it is: it must not be lost.
            client = await root.first_client()
            await client.panic()
            root.status = await client.status()
        except FlyError as error:
            which = f" at {root.name}" if root.name else ""
            self._notifications.show(f"not stopped{which}: {error}")
        finally:
            root.panic_requested = False
            self._notifications.redraw_bars()
