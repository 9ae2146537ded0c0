"""The event bus: plain values, told upward, never holding up whoever tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from flycore.audit.log import AuditLog
from flycore.model.clock import Clock
from flycore.model.errors import AuditUnwritable
from flycore.model.events import FOR_PERSONS, MISSED, Event, EventClass, Publish
from flycore.model.json import JsonObject

BACKLOG = 1000
"""Events kept for a listener that is behind; then it loses the oldest, and is told that it did."""


class Subscription:
    """One listener's view of the bus."""

    def __init__(
        self,
        classes: frozenset[EventClass] | None,
        send: MemoryObjectSendStream[Event],
        receive: MemoryObjectReceiveStream[Event],
        person: Callable[[], bool],
    ) -> None:
        self._classes = classes
        self._person = person
        self._send = send
        self._receive = receive
        self._missed = False

    def offer(self, event: Event) -> None:
        """Queue the event, dropping the oldest where the listener is `BACKLOG` behind."""
        if self._classes is not None and event.cls not in self._classes:
            return
        if event.type in FOR_PERSONS and not self._person():
            return
        try:
            self._send.send_nowait(event)
        except anyio.WouldBlock:
            self._receive.receive_nowait()
            self._send.send_nowait(event)
            self._missed = True

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self._receive:
            if self._missed:
                self._missed = False
                yield Event(cls=EventClass.SNAPSHOT, type=MISSED, at=event.at)
            yield event

    def close(self) -> None:
        """End the iteration."""
        self._send.close()
        self._receive.close()


class Bus:
    """Hands every event to every subscription whose classes it is in."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def publish(self, event: Event) -> None:
        """Tell everybody; never blocks, never raises."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    @contextmanager
    def subscribe(
        self, classes: frozenset[EventClass] | None = None, person: Callable[[], bool] = lambda: False
    ) -> Iterator[Subscription]:
        """Listen until the block ends; None means every class. `person` says, event by event, whether what
        is for a person's eyes alone may be told here."""
        send, receive = anyio.create_memory_object_stream[Event](BACKLOG)
        subscription = Subscription(classes, send, receive, person)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)
            subscription.close()


# Lines of the log that nothing runs because of, and the events beside them.


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes down and publishes what has happened. A full disk stops only the line: calls are refused by
    lines of their own."""

    clock: Clock
    send: Publish
    audit: AuditLog

    def record(self, event: str, fields: JsonObject, *, sync: bool = False) -> None:
        """Write one line; one that cannot be written is published as `audit.unwritable`."""
        try:
            self.audit.append(event, fields, sync=sync)
        except AuditUnwritable as error:
            self.publish(EventClass.AUDIT, "audit.unwritable", {"cause": error.cause})

    def publish(self, cls: EventClass, kind: str, payload: JsonObject) -> None:
        """Publish one event, stamped with the time."""
        self.send(Event(cls=cls, type=kind, at=self.clock.now(), payload=payload))
