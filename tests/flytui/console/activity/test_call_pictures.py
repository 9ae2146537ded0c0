"""How it looks: every screen once, at a fixed size and a time that stands still.

`pytest --snapshot-update` takes them anew after a change that is meant.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import AuditReader
from flycore.model.approval import Lease, Preview, StandingRule
from flycore.model.call import Activity, Artifact, Picture, ToolResult
from flycore.model.diagnostics import Check, CheckState
from flycore.model.enums import Level, Phase, Risk, Status
from flycore.model.json import JsonObject
from flycore.model.question import Block
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.forms.form_screen import FormScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.widgets.virtual_list import VirtualList
from kits.console import HandClock, app_of, press, settle, until
from kits.fake_kernel import World, world
from kits.values import (
    CALLER,
    NOW,
    request_of,
    sample_activity,
    sample_catalog,
    stability_of,
    tool_view,
    trust_items,
)

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures do not depend on the terminal that takes them."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("COLORTERM", "truecolor")


def fetched(app: FlytuiApp) -> Callable[[], bool]:
    """Whether the first values are there."""
    return lambda: app.state.catalog is not None and app.state.status is not None


def test_catalog_with_its_ladder(snap_compare: Compare) -> None:
    app = app_of(world())

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        await press(pilot, "down", "s")
        await settle(pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=look)


def test_card_of_a_high_risk_call(snap_compare: Compare) -> None:
    place, clock = world(), HandClock()
    app = app_of(place, clock)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        place.ask_for(request_of("r1"), request_of("r2", risk=Risk.LOW, letter=""))
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.end_seen)
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
        await until(pilot, lambda: bool(app.state.activity))
        await press(pilot, "3")
        await settle(pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=look)


def test_trust_question(snap_compare: Compare) -> None:
    place, clock = world(trust_value=trust_items(3)), HandClock()
    app = app_of(place, clock)

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(app.screen, TrustScreen) and app.screen._card.arming.end_seen)
        clock.advance(5)
        app.screen._tick()  # type: ignore[attr-defined]  # the question's own half-second, taken now
        await settle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)


WIDE, SMALL = (120, 40), (80, 24)
Step = str | Callable[[Pilot[None]], Awaitable[None]]


def see(compare: Compare, app: FlytuiApp, size: tuple[int, int], *steps: Step) -> bool:
    """The picture after those keys and other doings, no cursor blinking."""

    async def look(pilot: Pilot[None]) -> None:
        await until(pilot, fetched(app))
        for step in steps:
            await (press(pilot, step) if isinstance(step, str) else step(pilot))
        for field in app.screen.query("Input, TextArea").results(Input | TextArea):
            field.cursor_blink = False
        await settle(pilot)

    return compare(app, terminal_size=size, run_before=look)


def waits(holds: Callable[[], object]) -> Step:
    """A step: until that holds."""
    return lambda pilot: until(pilot, lambda: bool(holds()))


def plasma(width: int, height: int) -> Picture:
    """A picture whose place and orientation can be told."""
    rgb = bytes(
        part
        for y in range(height)
        for x in range(width)
        for part in (255 * x // width, 255 * y // height, 80 if (x - y) % 16 else 255)
    )
    return Picture(width=width, height=height, rgb=rgb)


def test_a_filter_with_a_key_there_is_not(snap_compare: Compare) -> None:
    typed = ("slash", *"state:unav color:red")
    assert see(snap_compare, app_of(world()), SMALL, *("space" if key == " " else key for key in typed))


def test_details_of_a_tool(snap_compare: Compare) -> None:
    assert see(snap_compare, app_of(world()), SMALL, "down", "enter")


def test_a_project_without_a_registry(snap_compare: Compare) -> None:
    whole = sample_catalog()
    missing = tuple(view for view in whole.capabilities if view.sidecar is None)
    bare = msgspec.structs.replace(whole, sidecars=(), diagnostics=(), capabilities=missing)
    assert see(snap_compare, app_of(World(catalog_value=bare)), SMALL)


def test_a_card_with_the_place_it_clicks(snap_compare: Compare) -> None:
    place, clock = world(), HandClock()
    app = app_of(place, clock)
    made = request_of(tool="computer.mouse", input={"action": "click", "x": 812, "y": 440})
    preview = Preview(window_id="7", title="Checkout", pid=70)
    made = msgspec.structs.replace(
        made,
        subject=msgspec.structs.replace(made.subject, preview=preview),
        crop=plasma(96, 48),
        cross=(48, 24),
    )

    async def asked(pilot: Pilot[None]) -> None:
        place.ask_for(made)
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.end_seen)
        clock.advance(5)
        app.screen._tick()  # type: ignore[attr-defined]  # the card's own half-second, taken now

    assert see(snap_compare, app, WIDE, asked)


def test_the_form_of_a_lease(snap_compare: Compare) -> None:
    place, clock = world(), HandClock()
    app = app_of(place, clock)

    async def asked(pilot: Pilot[None]) -> None:
        place.ask_for(request_of())
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.end_seen)
        clock.advance(5)

    assert see(snap_compare, app, SMALL, asked, "l", "e", "down")


FIELDS: JsonObject = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "minLength": 2, "description": "what to read"},
        "lines": {"type": "integer", "minimum": 1, "default": 10},
        "mode": {"enum": ["text", "bytes"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def test_a_form_with_a_violation_beside_its_field(snap_compare: Compare) -> None:
    view = tool_view("mock.echo", "mock.echo", stability_of())
    capability = msgspec.structs.replace(view.capability, input_schema=FIELDS)
    view = msgspec.structs.replace(view, capability=capability)
    app = app_of(World(catalog_value=msgspec.structs.replace(sample_catalog(), capabilities=(view,))))
    opened = waits(lambda: isinstance(app.screen, FormScreen) and app.focused is not None)
    assert see(snap_compare, app, WIDE, "t", opened, "a", "f5")


def finished(**more: object) -> Activity:
    """A call that is over."""
    result = ToolResult(
        status=Status.SUCCESS,
        tool="screen.screenshot",
        sidecar="computer.native",
        call_id="c9",
        duration_ms=40,
        exit_code=0,
        sandbox=Level.NONE,
        **more,  # type: ignore[arg-type]  # fields by name
    )
    return Activity(
        call_id="c9",
        tool=result.tool,
        sidecar=result.sidecar,
        caller=CALLER,
        phase=Phase.FINISHED,
        started_at=NOW - 5,
        input_text="{}",
        result=result,
    )


def test_a_picture_that_a_call_made(snap_compare: Compare) -> None:
    image = Artifact(path="/srv/shop/shot.png", mime_type="image/png", bytes=1_234)
    made = finished(output={"path": image.path}, artifacts=(image,))
    app = app_of(world(activity_value=(made,), pictures={("c9", 0): plasma(160, 80)}))
    shown = waits(lambda: "▀" in screen_text(app))
    assert see(snap_compare, app, SMALL, waits(lambda: app.state.activity), "3", "enter", shown)


def test_an_output_as_a_tree(snap_compare: Compare) -> None:
    output = {"rows": [{"name": "alpha", "size": 1}, {"name": "beta", "deep": [1, 2]}], "next": None}
    app = app_of(world(activity_value=(finished(output=output),)))
    keys = ("3", "enter", "t", "down", "right")
    assert see(snap_compare, app, SMALL, waits(lambda: app.state.activity), *keys)


def screen_text(app: FlytuiApp) -> str:
    """All that the screen draws."""
    return "".join(strip.text for strip in app.screen._compositor.render_strips())


def test_what_stands(snap_compare: Compare) -> None:
    held = Lease(
        id="l1",
        caller=CALLER,
        tool="computer.mouse",
        scope_digest="d",
        from_request="r17",
        calls_left=7,
        expires_at=NOW + 250,
        created_at=NOW - 50,
        used=3,
        last_used=NOW - 12,
    )
    rule = StandingRule(
        where="~/.config/flytui/policy.jsonc:7",
        digest="ab" * 32,
        tool="web.search",
        decision="allow",
        because="looks things up",
        from_request="r9",
        used=4,
        last_used=NOW - 5,
    )
    block = Block(tool="browser.evaluate", since=NOW - 7200, reason="no scripts")
    place = world(leases_value=(held,), rules_value=(rule,), blocks_value=(block,))
    app = app_of(place)
    assert see(snap_compare, app, WIDE, waits(lambda: app.state.leases and app.state.rules), "4")


def test_the_log(snap_compare: Compare, tmp_path: Path) -> None:
    folder, anchors = tmp_path / "audit", tmp_path / "anchors.jsonl"
    log = AuditLog.open(folder, anchors, clock=lambda: NOW, monotonic=lambda: 1.0)
    for number in range(3):
        log.append("TOOL_CALLED", {"callId": f"c{number}", "tool": "file.hash", "caller": "claude"})
        log.append("TOOL_EXECUTED", {"callId": f"c{number}", "tool": "file.hash", "status": "success"})
    app = app_of(world(), ledger=AuditReader(folder, anchors))
    read = waits(
        lambda: app.query_one("#audit-rows", VirtualList).row_count == 6 and "whole" in screen_text(app)
    )
    assert see(snap_compare, app, SMALL, "5", read)
    log.close()


def test_doctor(snap_compare: Compare) -> None:
    checks = (
        Check(name="python", state=CheckState.OK, message="3.13.1"),
        Check(
            name="registry",
            state=CheckState.FAIL,
            message="tools/external.tools.jsonc:52:7 timeoutMs must be a number",
            fix="write a number of milliseconds",
        ),
        Check(
            name="sidecar computer.native",
            state=CheckState.WARN,
            message="degraded: probe-slow: it answered in 1.9s",
            fix="R asks it again",
            sidecar="computer.native",
        ),
        Check(name="policy", state=CheckState.OK, message="loaded"),
    )
    app = app_of(world(checks_value=checks))
    assert see(snap_compare, app, WIDE, "7", waits(lambda: "milliseconds" in screen_text(app)))


def test_help(snap_compare: Compare) -> None:
    assert see(snap_compare, app_of(world()), SMALL, "question_mark")
