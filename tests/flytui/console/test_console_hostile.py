"""Suite S5 in the console: whatever text comes, no control is drawn, nothing crashes, nothing decides."""

from __future__ import annotations

import os
import unicodedata

import msgspec
import pytest
from rich.segment import Segment
from textual import events
from textual.app import App
from textual.color import Color
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from flycore.model.approval import MatchedRule
from flycore.model.call import Activity, Artifact, Picture
from flycore.model.catalog import SidecarView
from flycore.model.diagnostics import Check, CheckState, Diagnostic, Fix, FixKind, Position, Severity
from flycore.model.enums import Decision, Effective, ReasonCode
from flycore.model.question import TrustItem
from flycore.model.stability import Reason
from flycore.model.starter import StarterEntry, StarterOffer, StarterTool
from flytui.console.activity.call_screen import CallScreen
from flytui.console.activity.output_views import CallView
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.catalog.jump_screen import JumpScreen
from flytui.console.command_palette import Palette
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.forms.form_screen import FormScreen
from flytui.console.line_filters import ControlCharacterFilter, FilterChain
from flytui.console.screens.base import PageScreen
from flytui.console.screens.confirm_action import ConfirmActionScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.themes import theme_names
from flytui.console.user_settings import ConsoleSettings, check_settings
from flytui.console.widgets.virtual_list import VirtualList
from kits.console import HandClock, console, drawn, press, settle, until
from kits.fake_kernel import World, world
from kits.values import (
    CALLER,
    entry_of,
    failing,
    request_of,
    sample_activity,
    sample_catalog,
    stability_of,
    tool_view,
)

pytestmark = [pytest.mark.anyio, pytest.mark.suite, pytest.mark.long, pytest.mark.timeout(600)]

C0 = "\x1b]0;owned\x07\x1b]8;;http://x\x1b\\link\x1b[2J\x1b[31m\x1b[?1049h\x1b[?1000h\x1bP\x1b_\x1b^\x1bX\x08\r\x00\x7f\n\t"
C1 = "\x9b2J\x9d52;c;eA==\x9c\x90q\x9c\x9f\x9e\x98\x85"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
HIDDEN = "\u200b\u200c\u200d\u2060\u2028\u2029\ufeff\u00ad\u180e\u3164\u2800\ufe0f"
TAGS = "\U000e0041\U000e007f\U000e0100"
MARKS = "Z" + "\u0301" * 30 + "\ud800"
MARKUP = "[/nope] [bold]b[/] [@click=app.quit]x[/] [link=file:///etc]y[/] $var {0} %s"
RUNS = "ls" + " " * 500 + "rm -rf /"
HOST = "pаypal.com"
EACH = {
    "c0": C0,
    "c1": C1,
    "bidi": BIDI,
    "hidden": HIDDEN + TAGS,
    "marks": MARKS,
    "markup": MARKUP,
    "runs": RUNS,
    "host": HOST,
}
TOGETHER = {"controls": C0 + C1 + BIDI + HIDDEN + TAGS + MARKS, "words": MARKUP + HOST + RUNS}
PAYLOADS = EACH if os.environ.get("FLYTUI_SUITES") == "full" else TOGETHER


