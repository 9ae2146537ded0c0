"""The event bus, which never blocks a publisher, the recorder that logs and publishes, and the sync of what
it logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from flycore.audit.log import AuditLog
from flycore.audit.record import LogRecord, read_line
from flycore.model.clock import Clock
from flycore.model.errors import AuditUnwritable
from flycore.model.events import FOR_PERSONS, MISSED, Event, EventClass, Publish
from flycore.model.json import JsonObject

BACKLOG = 1000
"""Events queued for a slow subscriber; beyond this it loses the oldest and gets a MISSED event."""
AUDIT_GROUP_SECONDS = 0.05
"""The time after which result lines are synced together. Lines before an effect are synced at once."""


class Subscription:
    """One subscriber's queue of events, iterated with `async for`."""

    def __init__(
        self,
        classes: frozenset[EventClass] | None,
        send: MemoryObjectSendStream[Event],
        receive: MemoryObjectReceiveStream[Event],
        person: Callable[[], bool],
        wants: Callable[[Event], bool],
    ) -> None:
        self._classes = classes
        self._person = person
        self._wants = wants
        self._send = send
        self._receive = receive
        self._missed = False

    def offer(self, event: Event) -> None:
        """Queue the event; drop the oldest if the queue is full."""
        if self._classes is not None and event.cls not in self._classes:
            return
        # Asked for each event: a connection becomes a person's only when its console is paired.
        if event.type in FOR_PERSONS and not self._person():
            return
        # Each event that is queued wakes the subscriber's task.
        if not self._wants(event):
            return
        try:
            self._send.send_nowait(event)
        except anyio.WouldBlock:
            # The oldest is dropped: the subscriber learns from MISSED that it must read the state again.
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
    """The event bus of one kernel: every event goes to every subscription of its class."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def publish(self, event: Event) -> None:
        """Queue the event for all subscribers. Never blocks and never raises."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    @contextmanager
    def subscribe(
        self,
        classes: frozenset[EventClass] | None = None,
        person: Callable[[], bool] = lambda: False,
        wants: Callable[[Event], bool] = lambda event: True,
    ) -> Iterator[Subscription]:
        """Subscribe while the block runs; None means every class.

        `person` is called for each event that only a person may see, and says whether this subscriber may get
        it at that moment. `wants` is called for each event, and says whether it is queued.
        """
        send, receive = anyio.create_memory_object_stream[Event](BACKLOG)
        subscription = Subscription(classes, send, receive, person, wants)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)
            subscription.close()


# Recording.


def line_event(line: bytes, at: float) -> Event:
    """Return the event for a line of the audit log. It says which event the line records, of which call; a
    client that may read more asks for the call."""
    record = read_line(line) or LogRecord()
    # A line of nobody's call is about nobody: only viewers get its event.
    about: JsonObject = {"callId": record.call_id} if record.call_id else {"about": record.caller_key}
    payload: JsonObject = {"seq": record.seq, "event": record.event, **about}
    return Event(cls=EventClass.AUDIT, type="audit.line", at=at, payload=payload)


class Recorder(msgspec.Struct, frozen=True):
    """A writer of log lines and events about things that have already happened.

    A line that cannot be written stops nothing here. Calls are refused by the lines of their own, which the
    pipeline writes before each effect.
    """

    clock: Clock
    send: Publish
    audit: AuditLog

    def record(self, event: str, fields: JsonObject, *, sync: bool = False) -> None:
        """Log one line; if it cannot be written, publish `audit.unwritable`."""
        try:
            self.audit.append(event, fields, sync=sync)
        except AuditUnwritable as error:
            self.publish(EventClass.AUDIT, "audit.unwritable", {"cause": error.cause})

    def publish(self, cls: EventClass, kind: str, payload: JsonObject) -> None:
        """Publish one event with the current time."""
        self.send(Event(cls=cls, type=kind, at=self.clock.now(), payload=payload))


class GroupSync:
    """Syncs the lines of a log that were written without a sync, a moment after the first of them. Without
    lines it does nothing, so that an idle kernel sleeps."""

    def __init__(self) -> None:
        self._written = anyio.Event()

    def note_line(self) -> None:
        """Note that a line was written."""
        self._written.set()

    async def run(self, audit: AuditLog) -> None:
        """Sync until cancelled."""
        while True:
            await self._written.wait()
            self._written = anyio.Event()
            await anyio.sleep(AUDIT_GROUP_SECONDS)
            if audit.dirty and not audit.stopped:
                with suppress(AuditUnwritable):
                    audit.flush()
