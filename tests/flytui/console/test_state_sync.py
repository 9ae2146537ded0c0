"""Suite S14: a thousand events a second into the console; it answers keys and ends on the last state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from flycore.kernel.bus import BACKLOG, Bus
from flycore.model.approval import Ask
from flycore.model.call import Activity, Progress, ToolResult
from flycore.model.enums import Phase, RequestState, Risk, Status
from flycore.model.events import Event, EventClass
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.kernel_connection import OpenConnection
from flytui.console.state import ConsoleState, Topic
from flytui.console.state_sync import StateSync
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.kernel import until as comes_true
from kits.values import CALLER, NOW, request_of, sample_catalog

pytestmark = [pytest.mark.anyio, pytest.mark.suite, pytest.mark.long]

EVENTS = 1_000
BURST = 50


def step(number: int) -> Activity:
    """The one call, so far along."""
    done = Progress(call_id="c1", phase=Phase.RUNNING, progress=number, total=EVENTS, message=f"at {number}")
    return Activity(
        call_id="c1",
        tool="vision.ocr",
        sidecar="media.local",
        caller=CALLER,
        phase=Phase.RUNNING,
        started_at=NOW - 5,
        running_since=NOW - 5,
        progress=done,
    )


async def test_a_thousand_events_lose_no_final_state_and_hold_up_no_key() -> None:
    place, clock = world(activity_value=(step(0),)), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "3")
        await until(pilot, lambda: "at 0" in rows_drawn(app, "#call-rows"))
        for number in range(1, EVENTS + 1):
            place.activity_value = (step(number),)
            place.publish("call.progress")
            if number % BURST == 0:
                await press(pilot, "1" if number // BURST % 2 else "3")
                shown = "Catalog" if number // BURST % 2 else "Activity"
                assert shown in drawn(app, "#header")
        await until(pilot, lambda: "100%" in rows_drawn(app, "#call-rows"))
        assert app.state.activity == (step(EVENTS),)
        result = ToolResult(
            status=Status.SUCCESS, tool="vision.ocr", sidecar="media.local", call_id="c1", output={}
        )
        ended = msgspec.structs.replace(step(EVENTS), phase=Phase.FINISHED, progress=None, result=result)
        place.activity_value = (ended,)
        for number in range(EVENTS):
            place.publish("call.finished")
            if number % BURST == 0:
                await pilot.pause()
        await until(pilot, lambda: "success" in rows_drawn(app, "#call-rows"))


async def test_a_card_is_decided_in_the_midst_of_a_thousand_events() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        place.ask_for(request_of(risk=Risk.LOW, letter=""))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        await until(
            pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at is not None
        )
        clock.advance(5)
        for number in range(EVENTS):
            place.publish("call.progress")
            if number == EVENTS // 2:
                await press(pilot, "a")
            elif number % BURST == 0:
                await pilot.pause()
        await until(pilot, lambda: place.decided)
    assert place.asks_value[0].state is RequestState.APPROVED


class OnBus(World):
    """A world whose events come over the kernel's own bus."""

    bus: Bus

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        with self.bus.subscribe(classes) as subscription:
            yield aiter(subscription)

    def tell(self, type: str) -> None:
        """One event to the bus."""
        self.bus.publish(Event(cls=EventClass.TOOL, type=type, at=NOW))


async def test_a_request_whose_event_was_lost_in_a_flood_is_shown_all_the_same() -> None:
    """The bus drops the oldest of more than it keeps, among them the one event that told of a request and
    the one that a tool took the machine."""
    place = OnBus(catalog_value=sample_catalog())
    place.bus = Bus()
    desk = ConsoleState(connection=OpenConnection(place, place), title="x")
    hands: list[bool] = []
    events: list[Event] = []

    async def told(topics: frozenset[Topic]) -> None:
        """Nothing to draw on."""

    async with anyio.create_task_group() as group:
        group.start_soon(StateSync(desk, told, hands.append, events.append).run)
        await comes_true(lambda: desk.catalog is not None and desk.status is not None)
        place.asks_value = (Ask(request=request_of(), state=RequestState.WAITING),)
        place.hands_on = True
        place.tell("call.progress")  # handed on at once: the listener waits for it
        place.tell("approval.asked")
        place.tell("hands.changed")
        for number in range(3 * BACKLOG):
            place.activity_value = (step(number),)
            place.tell("call.progress")
        await comes_true(lambda: desk.waiting and desk.activity == place.activity_value and hands)
        group.cancel_scope.cancel()
    assert hands == [True]
    assert events == []