def assert_clean(app: FlytuiApp) -> None:
    """Every cell that would be written holds something that can be seen."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            assert segment.control is None
            for character in segment.text:
                kind = unicodedata.category(character)
                assert kind not in {"Cc", "Cf", "Cs", "Zl", "Zp"}, hex(ord(character))
                assert character not in HIDDEN, hex(ord(character))
            meta = segment.style.meta if segment.style else {}
            assert not any("click" in name for name in meta)
            assert not (segment.style and segment.style.link)


def hostile_world(text: str) -> World:
    """The payload in every place that text from outside can have."""
    tool, sidecar = f"evil.{text}", f"side{text}"
    fix = Fix(kind=FixKind.COMMAND, words=text, argv=(text, text))
    (reason,) = failing(ReasonCode.DELEGATE_MISSING, "path", text, text).reasons
    reason = msgspec.structs.replace(reason, fix=fix)
    reasons = failing(ReasonCode.DELEGATE_MISSING, "path", text, text, reasons=(reason,))
    seen = stability_of().evidence
    tail = msgspec.structs.replace(
        seen,
        probe=msgspec.structs.replace(seen.probe, stderr_tail=text),
        runtime=msgspec.structs.replace(seen.runtime, code=text, message=text, stderr_tail=text),
        version=msgspec.structs.replace(seen.version, installed_version=text),
    )
    well = stability_of(evidence=tail)
    view = tool_view(tool, sidecar, well)
    capability = msgspec.structs.replace(
        view.capability, description=text, summary=text, tags=(text,), input_schema={text: text}
    )
    position = Position(file=text, line=1, column=1)
    entry = entry_of(sidecar, (tool,), command=text, args=(text,), disabled_reason=text, position=position)
    entry = msgspec.structs.replace(
        entry, env={text: text}, raw={}, package_id=text, package_version=text, enabled=True
    )
    finding = Diagnostic(
        severity=Severity.ERROR,
        rule=text,
        message=text,
        remedy=text,
        position=position,
        sidecar=text,
        excerpt=text,
    )
    catalog = msgspec.structs.replace(
        sample_catalog(),
        capabilities=(
            msgspec.structs.replace(view, capability=capability, because=text),
            tool_view(f"bad.{text}", sidecar, reasons),
        ),
        sidecars=(SidecarView(id=sidecar, entry=entry, trusted=False, stability=well),),
        diagnostics=(finding,),
    )
    running, hashed, failed = sample_activity()
    caller = msgspec.structs.replace(CALLER, program=text, executable=text, claims=text)
    error = msgspec.structs.replace(
        failed.result.error, code=text, message=text, hint=text, details={text: text}
    )
    broken = msgspec.structs.replace(failed.result, error=error, stderr_tail=text, warnings=(text,))
    progress = msgspec.structs.replace(running.progress, message=text)
    made = msgspec.structs.replace(
        hashed.result,
        output={text: [{text: text, "more": text}, {text: text}]},
        artifacts=(Artifact(path=text, mime_type="image/png", bytes=9),),
        stderr_tail=text,
    )

    def call(of: Activity, **more: object) -> Activity:
        return msgspec.structs.replace(of, tool=tool, caller=caller, input_text=text, **more)

    return World(
        catalog_value=catalog,
        activity_value=(
            call(running, progress=progress),
            call(hashed, result=made),
            call(failed, result=broken),
        ),
        trust_value=(TrustItem(sidecar=sidecar, digest=text, changed=True, lines=(text, text)),),
        pictures={("c2", 0): Picture(width=2, height=2, rgb=bytes(12))},
        checks_value=(
            Check(
                name=text,
                state=CheckState.FAIL,
                message=text,
                fix=text,
                remedy_fix=fix,
                sidecar=sidecar,
                difference=(text, f"- {text}", f"+ {text}"),
            ),
        ),
    )


def hostile_own(text: str) -> ConsoleSettings:
    """The payload in every setting of the console, and keys that look like nothing or like markup."""
    keys = {text: text, f"catalog.{text}": "f5", "catalog.probe": text, "catalog.copy": text}
    unseen = {"catalog.ladder": "\u3164", "audit.fatigue": "\u0301", "audit.verify": "\ufe0f"}
    there = Position(file=text, line=1, column=1)
    places = {"/theme": there, "/keys/catalog.probe": there}
    return check_settings({**keys, **unseen, "catalog.group": "["}, text, theme_names(), places)


def hostile_bench(text: str) -> TerminalPrograms:
    """The payload in the starter registry and in the editor."""

    async def run(argv: tuple[str, ...], read: bool) -> int:
        raise AssertionError("nothing may be run")

    return TerminalPrograms(root=text, home=text, editor=(text,), run=run)


def hostile_request(text: str) -> object:
    """The payload in every field of a request."""
    plain = text.encode("utf-8", "backslashreplace").decode()
    return msgspec.structs.replace(
        request_of(input={"text": plain, plain: [plain]}),
        group=text,
        host=text,
        tool=f"evil.{text}",
        sidecar=text,
        effect=text,
        said=text,
        app_root=text,
        mechanism=text,
        difference=(text,),
        caller=msgspec.structs.replace(CALLER, program=text, claims=text),
        why=(MatchedRule(decision=Decision.ASK, because=text, where=text, tool=text),),
    )


async def walk(app: FlytuiApp, pilot: Pilot[None], keys: list[str]) -> None:
    """Press keys one by one; after each, what is on screen is clean."""
    for key in keys:
        await press(pilot, key)
        assert_clean(app)


async def over(app: FlytuiApp, pilot: Pilot[None], key: str, kind: type[object], keys: str = "end") -> None:
    """A key that opens a screen over the main one; there the keys, then back."""
    await walk(app, pilot, [key])
    assert isinstance(app.screen, kind), key
    await walk(app, pilot, [*keys.split(), "escape"])
    await until(pilot, lambda: isinstance(app.screen, MainScreen))


async def walk_catalog(app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> None:
    """Pages, jump list, fixes and palette of the Catalog."""
    app.state.terminal_programs = hostile_bench(app.state.title)
    await over(app, pilot, "w", PageScreen)
    await over(app, pilot, "D", PageScreen)
    await over(app, pilot, "colon", JumpScreen, "down e")
    await over(app, pilot, "X", TextPromptScreen, "x")
    await over(app, pilot, "t", FormScreen, "f3 f2")
    if not any(reason.fix for reason in reasons_here(app)):
        await walk(
            app, pilot, ["up" if app.screen.query_one("#catalog-rows", VirtualList).cursor else "down"]
        )
    await over(app, pilot, "F", ConfirmActionScreen, "end y")
    await walk(app, pilot, ["ctrl+p"])
    await until(pilot, lambda: isinstance(app.screen, Palette))
    await walk(app, pilot, ["G", "r"])
    await until(pilot, lambda: app.screen.query_one(OptionList).option_count > 0)
    assert_clean(app)
    await walk(app, pilot, ["[", "slash", "]", "escape"])
    await until(pilot, lambda: isinstance(app.screen, MainScreen))


def reasons_here(app: FlytuiApp) -> tuple[Reason, ...]:
    """Those of the row under the Catalog's cursor."""
    row = app.screen.query_one("#catalog", CatalogView).row
    return row.stability.reasons if row is not None else ()


