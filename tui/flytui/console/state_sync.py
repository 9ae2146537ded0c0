"""Fetches fresh values into the console's state when the kernel's events say that they changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from flycore.model.errors import FlyError
from flycore.model.events import Event
from flytui.console.state import ALL_TOPICS, ConsoleState, Topic, topics_of

MIN_INTERVAL_S = 0.05
"""The shortest time between two fetches, in seconds; screens are redrawn as often. Events in between are
answered by one fetch."""


class StateSync:
    """Follows the kernel's events and fetches until it is cancelled or the kernel goes away.

    `on_changed` is called with the topics that were fetched. `on_desktop_control` is called at once when a
    tool takes or releases the desktop. `on_console_event` gets the events whose content cannot be fetched.
    `run` may be called again, for another kernel.
    """

    def __init__(
        self,
        state: ConsoleState,
        on_changed: Callable[[frozenset[Topic]], Awaitable[None]],
        on_desktop_control: Callable[[bool], None],
        on_console_event: Callable[[Event], None],
    ) -> None:
        self._state = state
        self._on_changed = on_changed
        self._on_desktop_control = on_desktop_control
        self._on_console_event = on_console_event
        self._due: frozenset[Topic] = ALL_TOPICS
        self._wake = anyio.Event()

    async def run(self) -> str:
        """Follow the kernel's events until it goes away, and return why."""
        # The subscription comes before the first fetch: a change between the two would be missed otherwise.
        self._due, reason = ALL_TOPICS, "the kernel ended"
        try:
            async with self._state.client.events() as stream, anyio.create_task_group() as group:
                group.start_soon(self._fetch_due)
                async for event in stream:
                    self._on_event(event)
                group.cancel_scope.cancel()
        except* FlyError as gone:
            reason = str(gone.exceptions[0]) or reason
        return reason

    def refetch(self, topics: frozenset[Topic]) -> None:
        """Have the values of these topics fetched at the next turn."""
        self._due |= topics
        self._wake.set()

    def _on_event(self, event: Event) -> None:
        if event.type == "hands.changed":
            # Before the fetch, which may take a while: no approve key may count once a tool has the desktop.
            # An event that does not say `on` counts as taken, which is the safe side.
            self._on_desktop_control(event.payload.get("on") is not False)
        elif event.type in ("token.changed", "login.changed") or event.type.startswith("console."):
            self._on_console_event(event)
        self.refetch(topics_of(event))

    async def _fetch_due(self) -> None:
        while True:
            if not self._due:
                await self._wake.wait()
            # Replaced before the fetch: a topic that becomes due during it sets the new event and is fetched
            # next.
            topics, self._due, self._wake = self._due, frozenset(), anyio.Event()
            if topics:
                hands = self._state.desktop_controlled
                await self._state.fetch(topics)
                if self._state.desktop_controlled is not hands:
                    self._on_desktop_control(self._state.desktop_controlled)
                await self._on_changed(topics)
                await anyio.sleep(MIN_INTERVAL_S)
