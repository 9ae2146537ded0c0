"""Fixes and switches in the console: seen first, done by one armed letter."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from textual import events
from textual.pilot import Pilot

from flycore.model.catalog import Catalog, SidecarView
from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import Discovery, Effective, ReasonCode
from flycore.model.stability import Reason, Stability
from flytui.console.app import FlytuiApp
from flytui.console.fix.fix_actions import quoted_command
from flytui.console.fix.terminal_programs import TerminalPrograms, edit_argv
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.screens.trust import TrustScreen
from kits.console import HandClock, console, drawn, press, until
from kits.fake_kernel import World
from kits.values import entry_of, tool_view, trust_items

pytestmark = pytest.mark.anyio
INSTALL = Fix(kind=FixKind.COMMAND, words="install xdotool", argv=("sudo", "apt-get", "install", "xdotool"))
NASTY = Fix(
    kind=FixKind.COMMAND, words="mend", argv=("chmod", "u+x", "--", "/srv/a b;rm\u202e\x1b[2J[/nope]")
)
EDIT = Fix(kind=FixKind.EDIT, words="correct it", file="tools/external.tools.jsonc", line=7)
ENABLE = Fix(kind=FixKind.ENABLE, words="switch it on")
PROBE = Fix(kind=FixKind.PROBE, words="ask again")
PERMIT = Fix(
    kind=FixKind.PERMIT,
    words="add it",
    file="tools/external.tools.jsonc",
    difference=('+ /permissions/fs/read/0: "a\u202eb"',),
    digest="d" * 64,
)
TRUST = Fix(kind=FixKind.TRUST, words="decide")


def with_fix(fix: Fix | None, enabled: bool = True, *, well: bool = False) -> World:
    """One sidecar whose only tool is not well for one reason, or for none."""
    reason = Reason(
        code=ReasonCode.DISABLED, dimension="discovery", message="m", remedy="run rm -rf /", fix=fix
    )
    stability = Stability(
        discovery=Discovery.DISABLED, effective=Effective.DISABLED, reasons=() if well else (reason,)
    )
    view = SidecarView(
        id="one.local",
        entry=entry_of("one.local", ("one.do",), enabled=enabled),
        trusted=True,
        stability=stability,
    )
    catalog = Catalog(
        version=1,
        app_root="/srv/shop",
        sidecars=(view,),
        capabilities=(tool_view("one.do", "one.local", stability),),
    )
    return World(catalog_value=catalog)


def bench_of(app: FlytuiApp, *editor: str) -> list[tuple[tuple[str, ...], bool]]:
    """Give the console a bench and a terminal to lend; what was run on it."""
    ran: list[tuple[tuple[str, ...], bool]] = []

    async def run(argv: tuple[str, ...], read: bool) -> int:
        ran.append((argv, read))
        return 3

    app.state.terminal_programs = TerminalPrograms(root="/srv/shop", home="/home/me", editor=editor, run=run)
    app.suspend = nullcontext  # type: ignore[method-assign]  # a test has no terminal
    return ran


async def shown(app: FlytuiApp, pilot: Pilot[None], key: str = "F") -> ConfirmActionScreen:
    """The screen that the key opens, painted."""
    await press(pilot, key)
    screen = app.screen
    assert isinstance(screen, ConfirmActionScreen)
    await until(pilot, lambda: screen._card.arming.shown_at is not None)
    return screen


async def test_a_command_is_shown_exactly_and_run_once_armed() -> None:
    clock, place = HandClock(), with_fix(INSTALL)
    async with console(place, clock) as (app, pilot):
        ran = bench_of(app)
        await shown(app, pilot)
        assert "sudo apt-get install xdotool" in drawn(app, "#card")
        await press(pilot, "a", "enter", "y")
        assert ran == []
        clock.advance(1)
        await press(pilot, "enter")
        clock.advance(1)
        app.screen.post_message(events.Paste("a"))
        await press(pilot, "space")
        assert isinstance(app.screen, ConfirmActionScreen)
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: place.probed)
        assert ran == [(INSTALL.argv, True)]
        assert isinstance(app.screen, MainScreen)
        assert "exit status 3" in app.state.shared.notice
        assert place.probed == ["one.local"]


async def test_hands_on_the_machine_keep_it_off() -> None:
    clock, place = HandClock(), with_fix(INSTALL)
    async with console(place, clock) as (app, pilot):
        ran = bench_of(app)
        await shown(app, pilot)
        clock.advance(2)
        app._on_hands(app.state, True)
        await press(pilot, "a")
        assert isinstance(app.screen, ConfirmActionScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        assert ran == []


async def test_nothing_in_an_argument_is_hidden_or_obeyed() -> None:
    async with console(with_fix(NASTY), HandClock()) as (app, pilot):
        bench_of(app)
        await shown(app, pilot)
        text = drawn(app, "#card")
        assert "'/srv/a b;rm⟦U+202E⟧" in text.replace("\n", "")
        assert "\x1b" not in text
        assert "[/nope]'" in text
        assert quoted_command(("a b", "c")) == "'a b' c"


async def test_an_edit_opens_the_persons_editor_at_the_line() -> None:
    clock, place = HandClock(), with_fix(EDIT)
    async with console(place, clock) as (app, pilot):
        ran = bench_of(app, "vim", "-f")
        await shown(app, pilot)
        assert "tools/external.tools.jsonc:7" in drawn(app, "#card")
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: ran)
        assert ran == [(("vim", "-f", "+7", "/srv/shop/tools/external.tools.jsonc"), False)]


@pytest.mark.parametrize(
    ("editor", "argv"),
    [
        (("nano",), ("nano", "+7", "/f")),
        (("/usr/bin/hx",), ("/usr/bin/hx", "/f:7")),
        (("code", "-n"), ("code", "-n", "--wait", "--goto", "/f:7")),
        (("my-editor",), ("my-editor", "/f")),
    ],
)
def test_editors_are_told_the_line_in_their_own_way(editor: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert edit_argv(editor, "/f", 7) == argv
    assert edit_argv(editor, "/f", 0) == (*editor, "/f")


async def test_without_a_terminal_the_command_can_only_be_copied() -> None:
    clock = HandClock()
    async with console(with_fix(INSTALL), clock) as (app, pilot):
        await shown(app, pilot)
        clock.advance(1)
        await press(pilot, "a")
        assert isinstance(app.screen, ConfirmActionScreen)
        await press(pilot, "y")
        assert app.clipboard == "sudo apt-get install xdotool"


async def test_without_an_editor_nothing_is_run() -> None:
    clock = HandClock()
    async with console(with_fix(EDIT), clock) as (app, pilot):
        ran = bench_of(app)
        await shown(app, pilot)
        clock.advance(1)
        await press(pilot, "a")
        assert isinstance(app.screen, ConfirmActionScreen)
        assert "EDITOR" in drawn(app, "#card")
        assert ran == []


async def test_what_is_off_is_switched_on_by_the_fix() -> None:
    clock, place = HandClock(), with_fix(ENABLE, enabled=False)
    async with console(place, clock) as (app, pilot):
        await shown(app, pilot)
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: place.switched and isinstance(app.screen, MainScreen))
        assert place.switched == [("one.local", True, "")]


async def test_a_permission_is_added_once_its_difference_was_shown() -> None:
    clock, place = HandClock(), with_fix(PERMIT)
    async with console(place, clock) as (app, pilot):
        await shown(app, pilot)
        text = drawn(app, "#card")
        assert '+ /permissions/fs/read/0: "a⟦U+202E⟧b"' in text
        assert "tools/external.tools.jsonc" in text
        await press(pilot, "a")
        assert place.permitted == []
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: place.permitted and isinstance(app.screen, MainScreen))
        assert place.permitted == [("one.local", "d" * 64)]


async def test_a_refusal_is_said_and_nothing_leaves_the_screen() -> None:
    clock, place = HandClock(), with_fix(ENABLE, enabled=False)
    place.refuse = "mend the file first"
    async with console(place, clock) as (app, pilot):
        await shown(app, pilot)
        clock.advance(1)
        await press(pilot, "a")
        await until(pilot, lambda: "mend the file first" in drawn(app, "#card-keys"))


async def test_trust_and_probe_go_where_they_are_done() -> None:
    place = with_fix(TRUST)
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "F")
        assert isinstance(app.screen, MainScreen)
        place.trust_value = trust_items(1)
        place.publish("trust.changed")
        await until(pilot, lambda: app.state.trust)
        if isinstance(app.screen, MainScreen):
            await press(pilot, "F")
        assert isinstance(app.screen, TrustScreen)
    asked = with_fix(PROBE)
    async with console(asked, HandClock()) as (app, pilot):
        await press(pilot, "F")
        await until(pilot, lambda: asked.probed == ["one.local"])


async def test_where_nothing_is_known_the_key_says_so() -> None:
    async with console(with_fix(None, well=True), HandClock()) as (app, pilot):
        await press(pilot, "F")
        assert isinstance(app.screen, MainScreen)
        assert app.state.shared.notice


async def test_what_no_key_does_is_said_in_the_words_of_the_remedy() -> None:
    async with console(with_fix(None), HandClock()) as (app, pilot):
        await press(pilot, "F")
        assert isinstance(app.screen, MainScreen)
        assert "run rm -rf /" in app.state.shared.notice


async def test_switching_off_wants_a_reason_and_on_none() -> None:
    place = with_fix(None)
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "E")
        assert "already" in app.state.shared.notice
        await press(pilot, "X")
        assert isinstance(app.screen, TextPromptScreen)
        await press(pilot, "enter")
        assert isinstance(app.screen, TextPromptScreen)
        await press(pilot, "n", "o", "enter")
        await until(pilot, lambda: place.switched)
        assert place.switched == [("one.local", False, "no")]
    off = with_fix(ENABLE, enabled=False)
    async with console(off, HandClock()) as (app, pilot):
        await press(pilot, "E", "escape")
        assert off.switched == []
        await press(pilot, "E", "enter")
        await until(pilot, lambda: off.switched)
        assert off.switched == [("one.local", True, "")]
