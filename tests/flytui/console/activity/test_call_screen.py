"""A call's own page: the view that suits what it gave, trees, tables, texts, pictures, large outputs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import AuditReader
from flycore.model.approval import Ask
from flycore.model.call import Activity, Artifact, CallDecision, CallError, Picture, Progress, ToolResult
from flycore.model.enums import Code, Level, Phase, RequestState, Status
from flycore.model.json import Json
from flytui.console.activity.call_lines import call_json, matching_calls, remaining
from flytui.console.activity.call_screen import CallScreen
from flytui.console.activity.output_views import (
    GROUP_SIZE,
    CallView,
    LazyLines,
    first_view,
    parent_of,
    table_of,
    text_paragraphs,
    tree_of,
    views_of,
    with_toggled,
)
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.screens.base import PageScreen
from flytui.console.widgets.lines import LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.labels import result_span
from flytui.text.lines import Tone, text_of, width_of
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.tables import each_row
from kits.values import CALLER, NOW, request_of

pytestmark = pytest.mark.anyio

ROWS: Json = [{"name": "alpha", "size": 10}, {"name": "beta", "size": 2_000, "more": True}]
PROSE = "first line\nsecond line\n\tindented"
IMAGE = Artifact(path="/srv/shop/made.png", mime_type="image/png", bytes=1_234)
SECOND = msgspec.structs.replace(IMAGE, path="/srv/shop/two.png")
NO_IMAGE = Artifact(path="a.txt", mime_type="text/plain", bytes=1)


def ended(output: Json = None, **more: object) -> Activity:
    """A call that gave this."""
    status = Status.FAILED if "error" in more else Status.SUCCESS
    result = ToolResult(
        status=status,
        tool="some.tool",
        sidecar="some",
        call_id="c9",
        output=output,
        duration_ms=40,
        exit_code=0,
        sandbox=Level.NONE,
        **more,  # type: ignore[arg-type]  # fields by name
    )
    return Activity(
        call_id="c9",
        tool="some.tool",
        sidecar="some",
        caller=CALLER,
        phase=Phase.FINISHED,
        started_at=NOW - 5,
        input_text='{"q":1}',
        result=result,
    )


def running(progress: Progress | None = None, **more: object) -> Activity:
    """A call under way since ten seconds."""
    fields: dict[str, object] = {"phase": Phase.RUNNING, "running_since": NOW - 10, "result": None}
    return msgspec.structs.replace(ended(), **{**fields, "progress": progress, **more})


def at(done: float | None, total: float | None) -> Progress:
    return Progress(call_id="c9", phase=Phase.RUNNING, progress=done, total=total, message="a page")


@each_row(
    ("call", "view"),
    [
        (running(), CallView.CALL),
        (ended(None, error=CallError(code="exit", message="no")), CallView.CALL),
        (ended({"digest": "ab", "bytes": 3}), CallView.CALL),
        (ended({"rows": ROWS, "next": None}), CallView.TABLE),
        (ended(ROWS), CallView.TABLE),
        (ended({"text": PROSE * 5, "lang": "en"}), CallView.TEXT),
        (ended({"list": [{"deep": [1, 2]}] * 40}), CallView.TREE),
        (ended({"path": "made.png"}, artifacts=(IMAGE,)), CallView.PICTURE),
        (
            ended({"path": "a.pdf"}, artifacts=(Artifact(path="a.pdf", mime_type="text/plain", bytes=1),)),
            CallView.CALL,
        ),
    ],
)
def test_the_first_view_suits_the_output(call: Activity, view: CallView) -> None:
    assert first_view(call) is view
    assert view in views_of(call)


def test_a_table_is_only_made_of_flat_objects() -> None:
    assert table_of(ROWS) == ROWS
    for output in (
        [],
        [1, 2],
        [{}],
        [{"a": [1]}],
        {"one": ROWS, "two": ROWS},
        {"artifacts": ROWS},
        "text",
        None,
    ):
        assert table_of(output) == []


def test_a_tree_opens_closes_and_knows_what_is_above() -> None:
    rows = tree_of({"a": {"b/c": [1, 2]}, "d": "text"})
    assert [row.key for row in rows] == ["#", "#/a", "#/a/b~1c", "#/d"]
    opened = with_toggled(rows, 2)
    assert [row.key for row in opened][2:5] == ["#/a/b~1c", "#/a/b~1c/0", "#/a/b~1c/1"]
    assert parent_of(opened, 4) == 2
    assert [row.key for row in with_toggled(opened, 1)] == ["#", "#/a", "#/d"]
    assert with_toggled(rows, 3) == rows


def test_many_children_stand_in_groups_that_hold_each_of_them_once() -> None:
    count = GROUP_SIZE * GROUP_SIZE + 7
    rows = tree_of(list(range(count)))
    rows = rows if len(rows) > 1 else with_toggled(rows, 0)
    assert len(rows) <= GROUP_SIZE + 3
    groups = [at for at, row in enumerate(rows) if row.group is not None]
    last = with_toggled(rows, groups[-1])
    assert last[-1].key == f"#/{count - 1}"
    assert len({row.key for row in last}) == len(last)


def test_long_text_keeps_every_character_and_every_break() -> None:
    text = "x" * 250 + "\n\n" + "漢" * 30 + "\nend\u202e"
    flowed = LazyLines(text_paragraphs([("", text)]), 41)
    assert all(width_of(row) <= 41 for row in flowed)
    joined = "".join(text_of(row)[1:] for row in flowed)
    assert joined == "x" * 250 + "漢" * 30 + "end⟦U+202E⟧"
    assert text_of(flowed[-1]) == text_of(flowed[len(flowed) - 1])
    assert len(LazyLines([], 40)) == 0


def test_a_megabyte_of_lines_is_flowed_without_making_them() -> None:
    flowed = LazyLines([("y" * 70, Tone.PLAIN)] * 200_000, 80)
    assert len(flowed) == 200_000
    assert text_of(flowed[199_999]) == " " + "y" * 70


def test_what_remains_is_said_only_where_it_follows() -> None:
    assert remaining(running(at(25, 100)), NOW) == pytest.approx(30)
    for progress in (None, at(None, 100), at(0, 100), at(5, None), at(5, 0), at(7, 5)):
        assert remaining(running(progress), NOW) is None
    assert remaining(ended(1), NOW) is None


def test_a_filter_looks_at_state_tool_caller_and_error() -> None:
    failed = ended(None, error=CallError(code="timeout", message="too slow"))
    calls = [running(tool="web.search"), failed]
    for words, kept in (
        ("running", calls[:1]),
        ("CLAUDE failed", calls[1:]),
        ("timeout", calls[1:]),
        ("!failed", calls[:1]),
        ("web !claude", []),
        ("!", calls),
        ("caller:claude", calls),
        ("!caller:claude", []),
        ("caller:timeout", []),
        ("tool:web", calls[:1]),
        ("tool:", calls),
        ("today", calls),
        ("caller:claude today", calls),
        ("yesterday", []),
        ("!today", []),
        ("fetches", calls[1:]),
    ):

        def effect(call: Activity) -> str:
            return "fetches it" if call is failed else ""

        assert matching_calls(calls, words, NOW, effect) == kept, words


def place_with(*calls: Activity, **more: object) -> World:
    return world(activity_value=calls, **more)


def page(app: FlytuiApp) -> str:
    return drawn(app, "#page")


async def test_keys_go_through_the_views_and_the_tree() -> None:
    output: Json = {"rows": ROWS, "note": PROSE, "deep": {"leaf": 1}}
    async with console(place_with(ended(output)), HandClock(), (120, 30)) as (app, pilot):
        await press(pilot, "3", "enter")
        assert isinstance(app.screen, CallScreen)
        assert "alpha" in rows_drawn(app, "#call-tree")
        assert "name" in drawn(app, "#call-columns")
        await press(pilot, "down", "enter")
        assert '"size": 2000' in page(app)
        await press(pilot, "escape", "x")
        assert "\n second line" in page(app)
        await press(pilot, "t", "home", "left")
        tree = app.screen.query_one("#call-tree", VirtualList)
        assert tree.row_count == 1
        await press(pilot, "right", "end", "right", "right")
        assert "leaf" in rows_drawn(app, "#call-tree")
        await press(pilot, "left", "left")
        assert "leaf" not in rows_drawn(app, "#call-tree")
        await press(pilot, "tab")
        assert '"q": 1' in page(app)
        await press(pilot, "s", "p")
        assert '"q": 1' in page(app)
        await press(pilot, "c")
        assert "claude" in page(app)
        await press(pilot, "y")
        assert json.loads(app.clipboard)["callId"] == "c9"


async def test_o_opens_the_file_of_a_picture_in_the_viewer_and_no_other_file(tmp_path: Path) -> None:
    good, link, starter = tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.desktop"
    good.write_bytes(b"x")
    link.symlink_to(good)
    starter.write_text("[Desktop Entry]")
    files = (good, link, starter, tmp_path / "gone.png")
    images = tuple(Artifact(path=str(file), mime_type="image/png", bytes=1) for file in files)
    red = Picture(width=4, height=2, rgb=bytes((255, 0, 0)) * 8)
    shown = {("c9", at): red for at in range(len(images))}
    opened: list[str] = []

    async def view(path: str) -> int:
        opened.append(path)
        return 3

    async def run(argv: tuple[str, ...], read: bool) -> int:
        raise AssertionError("the terminal is not lent")

    call = ended({"path": "a.png"}, artifacts=images)
    async with console(place_with(call, pictures=shown), HandClock(), (120, 30)) as (app, pilot):
        await press(pilot, "3", "enter", "o")
        assert "no viewer here" in drawn(app, "#keys")
        programs = TerminalPrograms(root="/", home="/", editor=(), run=run, view=view)
        app.state.terminal_programs = programs
        await press(pilot, "o")
        await until(pilot, lambda: "the viewer ended with exit status 3" in drawn(app, "#keys"))
        assert opened == [str(good)]
        for words in ("no regular file", "only files that end with", "cannot be read"):
            await press(pilot, "right", "o")
            await until(pilot, lambda words=words: words in drawn(app, "#keys"))
        await press(pilot, "c", "o")
        assert opened == [str(good)]


async def test_the_file_of_a_picture_that_cannot_be_decoded_is_not_opened(tmp_path: Path) -> None:
    async def fail(*_: object) -> int:
        raise AssertionError("nothing is opened")

    call = ended({"path": "a.png"}, artifacts=(IMAGE,))
    async with console(place_with(call), HandClock(), (120, 30)) as (app, pilot):
        app.state.terminal_programs = TerminalPrograms(root="/", home="/", editor=(), run=fail, view=fail)
        await press(pilot, "3", "enter", "o")
        assert "not opened: the picture cannot be shown" in drawn(app, "#keys")


async def test_a_picture_is_seen_and_one_that_is_gone_is_said() -> None:
    call = ended({"path": "made.png"}, artifacts=(IMAGE, SECOND))
    red = Picture(width=4, height=2, rgb=bytes((255, 0, 0)) * 8)
    async with console(place_with(call, pictures={("c9", 0): red}), HandClock(), (80, 24)) as (app, pilot):
        await press(pilot, "3", "enter")
        lines = app.screen.query_one("#page", LineView)
        await until(pilot, lambda: len(lines.rows) > 1 and "reading" not in text_of(lines.rows[1]))
        assert "1 of 2" in text_of(lines.rows[0])
        drawn_in = [part for row in lines.rows for part in row if part.ink is not None]
        assert drawn_in or "▀" not in page(app)
        await press(pilot, "right")
        await until(pilot, lambda: "cannot be shown" in page(app))


async def test_the_page_of_a_running_call_follows_it_to_its_end() -> None:
    place = place_with(running(at(25, 100)))
    async with console(place, HandClock(), (120, 30)) as (app, pilot):
        await press(pilot, "3", "enter")
        assert "25%" in drawn(app, "#call-state")
        place.activity_value = (running(at(75, 100)),)
        place.publish("call.progress")
        await until(pilot, lambda: "75%" in drawn(app, "#call-state"))
        place.activity_value = (ended(ROWS),)
        place.publish("call.finished")
        await until(pilot, lambda: "beta" in rows_drawn(app, "#call-tree"))
        assert "success" in drawn(app, "#call-state")


async def test_the_filter_is_typed_kept_and_cleared() -> None:
    calls = (running(call_id="c1", tool="web.search"), ended({"a": 1}))
    async with console(place_with(*calls), HandClock(), (100, 24)) as (app, pilot):
        await press(pilot, "3", "slash", *"kqy", "backspace", "backspace", "backspace", *"web", "enter")
        assert "some.tool" not in rows_drawn(app, "#call-rows")
        assert "1 of 2" in drawn(app, "#call-titles")
        await press(pilot, "escape", "slash", *"nothing has this", "enter")
        assert "No call matches" in drawn(app, "#calls-empty")
        await press(pilot, "escape")
        assert "some.tool" in rows_drawn(app, "#call-rows")


async def test_a_large_output_opens_and_turns_through_all_views() -> None:
    output = {
        "lines": "\n".join(f"line {number}" for number in range(60_000)),
        "numbers": list(range(40_000)),
    }
    call = ended(output, stderr_tail="x" * 4_000)
    assert len(call_json(call)) > 1_000_000
    async with console(place_with(call), HandClock(), (80, 24)) as (app, pilot):
        await press(pilot, "3", "enter", "end")
        assert "line 59999" in page(app)
        for _ in views_of(call):
            await press(pilot, "tab", "end", "pageup")
        assert isinstance(app.screen, CallScreen)


def on_page(app: FlytuiApp) -> bool:
    """Whether a page over the call's own is on top, with its lines."""
    return type(app.screen) is PageScreen and bool(app.screen.query("#page"))


