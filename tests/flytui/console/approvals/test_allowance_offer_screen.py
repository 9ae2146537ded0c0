"""The allowance that stands first on a card after ten approvals, and the form that it opens."""

from __future__ import annotations

import pytest

from flycore.approval.allowance_offer import allowance_offer
from flycore.model.approval import Answer, Ask
from flycore.model.enums import Choice, RequestState, Risk
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.approvals.terms_screen import LeaseScreen
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import world
from kits.values import NOW, request_of

pytestmark = pytest.mark.anyio


def approvals(count: int) -> tuple[Ask, ...]:
    return tuple(
        Ask(
            request=request_of(
                f"old{n}", risk=Risk.MEDIUM, letter="", input={"page": n, "site": "docs"}, effect=f"read {n}"
            ),
            state=RequestState.APPROVED,
            answer=Answer(choice=Choice.APPROVE_ONCE),
            decided_at=NOW - 30 * (n + 1),
        )
        for n in range(count)
    )


@pytest.mark.parametrize("count", [9, 10])
async def test_the_tenth_approval_puts_the_allowance_first(count: int) -> None:
    place, clock = world(), HandClock()
    place.asks_value = approvals(count)
    fresh = request_of("new", risk=Risk.MEDIUM, letter="", input={"page": 99, "site": "docs"})
    async with console(place, clock) as (app, pilot):
        place.ask_for(fresh)
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        keys = drawn(app, "#card-keys")
        assert ("l allow 10 such calls for 5 min… (covers 10 you approved)" in keys) is (count == 10)
        if count == 10:
            assert keys.index("l allow") < keys.index("a approve")


async def test_the_form_has_the_offered_terms_and_lists_what_they_would_have_covered() -> None:
    place, clock = world(), HandClock()
    place.asks_value = approvals(10)
    fresh = request_of("new", risk=Risk.MEDIUM, letter="", input={"page": 99, "site": "docs"})
    offer = allowance_offer(fresh, place.asks_value, NOW)
    assert offer is not None
    async with console(place, clock) as (app, pilot):
        place.ask_for(fresh)
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        clock.advance(5)
        await press(pilot, "l")
        screen = app.screen
        assert isinstance(screen, LeaseScreen)
        text = drawn(app, "#standing")
        assert "It would have covered these 10 calls" in text
        assert all(f"read {n}" in text for n in range(10))
        assert "site is exactly" in text
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
    assert place.decided == [
        ("new", fresh.subject_digest, Answer(choice=Choice.LEASE, lease=offer.terms)),
    ]


async def test_other_terms_than_the_offered_ones_claim_nothing() -> None:
    place, clock = world(), HandClock()
    place.asks_value = approvals(10)
    async with console(place, clock) as (app, pilot):
        place.ask_for(request_of("new", risk=Risk.MEDIUM, letter="", input={"page": 99, "site": "docs"}))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        clock.advance(5)
        await press(pilot, "l", "e", "right", "enter")
        assert isinstance(app.screen, LeaseScreen)
        assert "15 minutes" in drawn(app, "#standing")
        assert "would have covered" not in drawn(app, "#standing")
