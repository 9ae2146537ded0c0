"""From the kernel's events to fresh values on the desk, coalesced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from flycore.model.errors import FlyError
from flycore.model.events import Event
from flytui.console.desk import ALL_TOPICS, Desk, Topic, topics_of

PACE_S = 0.05
"""At most so often are values fetched and screens redrawn."""


class StateSync:
    """Listens and fetches until it is cancelled or the kernel goes away.

    `told` gets the topics that were fetched; `hands` is told at once, before anything is coalesced,
    because approve keys die with it; `heard` gets events that carry what cannot be fetched. It may be run
    again, at another kernel.
    """

    def __init__(
        self,
        desk: Desk,
        told: Callable[[frozenset[Topic]], Awaitable[None]],
        hands: Callable[[bool], None],
        heard: Callable[[Event], None],
    ) -> None:
        self._desk = desk
        self._told = told
        self._hands = hands
        self._heard = heard
        self._due: frozenset[Topic] = ALL_TOPICS
        self._wake = anyio.Event()

    async def run(self) -> None:
        """Subscribe first, then fetch everything, so that nothing falls between."""
        self._due = ALL_TOPICS
        try:
            async with self._desk.client.events() as stream, anyio.create_task_group() as group:
                group.start_soon(self._fetch_due)
                async for event in stream:
                    self._note(event)
                group.cancel_scope.cancel()
            self._desk.lost = "the kernel ended"
        except* FlyError as gone:
            self._desk.lost = str(gone.exceptions[0]) or "the kernel went away"
        await self._told(frozenset())

    def again(self, topics: frozenset[Topic]) -> None:
        """Fetch these soon."""
        self._due |= topics
        self._wake.set()

    def _note(self, event: Event) -> None:
        if event.type == "hands.changed":
            self._hands(event.payload.get("on") is not False)
        elif event.type == "token.changed" or event.type.startswith("console."):
            self._heard(event)
        self.again(topics_of(event))

    async def _fetch_due(self) -> None:
        while True:
            if not self._due:
                await self._wake.wait()
            topics, self._due, self._wake = self._due, frozenset(), anyio.Event()
            if topics:
                hands = self._desk.hands_on
                await self._desk.fetch(topics)
                if self._desk.hands_on is not hands:
                    self._hands(self._desk.hands_on)
                await self._told(topics)
                await anyio.sleep(PACE_S)
