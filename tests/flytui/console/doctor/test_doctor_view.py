"""The screen Doctor in the running console."""

from __future__ import annotations

import json

import pytest

from flycore.model.diagnostics import Check, CheckState, Fix, FixKind
from flycore.model.errors import ConnectionLost
from flytui.console.doctor.doctor_view import check_rows
from flytui.console.doctor.terminal_checks import TerminalFacts
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.screens.armed import ArmedLines
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.header import SCREENS
from flytui.console.screens.main import MainScreen
from flytui.text.lines import text_of
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import world
from kits.tables import each_row

pytestmark = pytest.mark.anyio
EVIL = "\x1b[2J\u202e[/nope]"
CHECKS = (
    Check(name="python", state=CheckState.OK, message="3.11"),
    Check(name="registry", state=CheckState.FAIL, message=f"{EVIL} bad\nthe excerpt\n^", fix=f"mend {EVIL}"),
    Check(
        name="sidecar a",
        state=CheckState.WARN,
        message="changed",
        fix="flytui trust",
        difference=("+ /permissions/network: true",),
    ),
)


async def test_doctor_looks_when_it_is_shown_and_when_it_is_asked() -> None:
    place, clock = world(checks_value=CHECKS), HandClock()
    async with console(place, clock) as (app, pilot):
        assert place.looked == 0
        await press(pilot, "7")
        await until(pilot, lambda: "1 failed" in drawn(app, "#check-titles"))
        shown = rows_drawn(app, "#check-rows").splitlines()
        assert [row.split()[1] for row in shown] == ["fail", "warn", "ok"]
        assert "mend" in drawn(app, "#check-fix")
        assert "\x1b" not in drawn(app, "#check-fix")
        await press(pilot, "1")
        await press(pilot, "7")
        assert place.looked == 1
        place.checks_value = CHECKS[:1]
        await press(pilot, "R")
        await until(pilot, lambda: "all is well" in drawn(app, "#check-titles"))
        assert place.looked == 2


async def test_the_fix_follows_the_cursor_and_details_show_all() -> None:
    place, clock = world(checks_value=CHECKS), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "7")
        await until(pilot, lambda: "fail" in rows_drawn(app, "#check-rows"))
        await press(pilot, "down")
        await until(pilot, lambda: "flytui trust" in drawn(app, "#check-fix"))
        await press(pilot, "y")
        assert [check["name"] for check in json.loads(app.clipboard)] == [check.name for check in CHECKS]
        await press(pilot, "enter")
        await until(pilot, lambda: not isinstance(app.screen, MainScreen))
        await until(pilot, lambda: "/permissions/network" in drawn(app, "#page"))
        await press(pilot, "y")
        assert json.loads(app.clipboard)["name"] == "sidecar a"


async def test_the_terminal_is_looked_at_and_a_kernel_that_went_is_said() -> None:
    place, clock = world(checks_value=CHECKS), HandClock()
    async with console(place, clock, size=(80, 24)) as (app, pilot):
        app.state.find_terminal = lambda size: TerminalFacts(size, "ascii", {"TERM": "xterm-256color"}, None)
        await press(pilot, "7")
        await until(pilot, lambda: "ascii" in rows_drawn(app, "#check-rows"))

        async def gone() -> tuple[Check, ...]:
            raise ConnectionLost("the kernel went away")

        place.checks = gone  # type: ignore[method-assign]  # this one look fails
        await press(pilot, "R")
        await until(pilot, lambda: "not checked" in drawn(app, "#alert"))
        assert "ascii" in rows_drawn(app, "#check-rows")


@each_row("width", [200, 100, 80, 60, 30, 10])
def test_rows_fit_every_width(width: int) -> None:
    for row in check_rows(CHECKS):
        assert sum(len(part.text) for part in row.draw(width)) <= width


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_all_seven_screens_are_named_on_top(size: tuple[int, int]) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, size=size) as (app, pilot):
        for key, name in SCREENS:
            await press(pilot, key)
            await until(pilot, lambda name=name: name in drawn(app, "#header").splitlines()[1])
            tabs = drawn(app, "#header").splitlines()[1].split()
            assert [word for word in tabs if word in "1234567"] == list("1234567")


async def test_a_fix_is_shown_before_it_is_done() -> None:
    fix = Fix(kind=FixKind.COMMAND, words="let it pass", argv=("tmux", "set-option", "a b"))
    mendable = Check(
        name="clipboard", state=CheckState.WARN, message="off", fix="set it", remedy_fix=fix, sidecar=""
    )
    place, clock = world(checks_value=(mendable, CHECKS[0])), HandClock()
    ran: list[tuple[str, ...]] = []

    async def run(argv: tuple[str, ...], read: bool) -> int:
        ran.append(argv)
        return 0

    async with console(place, clock) as (app, pilot):
        app.state.terminal_programs = TerminalPrograms(root="/srv/shop", home="/h", editor=("vi",), run=run)
        await press(pilot, "7")
        await until(pilot, lambda: "warn" in rows_drawn(app, "#check-rows"))
        await press(pilot, "F")
        await until(
            pilot, lambda: isinstance(app.screen, ConfirmActionScreen) and app.screen.query(ArmedLines)
        )
        shown = "\n".join(text_of(row) for row in app.screen.query_one(ArmedLines).rows)
        assert "tmux set-option 'a b'" in shown
        await press(pilot, "enter")
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        await press(pilot, "down")
        await press(pilot, "F")
        await until(pilot, lambda: "no fix is known" in drawn(app, "#alert"))
        assert ran == []
