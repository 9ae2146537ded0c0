"""A console that waits for something to happen: it draws nothing twice, and beats slowly until a screen opens
that decides something."""

from __future__ import annotations

import pytest

from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.screens.main import MainScreen
from flytui.console.terminal_pauses import GAP_S, IDLE_TICK_S, TICK_S, Heartbeat
from kits.console import HandClock, console, rows_drawn, settle, until
from kits.fake_kernel import world
from kits.values import lease

pytestmark = pytest.mark.anyio


def test_a_slow_beat_is_no_pause_and_a_longer_wait_is_one() -> None:
    clock = HandClock()
    beat = Heartbeat(clock)
    beat.beat(IDLE_TICK_S)
    clock.advance(IDLE_TICK_S)
    assert not beat.beat(IDLE_TICK_S)
    clock.advance(IDLE_TICK_S + GAP_S)
    assert beat.beat(IDLE_TICK_S)
    clock.advance(TICK_S)
    assert not beat.beat()
    clock.advance(GAP_S + TICK_S)
    assert beat.beat()


async def test_times_are_drawn_again_only_where_they_would_look_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with console(world(leases_value=(lease("file.hash"),)), HandClock(), (160, 30)) as (app, pilot):
        main, view = app.screen, app.screen.query_one(CatalogView)
        assert isinstance(main, MainScreen)
        await until(pilot, lambda: "lease " in rows_drawn(app, "#catalog-rows"))
        at, drawn = [app.state.now()], list[int]()
        app.state.now = lambda: at[0]
        view._annotations.now = app.state.now
        await settle(pilot)
        monkeypatch.setattr(view.tool_list.list, "refresh", lambda *_, **__: drawn.append(1))
        for _ in range(5):
            main.tick()
        assert drawn == []
        at[0] += 1
        main.tick()
        assert drawn == [1], "the lease has a second less"