async def test_a_call_leads_to_its_card_its_log_lines_and_its_files(tmp_path: Path) -> None:
    log = AuditLog.open(tmp_path / "audit", tmp_path / "anchors", clock=time.time, monotonic=time.monotonic)
    log.append("TOOL_CALLED", {"callId": "c1", "tool": "file.hash", "caller": "claude (pid 7) via mcp"})
    log.append("TOOL_CALLED", {"callId": "other", "tool": "web.search", "caller": "x"})
    log.append("TOOL_EXECUTED", {"callId": "c1", "tool": "file.hash", "status": "success"})
    made = Artifact(path="/srv/out.zip", mime_type="application/zip", bytes=1_234)
    decision = CallDecision(outcome=RequestState.APPROVED, by="the console on pid 1", took_ms=2_100)
    call = msgspec.structs.replace(
        ended({"ok": True}, artifacts=(made,)), call_id="c1", decision=decision, authority="request r1"
    )
    reader = AuditReader(tmp_path / "audit", tmp_path / "anchors")
    place = place_with(call)
    async with console(place, HandClock(), (120, 40), reader) as (app, pilot):
        await press(pilot, "3", "enter")
        await until(pilot, lambda: isinstance(app.screen, CallScreen))
        await press(pilot, "c")
        assert "you approved 2.1s · by the console on pid 1 · request r1" in page(app)
        await press(pilot, "f")
        await until(pilot, lambda: "/srv/out.zip" in page(app) and "1,234 bytes" in page(app))
        await press(pilot, "q", "g")
        await until(pilot, lambda: on_page(app) and "TOOL_EXECUTED" in page(app))
        assert "web.search" not in page(app)
        await press(pilot, "q", "d")
        # Its card is gone: what the log has of the decision is shown in its place.
        await until(pilot, lambda: on_page(app) and "TOOL_CALLED" in page(app))
        await press(pilot, "q")
        request = msgspec.structs.replace(request_of("r1"), call_id="c1")
        app.state.asks = (Ask(request=request, state=RequestState.APPROVED),)
        await press(pilot, "d")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    log.close()


@pytest.mark.parametrize(
    ("code", "label"), [(Code.QUEUE_FULL, "◌ turned away"), (Code.DENIED, "⊘ denied"), (None, "⊘ denied")]
)
def test_a_call_that_found_the_queue_full_is_not_called_denied(code: Code | None, label: str) -> None:
    error = CallError(code=code, message="why") if code is not None else None
    result = ToolResult(status=Status.DENIED, tool="t", sidecar=None, call_id="c", error=error)
    assert result_span(result).text == label
