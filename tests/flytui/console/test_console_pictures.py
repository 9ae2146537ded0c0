"""How it looks: four pictures, at a fixed size and a time that stands still.

`pytest --snapshot-update` takes them anew after a change that is meant.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from consolekit import (
    HandClock,
    app_of,
    press,
    request_of,
    sample_activity,
    settle,
    trust_items,
    until,
    world,
)
from flycore.model.enums import Risk
from flytui.console.app import FlytuiApp
from flytui.console.approvals.card import CardScreen
from flytui.console.trust import TrustScreen

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures do not depend on the terminal that takes them."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")


def fetched(app: FlytuiApp) -> Callable[[], bool]:
    """Whether the first values are there."""
    return lambda: app.desk.catalog is not None and app.desk.status is not None


def test_catalog_with_its_ladder(snap_compare: Compare) -> None:
    app = app_of(world())

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        await press(pilot, "down")
        await settle(pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=look)


def test_card_of_a_high_risk_call(snap_compare: Compare) -> None:
    place, clock = world(), HandClock()
    app = app_of(place, clock)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        place.ask_for(request_of("r1"), request_of("r2", risk=Risk.LOW, letter=""))
        await until(pilot, lambda: isinstance(app.screen, CardScreen) and app.screen._arming.seen_all)
        await settle(pilot)
        clock.advance(5)
        await press(pilot, "up")
        clock.advance(5)
        app.screen._tick()  # type: ignore[attr-defined]  # the card's own half-second, taken now
        await settle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)


def test_activity(snap_compare: Compare) -> None:
    app = app_of(world(activity_value=sample_activity()))

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        await until(pilot, lambda: bool(app.desk.activity))
        await press(pilot, "3")
        await settle(pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=look)


def test_trust_question(snap_compare: Compare) -> None:
    place, clock = world(trust_value=trust_items(3)), HandClock()
    app = app_of(place, clock)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, TrustScreen) and app.screen._card.arming.seen_all)
        clock.advance(5)
        app.screen._tick()  # type: ignore[attr-defined]  # the question's own half-second, taken now
        await settle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)
