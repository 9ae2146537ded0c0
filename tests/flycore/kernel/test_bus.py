"""The event bus: what a subscriber does not want neither wakes it nor takes a place in its queue."""

from __future__ import annotations

import anyio
import pytest

from flycore.kernel.bus import BACKLOG, Bus
from flycore.model.events import MISSED, Event, EventClass

pytestmark = pytest.mark.anyio


def event(number: int, cls: EventClass = EventClass.AUDIT) -> Event:
    return Event(cls=cls, type=f"e{number}", at=0.0)


async def test_a_subscriber_gets_only_what_it_wants_at_that_moment() -> None:
    bus, wanted = Bus(), {"e1"}
    with bus.subscribe(wants=lambda one: one.type in wanted) as events:
        bus.publish(event(1))
        bus.publish(event(2))
        wanted.add("e2")
        bus.publish(event(2))
        received = aiter(events)
        with anyio.fail_after(10):
            assert [(await anext(received)).type for _ in range(2)] == ["e1", "e2"]


async def test_unwanted_events_do_not_push_out_wanted_ones() -> None:
    bus = Bus()
    with bus.subscribe(wants=lambda one: one.cls is EventClass.APPROVAL) as events:
        bus.publish(event(0, EventClass.APPROVAL))
        for number in range(2 * BACKLOG):
            bus.publish(event(number))
        bus.publish(event(1, EventClass.APPROVAL))
        received = aiter(events)
        with anyio.fail_after(10):
            assert [(await anext(received)).type for _ in range(2)] == ["e0", "e1"]


async def test_a_subscriber_that_loses_events_is_told_so() -> None:
    bus = Bus()
    with bus.subscribe() as events:
        for number in range(BACKLOG + 5):
            bus.publish(event(number))
        received = aiter(events)
        with anyio.fail_after(10):
            assert [(await anext(received)).type for _ in range(2)] == [MISSED, "e5"]
