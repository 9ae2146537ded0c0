"""One console for several roots: one queue, one answer each, and nothing that crosses a root."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from textual.pilot import Pilot

from flycore.model.approval import Answer, ApprovalRequest
from flycore.model.enums import Choice, Risk
from flycore.model.errors import ConnectionLost, KernelFailed
from flytui.console.app import FlytuiApp, quit_question
from flytui.console.approvals.batch_screen import BatchScreen
from flytui.console.approvals.question_screen import QuestionScreen
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.kernel_connection import FailedConnection, OpenConnection
from flytui.console.run import ConsoleParts, RootParts, run_console
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.state import ConsoleState, SharedState
from flytui.text.root_names import root_tone, short_names
from kits.console import HandClock, at_once, drawn, frame, press, read_through, rows_drawn, still, until
from kits.fake_kernel import World, world
from kits.values import NOW, request_of, trust_items

pytestmark = pytest.mark.anyio
SHOP, DOCS = "/srv/a/shop", "/srv/b/docs"
Both = tuple[FlytuiApp, Pilot[None], World, World, HandClock]


@asynccontextmanager
async def two_roots(
    size: tuple[int, int] = (120, 34), shop: str = SHOP, docs: str = DOCS
) -> AsyncIterator[Both]:
    """A console on two roots, each with a kernel of its own, after it has read the values of both."""
    clock, shared, worlds = HandClock(), SharedState(), (world(), world())
    for title, name, place in zip((shop, docs), short_names([shop, docs]), worlds, strict=True):
        ConsoleState(
            title=title,
            name=name,
            shared=shared,
            connection=OpenConnection(place, place),
            clock=clock,
            now=lambda: NOW,
        )
    app = FlytuiApp(shared.roots[0])
    async with app.run_test(size=size, notifications=False) as pilot:
        await until(pilot, lambda: all(root.catalog is not None for root in shared.roots))
        yield app, pilot, *worlds, clock


def medium(name: str, at: float, **more: object) -> ApprovalRequest:
    return request_of(name, risk=Risk.MEDIUM, letter="", tool="mock.echo", asked_at=NOW - at, **more)


async def queue(
    app: FlytuiApp, pilot: Pilot[None], count: int, *asked: tuple[World, ApprovalRequest]
) -> None:
    """Have requests come while somebody types, so that no card opens by itself."""
    app.shared.last_key = app.state.clock()
    for place, request in asked:
        place.ask_for(request)
    await until(pilot, lambda: len(app.shared.waiting) == count)


async def arm(app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> RequestScreen:
    """Wait for a card, and until its keys count."""
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    screen = app.screen
    assert isinstance(screen, RequestScreen)
    await read_through(pilot, screen._card)
    clock.advance(5)
    return screen


async def test_equal_ids_of_two_roots_are_two_requests_and_each_answer_goes_home() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):
        await queue(app, pilot, 2, (docs, medium("r1", 9)), (shop, medium("r1", 5)))
        await press(pilot, "ctrl+o")
        screen = await arm(app, pilot, clock)
        assert screen._queued.root.name == "docs"
        assert "1 of 2" in drawn(app, "#card-title")
        assert "asked by  docs · " in drawn(app, "#card-title")
        await press(pilot, "a")
        await until(pilot, lambda: len(docs.decided) == 1)
        assert shop.decided == []
        await until(pilot, lambda: screen._queued.root.name == "shop")
        await arm(app, pilot, clock)
        assert "asked by  shop · " in drawn(app, "#card-title")
        await press(pilot, "d")
        await until(pilot, lambda: len(shop.decided) == 1)
        assert [answer.choice for _, _, answer in docs.decided] == [Choice.APPROVE_ONCE]
        assert [answer.choice for _, _, answer in shop.decided] == [Choice.DENY]


async def test_an_answer_goes_to_the_root_of_the_card_whatever_is_shown_when_it_is_sent() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):
        await queue(app, pilot, 2, (docs, medium("r1", 9)), (shop, medium("r1", 5)))
        await press(pilot, "ctrl+o")
        screen = await arm(app, pilot, clock)
        sender = screen._sender(screen._queued)
        await press(pilot, "n")
        assert screen._queued.root.name == "shop"
        await sender(Answer(choice=Choice.DENY))
        assert (len(docs.decided), len(shop.decided)) == (1, 0)


async def test_the_queue_is_one_list_with_the_root_before_who_asks() -> None:
    async with two_roots() as (app, pilot, shop, docs, _):
        await queue(app, pilot, 2, (shop, medium("r1", 5)), (docs, medium("r1", 9)))
        await press(pilot, "2")
        rows = rows_drawn(app, "#ask-rows").splitlines()
        assert [("docs · " in row, "shop · " in row) for row in rows] == [(True, False), (False, True)]
        header = drawn(app, "#header")
        assert "1 of 2" in header
        assert "2 waiting" in header
        assert "2 requests wait" in drawn(app, "#alert")
        spans = [part for row in app.screen.query_one("#alert")._rows for part in row]
        assert [part.tone for part in spans if part.text == "docs"] == [root_tone(1)]


async def test_the_batch_sends_each_answer_to_its_root_and_denies_callers_of_one_root_only() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):
        asked = (shop, medium("r1", 5)), (docs, medium("r1", 9)), (docs, medium("r2", 8))
        await queue(app, pilot, 3, *asked)
        await press(pilot, "2", "B")
        screen = app.screen
        assert isinstance(screen, BatchScreen)
        await read_through(pilot, screen._card)
        clock.advance(5)
        await press(pilot, "D", *"no", "enter")
        await until(pilot, lambda: len(docs.decided) == 2)
        await until(pilot, lambda: len(screen._asks) == 1)
        assert shop.decided == []
        assert {answer.choice for _, _, answer in docs.decided} == {Choice.DENY}


async def test_a_question_is_answered_at_its_root() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):
        await docs.panic()
        await until(pilot, lambda: bool(app.shared.questions))
        await press(pilot, "ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        assert "docs" in drawn(app, "#card-title")
        await until(pilot, lambda: app.screen._card.arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "r")
        await until(pilot, lambda: len(docs.answered) == 1)
        assert shop.answered == []


async def test_a_key_shows_the_next_root_and_each_keeps_its_view() -> None:
    async with two_roots() as (app, pilot, *_):
        assert "shop" in drawn(app, "#header")
        first = app.screen
        await press(pilot, "4", "ctrl+r")
        await until(pilot, lambda: app.screen is not first and isinstance(app.screen, MainScreen))
        assert "docs 2 of 2" in drawn(app, "#header")
        assert app.state.title == DOCS
        assert app.screen._view == "grants"
        await press(pilot, "ctrl+r")
        await until(pilot, lambda: app.screen is first)
        assert "shop 1 of 2" in drawn(app, "#header")


async def test_a_stop_reaches_every_root_although_one_does_not_answer() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):

        async def gone() -> bool:
            raise ConnectionLost("it went away")

        shop.panic = gone  # type: ignore[method-assign]
        await press(pilot, "ctrl+x")
        clock.advance(0.5)
        await press(pilot, "ctrl+x")
        await until(pilot, lambda: docs.stopped)
        await until(pilot, lambda: "not stopped at shop" in app.shared.notice)


async def test_a_tool_that_has_the_desktop_disarms_the_cards_of_every_root() -> None:
    async with two_roots() as (app, pilot, shop, docs, clock):
        await queue(app, pilot, 1, (shop, medium("r1", 5)))
        await press(pilot, "ctrl+o")
        screen = await arm(app, pilot, clock)
        docs.publish("hands.changed", on=True)
        docs.hands_on = True
        await until(pilot, lambda: app.shared.desktop_controlled)
        await press(pilot, "a")
        assert shop.decided == []
        assert screen._arming.desktop_controlled


async def test_trust_of_another_root_is_asked_for_under_its_name() -> None:
    async with two_roots() as (app, pilot, _shop, docs, _):
        app.shared.last_key = app.state.clock()
        docs.trust_value = trust_items(1)
        docs.publish("trust.changed")
        await until(pilot, lambda: bool(app.shared.roots[1].trust))
        assert "docs" in drawn(app, "#alert")
        await press(pilot, "T")
        await until(pilot, lambda: isinstance(app.screen, TrustScreen))
        assert "docs 2 of 2" in drawn(app, "#header")


async def test_what_ends_when_the_person_leaves_is_counted_over_all_roots() -> None:
    async with two_roots() as (app, pilot, shop, docs, _):
        await queue(app, pilot, 2, (shop, medium("r1", 5)), (docs, medium("r1", 9)))
        question = " ".join(quit_question(app.shared.roots))
        assert "2 requests wait" in question
        assert "4 agents are connected" in question


@pytest.mark.parametrize("size", [(120, 34), (80, 24), (60, 20)])
async def test_a_hostile_path_is_drawn_as_plain_bounded_text(size: tuple[int, int]) -> None:
    hostile = "/srv/\x1b]0;x\x07[/nope]\u202e" + "long" * 60
    async with two_roots(size, shop=hostile, docs=f"/other{hostile}") as (app, pilot, shop, _docs, clock):
        await queue(app, pilot, 1, (shop, medium("r1", 5)))
        await press(pilot, "ctrl+o")
        await arm(app, pilot, clock)
        lines = await still(pilot, app)
        assert "\x1b" not in "".join(lines)
        assert "\u202e" not in "".join(lines)
        assert "(1)" in drawn(app, "#card-title")
        await press(pilot, "escape", "2")
        assert len(frame(app)) == size[1]


async def test_a_root_that_cannot_be_opened_says_why_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    docs, tries = world(), list[int]()

    @asynccontextmanager
    async def failing(tell: Callable[[str], None]) -> AsyncIterator[OpenConnection]:
        tries.append(len(tries))
        if len(tries) == 1:
            raise KernelFailed("the log cannot be written")
        async with world().opened() as opened:
            yield opened

    async def run_async(app: FlytuiApp) -> None:
        async with app.run_test(size=(120, 34)) as pilot:
            shop = app.shared.roots[0]
            await until(pilot, lambda: app.shared.roots[1].catalog is not None)
            await until(pilot, lambda: isinstance(shop.connection, FailedConnection))
            await until(pilot, lambda: "the log cannot be written" in drawn(app, "#alert"))
            await queue(app, pilot, 1, (docs, medium("r1", 9)))
            app.action_take()
            await until(pilot, lambda: shop.catalog is not None)
            assert "cannot be written" not in drawn(app, "#alert")
            app.exit()

    monkeypatch.setattr(FlytuiApp, "run_async", run_async)
    with anyio.fail_after(120):
        await run_console(
            [
                RootParts(title=SHOP, open_kernel=failing),
                RootParts(title=DOCS, open_kernel=at_once(docs)),
            ],
            ConsoleParts(clock=HandClock(), now=lambda: NOW),
        )
    assert docs.attached == ["attached", "detached"]
