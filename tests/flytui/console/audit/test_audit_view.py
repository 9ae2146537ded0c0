"""The Audit screen over a real log: it shows what is there, follows it, says whether it is whole."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import MAX_LINES, AuditReader
from flytui.console.app import FlytuiApp
from flytui.console.audit.audit_rows import AuditRows, LineBuffer, RowPlaces, how_text, matching_places
from flytui.console.audit.audit_view import AuditView
from flytui.console.controllers.terminal_title import notice_text
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.record_filter import parse_record_filter
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import world
from kits.values import NOW, request_of

pytestmark = pytest.mark.anyio
HOSTILE = "\x1b]0;owned\x07\u202e[/nope][bold]"


class Site:
    """A log with its one writer."""

    def __init__(self, base: Path) -> None:
        self.folder, self.anchors = base / "audit", base / "anchors.jsonl"
        self.log = AuditLog.open(self.folder, self.anchors, clock=time.time, monotonic=time.monotonic)
        self.ledger = AuditReader(self.folder, self.anchors)

    def call(self, tool: str, status: str = "success", **more: object) -> None:
        fields = {"callId": f"c-{tool}", "tool": tool, "caller": "claude (pid 7) via socket", **more}
        self.log.append("TOOL_EXECUTED", {**fields, "status": status})

    @property
    def file(self) -> Path:
        return sorted(self.folder.glob("*.jsonl"))[-1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    if not made.log.stopped:
        made.log.close()


@asynccontextmanager
async def audit(
    site: Site, count: int, size: tuple[int, int] = (120, 30)
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    """The screen, open, with `count` lines read and the log checked."""
    async with console(world(), HandClock(), size, site.ledger) as (app, pilot):
        await press(pilot, "5")
        await until(pilot, lambda: app.query_one("#audit-rows", VirtualList).row_count == count)
        await until(pilot, lambda: "checked" not in drawn(app, "#audit-state").partition(" · ")[2][:14])
        yield app, pilot


async def test_lines_stand_newest_last_and_the_log_grows_before_the_eyes(site: Site) -> None:
    for number in range(40):
        site.call(f"tool.{number}")
    async with audit(site, 40) as (app, pilot):
        rows = app.query_one("#audit-rows", VirtualList)
        assert rows.cursor == 39
        assert "40 lines, newest last · ● whole" in drawn(app, "#audit-state")
        site.call("tool.new", "denied", code="denied")
        app.state.client.publish("call.finished")  # type: ignore[attr-defined]  # the test's own world
        await until(pilot, lambda: rows.row_count == 41)
        assert rows.cursor == 40
        assert "tool.new" in rows_drawn(app, "#audit-rows").splitlines()[-1]
        await press(pilot, "up")
        site.call("tool.newer")
        app.state.client.publish("call.finished")  # type: ignore[attr-defined]  # the test's own world
        await until(pilot, lambda: rows.row_count == 42)
        assert rows.cursor == 39


async def test_words_choose_lines_and_escape_shows_all_again(site: Site) -> None:
    site.call("web.search")
    site.call("web.fetch", "failed", message="q7f")
    site.call("file.hash", "failed")
    async with audit(site, 3) as (app, pilot):
        rows = app.query_one("#audit-rows", VirtualList)
        await press(pilot, "slash", *"web FAILED", "enter")
        await until(pilot, lambda: rows.row_count == 1)
        assert "web.fetch" in rows_drawn(app, "#audit-rows")
        site.call("web.fetch", "failed")
        app.state.client.publish("call.finished")  # type: ignore[attr-defined]  # the test's own world
        await until(pilot, lambda: rows.row_count == 2)
        await press(pilot, "escape")
        await until(pilot, lambda: rows.row_count == 4)


async def test_a_search_that_is_over_before_it_began_leaves_nothing_behind(site: Site) -> None:
    site.call("tool.one")
    async with audit(site, 1) as (app, pilot):
        view = app.query_one(AuditView)
        for _ in range(3):
            view.apply_filter()
        await pilot.pause()
        # A coroutine that nobody awaited is warned of when it is collected, and that fails the test.
        gc.collect()


async def test_letters_in_the_filter_are_text_and_do_nothing_else(site: Site) -> None:
    site.call("web.search")
    async with audit(site, 1) as (app, pilot):
        await press(pilot, "slash", *"fvyq5")
        assert app.query_one("#audit-filter").value == "fvyq5"  # type: ignore[attr-defined]  # an Input
        assert len(app.screen_stack) == 1
        await until(pilot, lambda: "Nothing matches" in drawn(app, "#audit-empty"))


async def test_enter_shows_every_field_and_hostile_text_as_tokens(site: Site) -> None:
    site.call("web.search", message=HOSTILE, input={"deep": {"x": HOSTILE}})
    async with audit(site, 1) as (app, pilot):
        assert "\x1b" not in rows_drawn(app, "#audit-rows")
        await press(pilot, "enter")
        await until(pilot, lambda: len(app.screen_stack) == 2 and "hash" in drawn(app, "#page"))
        page = drawn(app, "#page")
        [line] = [json.loads(text) for text in site.file.read_text().splitlines()]
        assert all(f" {name}" in page for name in line)
        assert line["hash"] in page
        assert "⟦ESC⟧" in page or "⟦U+001B⟧" in page
        assert not {"\x1b", "\x07", "\u202e"} & set(page)


async def test_a_changed_line_a_cut_and_a_torn_end_are_named_with_what_to_do(site: Site) -> None:
    for number in range(5):
        site.call(f"tool.{number}")
    site.log.close()
    whole = site.file.read_bytes()
    lines = whole.splitlines(keepends=True)
    damaged = [
        (whole.replace(b"tool.2", b"tool.X"), "BROKEN at number 3", "find out who wrote to it"),
        (b"".join(lines[:-2]), "CUT against the anchors at number 4", "missing at its end"),
        (whole + b'{"seq":6', "torn tail at number 6", "sets the torn end aside"),
        (whole, "● whole", ""),
    ]
    async with audit(site, 5) as (app, pilot):
        for content, words, fix in damaged:
            site.file.write_bytes(content)
            await press(pilot, "v")
            await until(pilot, lambda words=words: words in drawn(app, "#audit-state"))
            assert fix in drawn(app, "#audit-state").replace("\n   ", " ")


async def test_the_fatigue_report_says_how_much_is_asked(site: Site) -> None:
    for number in range(4):
        call = {
            "callId": f"c{number}",
            "requestId": f"r{number}",
            "tool": "web.fetch",
            "caller": "claude (pid 7) via socket",
            "callerKey": "socket:/usr/bin/claude:7:1",
        }
        site.log.append("APPROVAL_ASKED", call)
        decided = {"decision": "approved", "choice": "approve-once", "tookMs": 400, "decidedBy": "console"}
        ended = decided if number else {"decision": "timed-out", "tookMs": 600_000}
        site.log.append("APPROVAL_DECIDED", {**call, **ended})
    async with audit(site, 8) as (app, pilot):
        await press(pilot, "f")
        await until(pilot, lambda: app.screen.query("#page") and "web.fetch" in drawn(app, "#page"))
        page = drawn(app, "#page")
    for words in ("asked              4", "3, 100% of them", "1: asked while nobody was there", "web.fetch"):
        assert words in page
    assert "nobody can read a card in a second" in page


def test_a_hundred_thousand_lines_are_rows_that_are_made_when_looked_at() -> None:
    shelf = LineBuffer()
    raw = b'{"seq":%d,"event":"TOOL_EXECUTED","tool":"web.search","prev":"needle","hash":"needle"}'
    shelf.add([raw % number for number in range(MAX_LINES)])
    shelf.add([raw.replace(b"search", b"needle") % MAX_LINES])
    assert (len(shelf.lines), shelf.dropped) == (MAX_LINES, 1)
    for words in ("NEEDLE", "!search", "tool:needle"):
        assert matching_places(shelf.lines, parse_record_filter(words, NOW), 0, MAX_LINES) == [MAX_LINES - 1]
    places = RowPlaces()
    places.add(MAX_LINES, shelf.lines[-1])
    rows = AuditRows(shelf, places, None, lambda: NOW)
    assert rows[0].key == str(MAX_LINES + 1)
    places.drop_before(MAX_LINES + 1)
    assert (len(rows), places.count) == (0, 0)


async def test_changes_of_states_in_a_row_share_one_that_opens_all_of_them(site: Site) -> None:
    for version in range(1, 4):
        site.log.append("SNAPSHOT_CHANGED", {"version": version, "changed": 1})
    site.call("web.search")
    site.log.append("SNAPSHOT_CHANGED", {"version": 4, "changed": 1})
    async with audit(site, 3) as (app, pilot):
        assert "5 lines" in drawn(app, "#audit-state")
        first, second, third = rows_drawn(app, "#audit-rows").splitlines()
        assert "×3" in first
        assert "web.search" in second
        assert "×" not in third
        await press(pilot, "home", "enter")
        await until(pilot, lambda: len(app.screen_stack) == 2 and "version" in drawn(app, "#page"))
        page = [row.split() for row in drawn(app, "#page").splitlines()]
        assert [row[1] for row in page if row[:1] == ["version"]] == ["3", "2", "1"]


async def test_a_line_of_a_call_says_what_who_asked_and_how_it_went(site: Site) -> None:
    call = {"callId": "c1", "tool": "file.hash", "caller": "claude (pid 7) via mcp"}
    site.log.append("TOOL_CALLED", {**call, "input": {"path": "README.md"}})
    site.log.append("APPROVAL_DECIDED", {**call, "decision": "approved", "tookMs": 2_100})
    site.log.append("TOOL_STARTED", {**call, "authority": "lease l-1"})
    site.log.append("TOOL_EXECUTED", {**call, "status": "success", "durationMs": 445})
    site.log.append("TOOL_EXECUTED", {**call, "status": "failed", "code": "crashed", "message": "signal 11"})
    async with audit(site, 5) as (app, _):
        rows = rows_drawn(app, "#audit-rows").splitlines()
    assert all("file.hash" in row and "do it" in row for row in rows)
    assert all("claude via mcp" in row for row in rows)
    for row, how in zip(rows[1:4], ("you approved 2.1s", "lease", "success 445ms"), strict=True):
        assert how in row
    assert "file.hash crashed: signal 11" in rows[4]


async def test_the_filter_takes_a_caller_and_a_day(site: Site) -> None:
    site.call("web.search")
    site.call("web.fetch", caller="aider (pid 9) via socket")
    site.log.append("CONSOLE_OPENED", {"caller": "tmux (pid 1) via console", "beneath": ["claude 7"]})
    async with audit(site, 3) as (app, pilot):
        app.state.now = time.time
        rows = app.query_one("#audit-rows", VirtualList)
        for words, count in (("caller:claude today", 1), ("!caller:claude today", 2), ("yesterday", 0)):
            await press(pilot, "slash", *words, "enter")
            await until(pilot, lambda count=count: rows.row_count == count)
            await press(pilot, "escape")
            await until(pilot, lambda: rows.row_count == 3)


def test_how_takes_no_value_of_another_kind() -> None:
    assert how_text({"event": "APPROVAL_DECIDED", "decision": "approved", "tookMs": "soon"})
    assert how_text({"event": "APPROVAL_DECIDED", "decision": 7}) == ""
    assert how_text({"event": "TOOL_EXECUTED", "status": [1], "durationMs": None}) == "[1] 0ms"


async def test_who_waits_is_counted_on_every_screen(site: Site) -> None:
    async with audit(site, 0) as (app, pilot):
        app.state.shared.last_key = app.state.clock()
        app.state.client.ask_for(request_of())  # type: ignore[attr-defined]  # the test's own world
        for key in "12345":
            await press(pilot, key)
            await until(pilot, lambda: "2 Approvals ●1" in drawn(app, "#header"))
            assert "1 waiting" in drawn(app, "#header")
    assert notice_text(app.shared).startswith("flytui: 1 waiting, high: ")


async def test_what_is_too_much_is_left_out_and_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flycore.client.audit_reader.MAX_LINES", 10)
    for number in range(25):
        site.call(f"tool.{number}")
    async with audit(site, 10) as (app, _):
        assert "10 lines, newest last, 15 older ones not shown" in drawn(app, "#audit-state")
        assert "tool.15" in rows_drawn(app, "#audit-rows").splitlines()[0]


async def test_an_empty_log_says_what_will_be_there(site: Site) -> None:
    async with audit(site, 0) as (app, pilot):
        await until(pilot, lambda: "no line yet" in drawn(app, "#audit-empty"))
