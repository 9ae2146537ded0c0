"""The console is there before its kernel: what it shows, what its keys do, and how an opening fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from textual.pilot import Pilot

from flycore.model.errors import NotConnected, RootBusy
from flytui.console.app import FlytuiApp
from flytui.console.kernel_connection import OpenConnection, OpeningConnection, OpenKernel
from flytui.console.run import RootParts, run_console
from flytui.console.screens.trust import TrustScreen
from kits.console import at_once, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.values import request_of, trust_items

pytestmark = pytest.mark.anyio
Script = Callable[[FlytuiApp, Pilot[None]], Awaitable[None]]
APPROVING = ("a", "k", "y", "enter", "T", "a", "ctrl+o", "a", "i", "enter", "E", "l")


class Gate:
    """A kernel that opens when it is let, or fails to."""

    def __init__(self, place: World, fails: Exception | None = None) -> None:
        self.place = place
        self.fails = fails
        self.may = anyio.Event()
        self.tell: Callable[[str], None] = lambda _: None
        self.began = anyio.Event()
        self.ended = False

    @asynccontextmanager
    async def opening(self, tell: Callable[[str], None]) -> AsyncIterator[OpenConnection]:
        self.tell = tell
        self.began.set()
        try:
            await self.may.wait()
            if self.fails is not None:
                raise self.fails
            async with self.place.opened() as at_kernel:
                yield at_kernel
        finally:
            self.ended = True


@pytest.fixture
def sit(monkeypatch: pytest.MonkeyPatch) -> Callable[[OpenKernel, Script], Awaitable[None]]:
    """Runs the console on no terminal, with what a person does at it."""

    async def run(opening: OpenKernel, script: Script) -> None:
        async def run_async(app: FlytuiApp) -> None:
            async with app.run_test(size=(100, 30)) as pilot:
                await script(app, pilot)

        monkeypatch.setattr(FlytuiApp, "run_async", run_async)
        await run_console([RootParts(title="~/shop", open_kernel=opening)])

    return run


Sit = Callable[[OpenKernel, Script], Awaitable[None]]


async def test_it_is_drawn_and_walked_before_the_kernel_is_open(sit: Sit) -> None:
    gate = Gate(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        assert "starting…" in drawn(app, "#header")
        assert "reading the registry…" in drawn(app, "#notes")
        await press(pilot, "3")
        assert " 3 Activity " in drawn(app, "#header")
        await press(pilot, "1", "ctrl+c")
        assert "quits" in "".join(note.message for note in app._notifications)
        assert gate.place.attached == []
        gate.may.set()
        await until(pilot, lambda: app.state.catalog is not None)
        await until(pilot, lambda: "policy ok" in drawn(app, "#header"))
        await until(pilot, lambda: "● available" in rows_drawn(app, "#catalog-rows"))
        assert not gate.ended

    await sit(gate.opening, person)
    assert gate.place.attached == ["attached", "detached"]
    assert gate.ended


async def test_what_is_typed_too_early_approves_nothing(sit: Sit) -> None:
    place = world(trust_value=trust_items(2))
    place.ask_for(request_of())
    gate = Gate(place)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        await press(pilot, *APPROVING)
        assert app.state.connection == OpeningConnection()
        for role in ("client", "approver"):
            with pytest.raises(NotConnected, match="still being opened"):
                getattr(app.state, role)
        await press(pilot, "E")
        assert "still being opened" in app.state.shared.notice
        gate.may.set()
        await until(pilot, lambda: app.state.waiting and app.state.trust)
        assert not isinstance(app.screen, TrustScreen)

    await sit(gate.opening, person)
    assert (place.decided, place.trusted, place.started, place.switched) == ([], [], 0, [])


async def test_a_stop_is_carried_out_as_soon_as_there_is_something_to_stop(sit: Sit) -> None:
    gate = Gate(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        await press(pilot, "ctrl+x", "ctrl+x")
        await until(pilot, lambda: "stopping everything…" in drawn(app, "#header"))
        assert not gate.place.stopped
        gate.may.set()
        await until(pilot, lambda: gate.place.stopped)
        await until(pilot, lambda: "STOPPED" in drawn(app, "#header"))

    await sit(gate.opening, person)


async def test_the_checks_are_made_as_soon_as_there_is_a_kernel_to_check(sit: Sit) -> None:
    place = world()
    gate = Gate(place)

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        await press(pilot, "7")
        gate.may.set()
        await until(pilot, lambda: place.looked == 1 and "checked" in drawn(app, "#check-titles"))
        assert app.state.shared.notice == ""

    await sit(gate.opening, person)


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_quitting_ends_an_opening_that_still_runs(sit: Sit, key: str) -> None:
    gate = Gate(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        await press(pilot, key)
        await until(pilot, lambda: not app.is_running)

    with anyio.fail_after(60):
        await sit(gate.opening, person)
    assert gate.ended
    assert gate.place.attached == []


async def test_who_is_waited_for_is_said_until_the_kernel_opens(sit: Sit) -> None:
    gate = Gate(world())

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await gate.began.wait()
        gate.tell("flytui call, pid 77, since 10:02:03")
        await until(pilot, lambda: "waiting for flytui call, pid 77" in drawn(app, "#alert"))
        await until(pilot, lambda: "waiting until flytui call, pid 77" in drawn(app, "#notes"))
        gate.may.set()
        await until(pilot, lambda: app.state.catalog is not None)
        assert "waiting for flytui call" not in drawn(app, "#alert")

    await sit(gate.opening, person)


@pytest.mark.parametrize("error", [RootBusy(41, 0.0, "console"), OSError(13, "no way in")])
async def test_what_the_opening_raises_comes_as_itself(sit: Sit, error: Exception) -> None:
    gate = Gate(world(), fails=error)
    gate.may.set()

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await anyio.sleep_forever()

    with pytest.raises(type(error)) as raised, anyio.fail_after(60):
        await sit(gate.opening, person)
    assert raised.value is error
    assert gate.place.attached == []


async def test_the_person_has_left_when_the_terminal_went_away(sit: Sit) -> None:
    place = world()

    async def person(app: FlytuiApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.state.catalog is not None)
        raise OSError("the terminal went away")

    with pytest.raises(OSError, match="terminal"):
        await sit(at_once(place), person)
    assert place.attached == ["attached", "detached"]
