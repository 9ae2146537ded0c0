"""A console at another one's kernel: typed in by a code, only looking on before, and left when that ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from flycore.model.enums import Risk
from flycore.model.errors import KernelUnreachable, ProtocolError, RootBusy
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.kernel_connection import (
    AttachedKernel,
    LostConnection,
    OpenConnection,
    grouped_code,
    normalise_code,
)
from flytui.console.run import ConsoleParts, RootParts, run_console
from flytui.console.screens.main import MainScreen
from flytui.console.screens.pairing import EnterCodeScreen, PairingRequestScreen
from flytui.console.screens.trust import TrustScreen
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.values import NOW, request_of, trust_items

pytestmark = pytest.mark.anyio
CODE = "K7QM4TXP"
SIZES = [(120, 40), (80, 24), (60, 20)]


@dataclass
class Door:
    """The pairing of a kernel far away."""

    tries: int = 3
    asked: int = 0
    presented: list[str] = field(default_factory=list)
    mute: str = ""

    async def ask(self) -> None:
        self.asked += 1
        self.tries = 3
        if self.mute:
            raise ProtocolError(self.mute)

    async def pair(self, code: str) -> str:
        self.presented.append(code)
        if code == CODE and self.tries:
            return ""
        self.tries -= 1
        return f"wrong code, {self.tries} tries left"


@dataclass
class Far:
    """Another console's kernel, which can be there or not."""

    place: World
    door: Door = field(default_factory=Door)
    there: bool = True
    came: int = 0

    @asynccontextmanager
    async def joining(self) -> AsyncIterator[OpenConnection]:
        if not self.there:
            raise KernelUnreachable("kernel.sock")
        self.came += 1
        attached = AttachedKernel(self.door, pid=4121, since=NOW - 60, role="console")
        yield OpenConnection(self.place, self.place, attached)


Script = Callable[[FlytuiApp, Pilot[None]], Awaitable[None]]
Sit = Callable[..., Awaitable[None]]


@pytest.fixture
def sit(monkeypatch: pytest.MonkeyPatch) -> Sit:
    """Runs the console beside `far`, with what a person does at it; `own` is the kernel it can open."""

    async def run(
        far: Far, script: Script, *, own: World | None = None, size: tuple[int, int] = (120, 40)
    ) -> None:
        clock = HandClock()

        def opening(
            tell: Callable[[str], None],
        ) -> AbstractAsyncContextManager[OpenConnection]:
            return at_own(far, own)

        async def run_async(app: FlytuiApp) -> None:
            async with app.run_test(size=size) as pilot:
                await until(pilot, lambda: app.state.catalog is not None)
                await script(app, pilot)
                app.exit()

        monkeypatch.setattr(FlytuiApp, "run_async", run_async)
        with anyio.fail_after(120):
            root = RootParts(title="~/shop", open_kernel=opening, open_attachment=far.joining)
            await run_console([root], ConsoleParts(clock=clock, now=lambda: NOW))

    return run


@asynccontextmanager
async def at_own(far: Far, own: World | None) -> AsyncIterator[OpenConnection]:
    if far.there or own is None:
        raise RootBusy(4121, NOW - 60, "console")
    async with own.opened() as at_kernel:
        yield at_kernel


def clock_of(app: FlytuiApp) -> HandClock:
    clock = app.state.clock
    assert isinstance(clock, HandClock)
    return clock


async def typed(pilot: Pilot[None], text: str) -> None:
    await press(pilot, *text, "enter")


