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

from consolekit import (
    CALLER,
    HandClock,
    World,
    console,
    entry_of,
    failing,
    press,
    request_of,
    sample_activity,
    sample_catalog,
    stability_of,
    tool_view,
    until,
    world,
)
from flycore.model.approval import MatchedRule
from flycore.model.call import Activity
from flycore.model.catalog import SidecarView
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision, ReasonCode
from flycore.model.trust import TrustItem
from flytui.console.app import FlytuiApp
from flytui.console.approvals.card import CardScreen
from flytui.console.guard import VisibleOnly

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

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
TOGETHER = {"controls": C0 + C1 + BIDI + HIDDEN + TAGS + MARKS, "markup": MARKUP, "looks": HOST + RUNS}
PAYLOADS = EACH if os.environ.get("FLYTUI_SUITES") == "full" else TOGETHER


def assert_clean(app: FlytuiApp) -> None:
    """Every cell that would be written holds something that can be seen."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            assert segment.control is None
            for character in segment.text:
                kind = unicodedata.category(character)
                assert kind not in {"Cc", "Cf", "Cs", "Zl", "Zp"}, hex(ord(character))
            meta = segment.style.meta if segment.style else {}
            assert not any("click" in name for name in meta)
            assert not (segment.style and segment.style.link)


def hostile_world(text: str) -> World:
    """The payload in every place that text from outside can have."""
    tool, sidecar = f"evil.{text}", f"side{text}"
    reasons = failing(ReasonCode.DELEGATE_MISSING, "path", text, text)
    seen = stability_of().evidence
    tail = msgspec.structs.replace(
        seen,
        probe=msgspec.structs.replace(seen.probe, stderr_tail=text),
        runtime=msgspec.structs.replace(seen.runtime, code=text, message=text, stderr_tail=text),
    )
    well = stability_of(evidence=tail)
    view = tool_view(tool, sidecar, well)
    capability = msgspec.structs.replace(
        view.capability, description=text, summary=text, tags=(text,), input_schema={text: text}
    )
    position = Position(file=text, line=1, column=1)
    entry = entry_of(sidecar, (tool,), command=text, args=(text,), disabled_reason=text, position=position)
    entry = msgspec.structs.replace(entry, env={text: text}, raw={})
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
            msgspec.structs.replace(view, capability=capability),
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

    def call(of: Activity, **more: object) -> Activity:
        return msgspec.structs.replace(of, tool=tool, caller=caller, input_text=text, **more)

    return World(
        catalog_value=catalog,
        activity_value=(call(running, progress=progress), call(hashed), call(failed, result=broken)),
        trust_value=(TrustItem(sidecar=sidecar, digest=text, changed=True, lines=(text, text)),),
    )


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


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
async def test_no_screen_draws_a_payload(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last filter: what the screens draw is clean by itself."""
    monkeypatch.setattr(FlytuiApp, "get_line_filters", App.get_line_filters)
    place, clock = hostile_world(text), HandClock()
    async with console(place, clock, (120, 40)) as (app, pilot):
        app.desk.title = text
        await until(pilot, lambda: app.desk.trust)
        await pilot.pause()
        assert_clean(app)
        clock.advance(5)
        await walk(app, pilot, ["end", "escape", "down", "enter", "end", "escape", "p", "escape", "R", "y"])
        await walk(app, pilot, ["3", "enter", "end", "escape", "end", "enter", "end", "escape", "home", "k"])
        await walk(app, pilot, ["escape", "2"])
        app.notify(text, title=text)
        clock.advance(5)
        place.ask_for(hostile_request(text))  # type: ignore[arg-type]  # made by request_of
        await until(pilot, lambda: isinstance(app.screen, CardScreen))
        await walk(app, pilot, ["end", "w", "escape", "r", "x", "escape"])
        await walk(app, pilot, ["l", *["down"] * 3, "space", "end", "enter", "end", "escape", "escape"])
        await walk(app, pilot, ["u", "down", "right", *["down"] * 4, "space", "tab", "x", "enter", "end"])
        await walk(app, pilot, ["escape", "escape", "e", "down", "end", "f2", "escape", "b", "escape"])
        await walk(app, pilot, ["escape", "enter", "escape", "B", "end", "escape"])
        place.refuse = text
        await walk(app, pilot, ["ctrl+o", "d"])
        await pilot.pause()
        assert_clean(app)
    assert all(answer.choice.value == "deny" for _, _, answer in place.decided)


async def test_the_last_filter_stops_what_a_widget_let_through() -> None:
    dirty = [Segment(text) for text in (C0, C1, BIDI)]
    for segment in VisibleOnly().apply(dirty, Color(0, 0, 0)):
        assert all(unicodedata.category(character) not in {"Cc", "Cf"} for character in segment.text)
    app_filters = [type(one) for one in (await _filters())]
    assert app_filters[-1] is VisibleOnly


async def _filters() -> list[object]:
    async with console(world(), HandClock()) as (app, _):
        return list(app.screen.query_one("#header").get_line_filters())


async def test_pasted_control_text_in_an_input_stays_visible_text() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await pilot.press("slash")
        app.post_message(events.Paste(C0 + C1 + BIDI))
        await pilot.pause()
        assert_clean(app)
