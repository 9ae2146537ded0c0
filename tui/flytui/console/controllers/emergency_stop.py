"""The emergency stop: everything is stopped when its key is pressed twice within a second."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import App

from flycore.model.errors import FlyError
from flytui.console.controllers.notifications import Notifications
from flytui.console.state import ConsoleState

SECOND_PRESS_S = 1.0
"""Seconds within which the second press has to follow the first."""


@dataclass(slots=True)
class TwoPresses:
    """A key that acts when it is pressed twice within `SECOND_PRESS_S`. Times are seconds on one clock."""

    first: float = float("-inf")

    def press(self, at: float) -> bool:
        """Record a press, and return whether it is the second one."""
        second = 0 <= at - self.first <= SECOND_PRESS_S
        self.first = float("-inf") if second else at
        return second


class EmergencyStop:
    """Stops all calls and leases of the kernel. It never waits for another part of the application."""

    def __init__(self, app: App[None], state: ConsoleState, notifications: Notifications) -> None:
        self._app = app
        self._state = state
        self._notifications = notifications
        self._key = TwoPresses()

    def press(self, at: float) -> None:
        """Take one press of the key, made at `at` on the console's clock."""
        if self._key.press(at):
            self.stop()
        else:
            key = self._state.keys.label("app.panic")
            self._notifications.show(f"{key} again within a second stops everything")

    def stop(self) -> None:
        """Stop everything; the header shows it at once."""
        self._state.panic_requested = True
        self._notifications.redraw_bars()
        self._app.run_worker(self._stop(), group="panic")

    async def _stop(self) -> None:
        try:
            # Where the kernel is not there yet, the stop is sent as soon as it is: it must not be lost.
            client = await self._state.first_client()
            await client.panic()
            self._state.status = await client.status()
        except FlyError as error:
            self._notifications.show(f"not stopped: {error}")
        finally:
            self._state.panic_requested = False
            self._notifications.redraw_bars()
