"""Alike requests and calls in the lists: one row with their number, and one each after the key."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.approval import Ask
from flycore.model.call import CallError, ToolResult
from flycore.model.enums import Code, Phase, RequestState, Status
from flytui.console.approvals.request_screen import RequestScreen
from kits.console import HandClock, console, press, rows_drawn, until
from kits.fake_kernel import world
from kits.values import NOW, request_of, sample_activity

pytestmark = pytest.mark.anyio


async def test_alike_requests_are_one_row_that_opens_the_oldest_and_unfolds() -> None:
    place, clock = world(), HandClock()
    asks = tuple(
        Ask(request=request_of(f"r{n}", input={"text": f"{n}"}), state=RequestState.WAITING, count=2)
        for n in range(3)
    )
    place.asks_value = (*asks, Ask(request=request_of("w", tool="web.fetch"), state=RequestState.WAITING))
    async with console(place, clock) as (app, pilot):
        await press(pilot, "2")
        await until(pilot, lambda: len(app.state.waiting) == 4)
        await until(pilot, lambda: "×6" in rows_drawn(app, "#ask-rows"))
        assert rows_drawn(app, "#ask-rows").count("computer.keyboard") == 1
        await press(pilot, "space")
        assert rows_drawn(app, "#ask-rows").count("computer.keyboard") == 3
        await press(pilot, "down", "space")
        assert rows_drawn(app, "#ask-rows").count("computer.keyboard") == 1
        await press(pilot, "home", "enter")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        assert isinstance(app.screen, RequestScreen)
        assert app.screen._ask.request.id == "r0"


async def test_turned_away_calls_are_one_row_of_activity_with_their_number() -> None:
    place, clock = world(), HandClock()
    [call, *_] = sample_activity()
    error = CallError(code=Code.QUEUE_FULL, message="5 requests of yours already wait")
    place.activity_value = tuple(
        msgspec.structs.replace(
            call,
            call_id=f"c{n}",
            phase=Phase.FINISHED,
            started_at=NOW - n,
            step=None,
            progress=None,
            result=ToolResult(
                status=Status.DENIED, tool=call.tool, sidecar=None, call_id=f"c{n}", error=error
            ),
        )
        for n in range(25)
    )
    async with console(place, clock) as (app, pilot):
        await press(pilot, "3")
        await until(pilot, lambda: f"×25 {call.tool} queue-full" in rows_drawn(app, "#call-rows"))
        assert "◌ turned away" in rows_drawn(app, "#call-rows")
        assert rows_drawn(app, "#call-rows").count(call.tool) == 1
        await press(pilot, "space")
        assert rows_drawn(app, "#call-rows").count(call.tool) == 25