async def pair(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
    await until(pilot, lambda: isinstance(app.focused, Input))
    await typed(pilot, CODE)
    await until(pilot, lambda: isinstance(app.screen, MainScreen))


def box(app: FlytuiApp) -> str:
    """The words of a small screen."""
    from flytui.console.widgets.lines import LineBar
    from flytui.text.lines import text_of

    return "\n".join(text_of(row) for bar in app.screen.query(LineBar) for row in bar._rows)


@pytest.mark.parametrize("written", ["K7QM4TXP", "k7qm-4txp", " k7qm 4txp ", "K7-QM-4T-XP"])
def test_a_code_counts_however_it_is_typed(written: str) -> None:
    assert normalise_code(written) == CODE
    assert normalise_code(grouped_code(CODE)) == CODE


@pytest.mark.parametrize("size", SIZES)
async def test_it_attaches_says_to_whom_and_asks_for_the_code(sit: Sit, size: tuple[int, int]) -> None:
    far = Far(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
        await until(pilot, lambda: "the console on pid 4121, since" in " ".join(box(app).split()))
        await until(pilot, lambda: far.door.asked == 1)
        assert far.door.presented == []
        await until(pilot, lambda: isinstance(app.focused, Input))
        await typed(pilot, "k7qm-4txp")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert far.door.presented == [CODE]
        assert app.state.no_decision_reason == ""
        assert "viewer" not in drawn(app, "#header")

    await sit(far, person, size=size)


async def test_a_wrong_code_says_how_many_tries_are_left_and_another_can_be_had(sit: Sit) -> None:
    far = Far(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.focused, Input))
        await typed(pilot, "short")
        await until(pilot, lambda: "this has 5" in box(app))
        assert far.door.presented == []
        await press(pilot, *["backspace"] * 5)
        await typed(pilot, "ABCDEFGH")
        await until(pilot, lambda: "2 tries left" in box(app))
        assert app.state.no_decision_reason
        await typed(pilot, "half")
        await press(pilot, "f2")
        await until(pilot, lambda: far.door.asked == 2 and app.screen.query_one(Input).value == "")
        await typed(pilot, CODE)
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert not app.state.no_decision_reason

    await sit(far, person)


async def test_a_kernel_that_shows_no_code_says_why(sit: Sit) -> None:
    far = Far(world(), Door(mute="too many codes were asked for"))

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
        await until(pilot, lambda: "too many codes" in box(app))

    await sit(far, person)


@pytest.mark.parametrize("size", SIZES)
async def test_a_viewer_sees_what_waits_and_decides_nothing(sit: Sit, size: tuple[int, int]) -> None:
    place = world(trust_value=trust_items(2))
    place.ask_for(request_of(risk=Risk.MEDIUM))
    far = Far(place)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        assert "viewer · cannot decide" in drawn(app, "#header")
        assert "1 waiting" in drawn(app, "#header")
        await press(pilot, "2")
        assert "computer.keyboard" in rows_drawn(app, "#ask-rows")
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        clock_of(app).advance(5)
        await press(pilot, "end")
        for key in "adtbbrlueh":
            clock_of(app).advance(1)
            await press(pilot, key)
            assert isinstance(app.screen, RequestScreen)
            assert "viewer · cannot decide" in drawn(app, "#card-keys")
        assert "approve once" not in drawn(app, "#card-keys")
        await press(pilot, "escape", "T")
        assert isinstance(app.screen, TrustScreen)
        clock_of(app).advance(5)
        await press(pilot, "end", "a")
        assert "viewer" in drawn(app, "#card-keys")
        await press(pilot, "escape", "1", "X")
        assert "viewer" in app.state.shared.notice
        await press(pilot, "P")
        assert isinstance(app.screen, EnterCodeScreen)

    await sit(far, person, size=size)
    assert (place.decided, place.trusted, place.switched, place.edited) == ([], [], [], [])


async def test_a_card_that_is_open_arms_anew_once_the_console_is_paired(sit: Sit) -> None:
    place = world()
    far = Far(place)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
        await press(pilot, "escape")
        place.ask_for(request_of(risk=Risk.MEDIUM))
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        clock_of(app).advance(5)
        assert app.state.attachment is not None
        app.state.attachment.paired = True
        await press(pilot, "a")
        assert place.decided == []
        clock_of(app).advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: len(place.decided) == 1)

    await sit(far, person)


