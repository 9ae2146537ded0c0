"""The Packages screen: what is listed and reviewed, and what each armed key does."""

from __future__ import annotations

import msgspec
import pytest
from textual.pilot import Pilot

from flycore.model.enums import PackageAction, PackageScope, UpgradeState
from flycore.model.package import PackageCheck
from flytui.console.app import FlytuiApp
from flytui.console.approvals.question_screen import QuestionScreen
from flytui.console.kernel_connection import LostConnection, OpenConnection
from flytui.console.screens.base import PageScreen
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.text_prompt import TextPromptScreen
from kits.console import HandClock, console, frame, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.screens import BROKEN, PACKAGES, REVIEW, packages_world

pytestmark = pytest.mark.anyio
HOSTILE = "\x1b[2Jx[/nope]‮​"
PROJECT = PackageScope.PROJECT
SIZE = (180, 60)


def seen(app: FlytuiApp) -> str:
    """The text on the screen."""
    return "\n".join(frame(app))


async def armed(app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> ConfirmActionScreen:
    """Let the screen that shows a change arm, after it was read to its end."""
    screen = app.screen
    assert isinstance(screen, ConfirmActionScreen)
    await until(pilot, lambda: screen._card.arming.shown_at is not None)
    await press(pilot, "end")
    await until(pilot, lambda: screen._card.arming.end_seen)
    clock.advance(5)
    return screen


async def test_every_package_is_listed_with_state_versions_and_what_is_to_be_done() -> None:
    async with console(packages_world(), HandClock(), SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6")
        text = rows_drawn(app, "#package-rows")
    for words in (
        "○ rollback-required greet",
        "b goes back to 1.0.0: it does not answer its probe (probe-unavailable)",
        "± staged            search-web",
        "a applies 2.0.0: permissions or risks change, enter shows how",
        "● idle              notes                    user    0.3.0",
        "○ failed            voice",
        "x removes it: you keep it disabled",
    ):
        assert words in text, words


async def test_without_a_package_the_screen_says_how_to_stage_one() -> None:
    async with console(world(), HandClock(), (100, 30)) as (app, pilot):
        await press(pilot, "6")
        assert "No package is installed or staged." in seen(app)
        assert "flytui packages stage PATH" in seen(app)


async def test_the_details_hold_the_whole_review_with_what_is_unusual_marked() -> None:
    async with console(packages_world(), HandClock(), SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", "down", "enter")
        assert isinstance(app.screen, PageScreen)
        text = seen(app)
    for words in (
        "1.4.0 → 2.0.0",
        REVIEW.source,
        REVIEW.command,
        '! + /permissions/network/hosts/1: "tracker.example.net"',
        '- /permissions/fs/read/0: "notes"',
        "! search-web.post: new, high risk",
        "+ tool     search-web.post",
        "- tool     ! search-web.cached",
        "! the package states no checksum",
        '+ /packageVersion: "2.0.0"',
        REVIEW.checksum,
        REVIEW.digest,
    ):
        assert words in text, words


async def test_a_version_is_applied_by_an_armed_key_and_as_it_was_shown() -> None:
    clock, place = HandClock(), packages_world(package_note="it does not answer its probe")
    async with console(place, clock, (90, 24)) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", "down", "a", "a", "a")
        assert not place.package_changes
        text = seen(app)
        assert "permissions or risks change: a person has to agree" in text
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: not isinstance(app.screen, ConfirmActionScreen))
        assert "search-web is applied: it does not answer its probe" in seen(app)
    assert place.package_changes == [(PackageAction.APPLY, "search-web", PROJECT, REVIEW.digest)]


@pytest.mark.parametrize(
    ("key", "action", "package", "steps", "says"),
    [
        ("b", PackageAction.ROLLBACK, "greet", (), "2.0.0 → 1.0.0"),
        ("x", PackageAction.REMOVE, "greet", (), "2.0.0 → not installed"),
        ("x", PackageAction.REMOVE, "search-web", ("down",), "! 2.0.0, which goes as well"),
    ],
)
async def test_going_back_and_removing_show_what_they_do(
    key: str, action: PackageAction, package: str, steps: tuple[str, ...], says: str
) -> None:
    clock, place = HandClock(), packages_world()
    async with console(place, clock, SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", *steps, key)
        assert says in seen(app)
        await armed(app, pilot, clock)
        await press(pilot, "escape")
        assert not place.package_changes
        await press(pilot, key)
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: place.package_changes)
    assert place.package_changes == [(action, package, PROJECT, "")]


async def test_what_changed_meanwhile_is_not_done() -> None:
    clock, place = HandClock(), packages_world()
    async with console(place, clock, SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", "b")
        await armed(app, pilot, clock)
        other = msgspec.structs.replace(PACKAGES[0], previous="0.9.0")
        place.packages_value = (other, *PACKAGES[1:])
        place.publish("package.changed")
        await until(pilot, lambda: app.state.packages[0] == other)
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: "has changed since it was shown" in seen(app))
    assert not place.package_changes


async def test_what_is_staged_is_discarded_by_an_armed_key() -> None:
    clock, place = HandClock(), packages_world()
    async with console(place, clock, SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", "d")
        assert "nothing of greet is staged" in seen(app)
        await press(pilot, "down", "d")
        assert "1.4.0 stays installed" in seen(app)
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: place.discarded)
    assert place.discarded == [("search-web", PROJECT)]


@pytest.mark.parametrize(
    ("key", "written", "source", "scope"),
    [
        ("s", "dist/a  b.zip", "/srv/shop/dist/a  b.zip", PROJECT),
        ("S", "/opt/x.tar.gz", "/opt/x.tar.gz", PackageScope.USER),
    ],
)
async def test_a_path_is_written_and_staged(key: str, written: str, source: str, scope: PackageScope) -> None:
    place = packages_world()
    async with console(place, HandClock(), SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.status)
        await press(pilot, "6", key)
        assert isinstance(app.screen, TextPromptScreen)
        await press(pilot, "enter")
        assert "write a path" in seen(app)
        await press(pilot, *written, "enter")
        await until(pilot, lambda: place.staged)
        await until(pilot, lambda: "staged 1.1.0" in seen(app))
        place.refuse = "a link leads out of it"
        await press(pilot, key, "x", "enter")
        await until(pilot, lambda: "not staged: a link leads out of it" in seen(app))
    assert place.staged[0] == (source, scope)


async def test_the_files_are_verified() -> None:
    checks = (
        PackageCheck(id="greet", scope=PROJECT, version="2.0.0", problems=("its files are not those",)),
        PackageCheck(id="notes", scope=PackageScope.USER, version="0.3.0", checksum="ab" * 32),
    )
    async with console(packages_world(package_checks=checks), HandClock(), SIZE) as (app, pilot):
        await press(pilot, "6", "v")
        await until(pilot, lambda: isinstance(app.screen, PageScreen))
        text = seen(app)
    assert "✗ differs  greet 2.0.0 (project)" in text
    assert "its files are not those" in text
    assert "✓ whole    notes 0.3.0 (user)" in text


async def test_a_key_that_cannot_work_says_why() -> None:
    place = packages_world()
    async with console(place, HandClock(), SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        await press(pilot, "6", "a")
        assert "greet: nothing is staged" in seen(app)
        await press(pilot, "down", "down", "b")
        assert "notes: there is no version to go back to" in seen(app)
        kept = app.state.connection
        assert isinstance(kept, OpenConnection)
        app.state.connection = LostConnection(kept, app.state.clock())
        for key in ("s", "a", "x", "d"):
            await press(pilot, key)
            assert "nothing can be decided" in seen(app)
        applying = msgspec.structs.replace(PACKAGES[0], state=UpgradeState.APPLYING)
        app.state.connection = kept
        place.packages_value = (applying,)
        place.publish("package.changed")
        await until(pilot, lambda: app.state.packages == (applying,))
        await press(pilot, "b")
        assert "greet: a change is under way" in seen(app)
    assert not place.package_changes


async def test_one_armed_key_goes_back_where_a_version_does_not_answer() -> None:
    clock, place = HandClock(), packages_world(questions_value=(BROKEN,))
    async with console(place, clock, SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.questions)
        if not isinstance(app.screen, QuestionScreen):
            await press(pilot, "ctrl+o")
        text = seen(app)
        assert "r roll back to 1.0.0 (recommended)" in text
        assert "e reinstall 2.0.0: take its files again" in text
        assert "k keep it disabled" in text
        await press(pilot, "r", "a", "enter")
        assert not place.answered
        screen = app.screen
        assert isinstance(screen, QuestionScreen)
        await until(pilot, lambda: screen._card.arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "r")
        await until(pilot, lambda: place.answered)
    assert place.answered == [(BROKEN.id, "rollback", "")]


async def test_hostile_metadata_is_drawn_as_text() -> None:
    review = msgspec.structs.replace(
        REVIEW,
        source=HOSTILE,
        command=HOSTILE,
        permissions=(f"+ {HOSTILE}",),
        risk=(HOSTILE,),
        tools_added=(HOSTILE,),
        tools_removed=(HOSTILE,),
        difference=(f"+ {HOSTILE}",),
        notes=(HOSTILE,),
    )
    hostile = msgspec.structs.replace(
        PACKAGES[1], id=HOSTILE, sidecar=HOSTILE, staged=HOSTILE, why=HOSTILE, review=review
    )
    place = World(catalog_value=world().catalog_value, packages_value=(hostile,))
    async with console(place, HandClock(), SIZE) as (app, pilot):
        await until(pilot, lambda: app.state.packages)
        for keys in (("6",), ("enter",), ("escape", "a"), ("escape", "b"), ("escape", "d")):
            await press(pilot, *keys)
            text = seen(app)
            assert "⟦U+202E⟧" in text
            assert not {"\x1b", "‮", "​"} & set(text)
