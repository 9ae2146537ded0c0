"""A console that waits for something to happen: it draws nothing twice, and beats slowly until a screen opens
that decides something."""

from __future__ import annotations

from typing import Any

import pytest
from textual.strip import Strip

from flycore.model.enums import Risk
from flytui.console.approvals import card_lines
from flytui.console.approvals.card_lines import render_card
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.screens.main import MainScreen
from flytui.console.terminal_pauses import GAP_S, IDLE_TICK_S, TICK_S, Heartbeat
from flytui.console.widgets.lines import LineBar
from kits.console import HandClock, console, rows_drawn, settle, until
from kits.console import drawn as drawn_text
from kits.fake_kernel import world
from kits.values import lease, request_of

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


async def test_a_waiting_card_is_laid_out_once_and_each_second_only_its_clock_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid_out, drawn = list[int](), list[tuple[str | None, int]]()

    def render(*given: Any, **more: Any) -> Any:
        laid_out.append(1)
        return render_card(*given, **more)

    def draw(bar: LineBar, y: int) -> Strip:
        drawn.append((bar.id, y))
        return draw_line(bar, y)

    draw_line = LineBar.render_line
    place, clock = world(), HandClock()
    async with console(place, clock, (120, 40)) as (app, pilot):
        at = [app.state.now()]
        app.state.now = lambda: at[0]
        place.ask_for(request_of(risk=Risk.LOW, letter=""))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        assert isinstance(app.screen, RequestScreen)
        card = app.screen
        await until(pilot, lambda: card._arming.shown_at is not None)
        clock.advance(2)
        await until(pilot, lambda: "keys ready" in drawn_text(app, "#card-keys"))
        await settle(pilot)
        monkeypatch.setattr(card_lines, "render_card", render)
        monkeypatch.setattr(LineBar, "render_line", draw)
        for second in range(1, 4):
            for _ in range(5):
                card._tick()
                await settle(pilot)
            assert drawn == []
            at[0] += 1
            card._tick()
            await settle(pilot)
            assert drawn == [("card-title", 0)], second
            drawn.clear()
        assert laid_out == []
        place.ask_for(request_of(id="r2", risk=Risk.LOW, letter=""))
        await until(pilot, lambda: "1 of 2" in drawn_text(app, "#card-title"))