async def walk_call(app: FlytuiApp, pilot: Pilot[None]) -> None:
    """Every way of looking at a call that has all of them, and its rows whole."""
    await walk(app, pilot, ["3", "home", "down", "enter"])
    page = app.screen
    assert isinstance(page, CallScreen)
    for view in CallView:
        await walk(app, pilot, [view.key, "end"])
        assert f"[{view.title}]" in drawn(app, "#call-views")
        if view in (CallView.TABLE, CallView.TREE):
            await walk(app, pilot, ["right", "enter", "end"])
            if app.screen is not page:
                await walk(app, pilot, ["escape"])
    await walk(app, pilot, ["escape"])


async def walk_lists(app: FlytuiApp, pilot: Pilot[None]) -> None:
    """Doctor, with its pages."""
    await walk(app, pilot, ["7"])
    await until(pilot, lambda: app.screen.query_one("#check-rows", VirtualList).row)
    await walk(app, pilot, ["end", "enter"])
    await walk(app, pilot, ["escape", "F", "escape", "y"])


async def walk_starter(app: FlytuiApp, pilot: Pilot[None], place: World, clock: HandClock, text: str) -> None:
    """A folder without a registry: what is offered there, and the refusal to write it."""
    empty = msgspec.structs.replace(place.catalog_value, version=9, sidecars=(), capabilities=())
    place.catalog_value = empty
    place.publish("catalog.changed")
    await until(pilot, lambda: app.state.catalog is empty)
    bad = StarterTool(name=text, state=Effective.UNAVAILABLE, reason=text, remedy=text, command=(text, text))
    entry = StarterEntry(id=text, text=f"{text}\n{text}", tools=(bad,))
    place.starter_value = StarterOffer(file=text, exists=False, entries=(entry,))
    await walk(app, pilot, ["1", "i"])
    await until(pilot, lambda: app.screen.query_one("#starter-rows", VirtualList).row)
    await walk(app, pilot, ["space", "space", "enter"])
    await until(pilot, lambda: isinstance(app.screen, ConfirmActionScreen))
    await walk(app, pilot, ["end"])
    screen = app.screen
    assert isinstance(screen, ConfirmActionScreen)
    await until(pilot, lambda: screen._card.arming.end_seen)
    clock.advance(2)
    await walk(app, pilot, ["a"])
    await until(pilot, lambda: place.started)
    await walk(app, pilot, ["end", "escape", "escape"])


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
async def test_no_screen_draws_a_payload(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last filter: what the screens draw is clean by itself."""
    monkeypatch.setattr(FlytuiApp, "get_line_filters", App.get_line_filters)
    place, clock = hostile_world(text), HandClock()
    async with console(place, clock, (120, 40), own=hostile_own(text), toasts=True) as (app, pilot):
        app.state.title = text
        await until(pilot, lambda: app.state.trust)
        await pilot.pause()
        assert_clean(app)
        clock.advance(5)
        await walk(app, pilot, ["end", "escape", "down", "enter", "end", "escape", "p", "escape", "R", "y"])
        await walk(app, pilot, ["3", "enter", "end", "escape", "end", "enter", "end", "escape", "home", "k"])
        await walk(app, pilot, ["escape", "1"])
        await walk_catalog(app, pilot, clock)
        await walk_call(app, pilot)
        await walk_lists(app, pilot)
        await walk(app, pilot, ["2"])
        app.notify(text, title=text)
        await until(pilot, lambda: app.screen.query("Toast"))
        await pilot.pause()
        assert_clean(app)
        clock.advance(5)
        place.ask_for(hostile_request(text))  # type: ignore[arg-type]  # made by request_of
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        await walk(app, pilot, ["end", "w", "escape", "r", "x", "escape"])
        await walk(app, pilot, ["l", "e", *["down"] * 3, "space", "end", "enter", "end", "escape", "escape"])
        await walk(app, pilot, ["u", "down", "right", *["down"] * 4, "space", "tab", "x", "enter", "end"])
        await walk(app, pilot, ["escape", "escape", "e", "down", "end", "f2", "escape", "b", "escape"])
        await walk(app, pilot, ["escape", "enter", "escape", "B", "end", "escape"])
        place.refuse = text
        await walk(app, pilot, ["ctrl+o", "d"])
        await pilot.pause()
        assert_clean(app)
        await walk(app, pilot, ["escape"])
        await walk_starter(app, pilot, place, clock, text)
    assert all(answer.choice.value == "deny" for _, _, answer in place.decided)


async def test_the_last_filter_stops_what_a_widget_let_through() -> None:
    dirty = [Segment(text) for text in (C0, C1, BIDI)]
    for segment in ControlCharacterFilter().apply(dirty, Color(0, 0, 0)):
        assert all(unicodedata.category(character) not in {"Cc", "Cf"} for character in segment.text)
    app_filters = [type(one) for one in (await _filters())]
    assert app_filters[-1] is ControlCharacterFilter


async def _filters() -> list[object]:
    async with console(world(), HandClock()) as (app, _):
        (chain,) = app.screen.query_one("#header").get_line_filters()
        assert isinstance(chain, FilterChain)
        return list(chain.filters)


async def test_pasted_control_text_in_an_input_stays_visible_text() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        for keys in (("slash",), ("escape", "colon"), ("escape", "3", "slash"), ("escape", "ctrl+p")):
            await press(pilot, *keys)
            box = app.screen.focused
            assert isinstance(box, Input)
            app.post_message(events.Paste(MARKUP + C0 + C1 + BIDI))
            await until(pilot, lambda box=box: MARKUP in box.value)
            await settle(pilot)
            assert_clean(app)