async def test_P_on_a_viewers_card_leads_to_the_code(sit: Sit) -> None:
    place = world()
    place.ask_for(request_of(risk=Risk.MEDIUM))

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, EnterCodeScreen))
        await press(pilot, "escape", "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        await press(pilot, "P")
        await pair(app, pilot)

    await sit(Far(place), person)


async def test_a_kernel_that_goes_is_said_in_seconds_and_found_again(sit: Sit) -> None:
    place = world()
    place.ask_for(request_of(risk=Risk.MEDIUM))
    far = Far(place)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await pair(app, pilot)
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        far.there = False
        place.end()
        await until(pilot, lambda: "kernel gone 0 s" in drawn(app, "#header"))
        clock_of(app).advance(12)
        await until(pilot, lambda: "kernel gone 12 s" in drawn(app, "#header"))
        await press(pilot, "a")
        assert "the kernel is gone" in drawn(app, "#card-keys")
        far.there = True
        await until(pilot, lambda: far.came == 2)
        await until(pilot, lambda: "viewer · cannot decide" in drawn(app, "#header"))
        assert not isinstance(app.screen, RequestScreen)
        assert app.state.waiting
        clock_of(app).advance(5)
        await press(pilot, "P")
        await pair(app, pilot)
        assert app.state.no_decision_reason == ""

    await sit(far, person)
    assert place.decided == []


@pytest.mark.parametrize("size", SIZES)
async def test_after_thirty_seconds_the_root_is_taken_by_one_key_and_not_before(
    sit: Sit, size: tuple[int, int]
) -> None:
    far, own = Far(world()), world()
    own.ask_for(request_of("ticket"))

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await pair(app, pilot)
        await press(pilot, "O")
        assert "nothing to take" in app.state.shared.notice
        far.there = False
        far.place.end()
        await until(pilot, lambda: app.state.lost)
        assert " O opens one here" in drawn(app, "#alert")
        clock_of(app).advance(31)
        await until(pilot, lambda: "none came back" in drawn(app, "#alert"))
        assert own.attached == []
        await press(pilot, "O")
        await until(pilot, lambda: own.attached == ["attached"])
        await until(pilot, lambda: [ask.request.id for ask in app.state.waiting] == ["ticket"])
        assert app.state.attachment is None
        assert app.state.no_decision_reason == ""

    await sit(far, person, own=own, size=size)
    assert own.attached[-1] == "detached"


def test_the_seconds_that_are_left_end_at_nought() -> None:
    gone = LostConnection(OpenConnection(world(), world()), since=100.0)
    assert [
        gone.seconds_left(100.0),
        gone.seconds_left(129.5),
        gone.seconds_left(130.0),
        gone.seconds_left(200.0),
    ] == [30, 1, 0, 0]
    assert gone.seconds_since(112.9) == 12


async def test_a_holder_that_never_answers_is_an_error_with_its_name(
    sit: Sit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flytui.console.controllers.connection.PATIENCE_S", 0.0)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await anyio.sleep_forever()

    far = Far(world(), there=False)
    with pytest.raises(RootBusy):
        await sit(far, person)


async def test_leaving_another_kernel_asks_nothing(sit: Sit) -> None:
    place = world()
    place.ask_for(request_of())
    place.activity_value = ()

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await pair(app, pilot)
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "q")
        await until(pilot, lambda: not app.is_running)

    await sit(Far(place), person)
    assert place.decided == []


def ask_in(place: World, program: str = "flytui", pid: int = 555, until: float = NOW + 90) -> None:
    who = f"{program} (pid {pid}) in tmux (pid 8)"
    place.publish("console.pairing", code=CODE, program="tmux", pid=pid, who=who, expiresAt=until)


@pytest.mark.parametrize("size", SIZES)
async def test_the_code_is_shown_beside_what_the_person_does_and_opens_nothing(size: tuple[int, int]) -> None:
    place = world()
    async with console(place, HandClock(), size) as (app, pilot):
        await press(pilot, "slash", "c", "o")
        ask_in(place)
        await until(pilot, lambda: "K7QM-4TXP" in drawn(app, "#alert"))
        assert "1:30" in drawn(app, "#alert")
        if size[0] >= 100:
            assert "flytui (pid 555) in tmux" in drawn(app, "#alert")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "P", "d")
        assert app.screen.query_one("#filter", Input).value == "coPd"
        await press(pilot, "escape")
        place.ask_for(request_of())
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o")
        assert isinstance(app.screen, RequestScreen)
        ask_in(place, pid=556)
        await until(pilot, lambda: len(app.state.open_pairing_requests) == 2)
        assert isinstance(app.screen, RequestScreen)
        assert CODE[:4] not in drawn(app, "#card-keys")
        assert place.refused == []


async def test_d_on_its_screen_refuses_the_console_that_asks() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        ask_in(place, program="fly\x1b[2Jtui")
        await until(pilot, lambda: app.state.open_pairing_requests)
        assert "\x1b" not in drawn(app, "#alert")
        await press(pilot, "P")
        assert isinstance(app.screen, PairingRequestScreen)
        assert "pid 555" in box(app)
        assert "K7QM-4TXP" in box(app)
        await press(pilot, "d")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert place.refused == [555]
        assert app.state.open_pairing_requests == ()
        assert "K7QM" not in drawn(app, "#alert")


@pytest.mark.parametrize("after", ["console.attached", "console.left"])
async def test_the_code_goes_when_it_is_used_or_its_console_has_left(after: str) -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        ask_in(place)
        ask_in(place, pid=556)
        await until(pilot, lambda: len(app.state.open_pairing_requests) == 2)
        place.publish(after, program="flytui", pid=555)
        await until(pilot, lambda: [asking.pid for asking in app.state.open_pairing_requests] == [556])


async def test_a_code_that_is_over_is_not_drawn() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        ask_in(place)
        await until(pilot, lambda: "K7QM" in drawn(app, "#alert"))
        app.state.now = lambda: NOW + 91
        await until(pilot, lambda: "K7QM" not in drawn(app, "#alert"))
        await until(pilot, lambda: app.state.pairing_requests == ())


async def test_an_event_that_says_no_code_shows_nothing() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        place.publish("console.pairing", program="x", pid="7", who="x", code=3)
        ask_in(place, until=NOW - 1)
        place.publish("status.changed")
        await pilot.pause(0.2)
        assert app.state.open_pairing_requests == ()
        assert "code" not in drawn(app, "#alert")


async def test_an_answer_of_another_console_is_told_on_the_open_card_and_ends_its_keys() -> None:
    from msgspec import structs

    from flycore.model.approval import Answer
    from flycore.model.enums import Choice, RequestState

    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        place.ask_for(request_of(risk=Risk.MEDIUM))
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "ctrl+o")
        clock.advance(5)
        await press(pilot, "end")
        clock.advance(5)
        place.asks_value = tuple(
            structs.replace(
                ask,
                state=RequestState.APPROVED,
                answer=Answer(choice=Choice.APPROVE_ONCE),
                decided_by="the console on pid 77",
                decided_at=NOW,
            )
            for ask in place.asks_value
        )
        place.publish("approval.decided")
        await until(
            pilot, lambda: "answered by the console on pid 77: approved once" in drawn(app, "#card-keys")
        )
        await press(pilot, "a", "d")
        assert place.decided == []
        assert "approve once" not in drawn(app, "#card-keys")
