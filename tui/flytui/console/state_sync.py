"""From the kernel's events to fresh values on the desk, coalesced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from flycore.model.errors import FlyError
from flycore.model.events import Event
from flytui.console.state import ALL_TOPICS, ConsoleState, Topic, topics_of

MIN_INTERVAL_S = 0.05
"""At most so often are values fetched and screens redrawn."""


class StateSync:
    """Listens and fetches until it is cancelled or the kernel goes away.

    `told` gets the topics that were fetched; `hands` is told at once, before anything is coalesced,
    because approve keys die with it; `heard` gets events that carry what cannot be fetched. It may be run
    again, at another kernel.
    """

    def __init__(
        self,
        state: ConsoleState,
        on_changed: Callable[[frozenset[Topic]], Awaitable[None]],
        hands: Callable[[bool], None],
        on_console_event: Callable[[Event], None],
    ) -> None:
        self._state = state
        self._on_changed = on_changed
        self._on_hands = hands
        self._on_console_event = on_console_event
        self._due: frozenset[Topic] = ALL_TOPICS
        self._wake = anyio.Event()

    async def run(self) -> None:
        """Subscribe first, then fetch everything, so that nothing falls between."""
        self._due = ALL_TOPICS
        try:
            async with self._state.client.events() as stream, anyio.create_task_group() as group:
                group.start_soon(self._fetch_due)
                async for event in stream:
                    self._on_event(event)
                group.cancel_scope.cancel()
            self._state.lost_reason = "the kernel ended"
        except* FlyError as gone:
            self._state.lost_reason = str(gone.exceptions[0]) or "the kernel went away"
        await self._on_changed(frozenset())

    def refetch(self, topics: frozenset[Topic]) -> None:
        """Fetch these soon."""
        self._due |= topics
        self._wake.set()

    def _on_event(self, event: Event) -> None:
        if event.type == "hands.changed":
            self._on_hands(event.payload.get("on") is not False)
        elif event.type == "token.changed" or event.type.startswith("console."):
            self._on_console_event(event)
        self.refetch(topics_of(event))

    async def _fetch_due(self) -> None:
        while True:
            if not self._due:
                await self._wake.wait()
            topics, self._due, self._wake = self._due, frozenset(), anyio.Event()
            if topics:
                hands = self._state.desktop_controlled
                await self._state.fetch(topics)
                if self._state.desktop_controlled is not hands:
                    self._on_hands(self._state.desktop_controlled)
                await self._on_changed(topics)
                await anyio.sleep(MIN_INTERVAL_S)
