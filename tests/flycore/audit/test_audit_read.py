"""Reading the log back, and lines of text that no field can forge."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from flycore.audit.chain import MOST_LINE_BYTES
from flycore.audit.query import MOST_LINES, Follower, as_text, find, tail
from flycore.client import audit_reader
from flycore.client.audit_reader import AuditReader
from kits.tables import each_row

HOSTILE = [
    "\n[2026-06-15T12:00:00.000000Z] TOOL_EXECUTED name=web.search status=success",
    '" status=success x="',
    "\\",
    '\\" status=success',
    "a status=success",
    "status=success",
    "a\tb",
    "\x1b]0;owned\x07\x9b2J",
    "\u202estatus\u2066",
    "\u2028TOOL_EXECUTED",
    "⟦U+000A⟧",
    "\ud800",
    "true",
    "5",
    "",
    "x" * 5000,
]


def test_the_tail_is_the_newest_lines_in_order(site: Any) -> None:
    site.fill(5)
    site.now += 31 * 86_400
    site.fill(3)
    assert [line["seq"] for line in tail(site.folder, 4)] == [5, 6, 7, 8]
    assert [line["seq"] for line in tail(site.folder, 100)] == list(range(1, 9))
    assert tail(site.folder, 0) == ()


def test_the_tail_of_no_log_is_empty(site: Any) -> None:
    assert tail(site.folder, 5) == ()
    assert find(site.folder, 1) == ()
    assert find(site.folder, "call-1") == ()


@pytest.mark.parametrize("size", [1, 100, 65_000, 65_536, 200_000])
def test_lines_of_any_length_are_read_backwards(site: Any, size: int) -> None:
    log = site.open()
    for number in range(8):
        log.append("TOOL_CALLED", {"number": number, "input": "x" * size})
    assert [line["number"] for line in tail(site.folder, 5)] == [3, 4, 5, 6, 7]
    assert all(line["input"] == "x" * size for line in tail(site.folder, 5))


@pytest.mark.parametrize("block", [1, 2, 7, 64, 333])
def test_blocks_may_end_anywhere(site: Any, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    site.fill(6)
    monkeypatch.setattr("flycore.audit.query._BLOCK", block)
    assert [line["seq"] for line in tail(site.folder, 6)] == [1, 2, 3, 4, 5, 6]


def test_no_more_is_handed_out_than_the_bound(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site.fill(9)
    monkeypatch.setattr("flycore.audit.query.MOST_LINES", 4)
    assert MOST_LINES > 4
    assert [line["seq"] for line in tail(site.folder, 100)] == [6, 7, 8, 9]


def test_what_is_no_line_is_shown_as_such(site: Any) -> None:
    site.fill(2)
    site.file.write_bytes(site.file.read_bytes() + b"\x1b[2J\n\n[1]\n{torn")
    found = tail(site.folder, 10)
    assert [line["event"] for line in found[2:]] == ["UNREADABLE"] * 4
    assert as_text(found[2]) == '[null] UNREADABLE bytes=4 start="⟦U+001B⟧[2J"'


def test_an_endless_line_is_not_read_to_its_end(site: Any) -> None:
    site.fill(1)
    site.file.write_bytes(site.file.read_bytes() + b"[" * (3 * MOST_LINE_BYTES))
    found = tail(site.folder, 10)
    assert [line["event"] for line in found] == ["UNREADABLE"]
    assert found[0]["bytes"] < 2 * MOST_LINE_BYTES


def test_a_line_is_found_by_its_number_and_a_call_by_its_id(site: Any) -> None:
    log = site.open()
    for event, call in (("TOOL_CALLED", "é1"), ("TOOL_CALLED", "2"), ("TOOL_EXECUTED", "é1"), ("PANIC", "")):
        log.append(event, {"callId": call, "said": '{"seq":3,'})
    site.now += 31 * 86_400
    log.append("TOOL_EXECUTED", {"callId": "2", "said": "é1"})
    assert [line["event"] for line in find(site.folder, 3)] == ["TOOL_EXECUTED"]
    assert [line["seq"] for line in find(site.folder, "é1")] == [1, 3]
    assert [line["seq"] for line in find(site.folder, "2")] == [2, 5]
    assert find(site.folder, 99) == ()


def test_a_line_as_text(site: Any) -> None:
    log = site.open()
    log.append(
        "TOOL_EXECUTED",
        {
            "callId": "c-1",
            "tool": "computer.keyboard",
            "caller": "claude (pid 41) via socket",
            "status": "success",
            "durationMs": 12,
            "input": {"text": "é"},
            "ok": True,
        },
    )
    assert as_text(tail(site.folder, 1)[0]) == (
        "[2026-06-15T12:00:00.000000Z] TOOL_EXECUTED name=computer.keyboard "
        'caller="claude (pid 41) via socket" status=success seq=1 callId=c-1 durationMs=12 '
        'input="{\\"text\\":\\"é\\"}" ok=true'
    )


def members(text: str) -> list[tuple[str, str]]:
    """The line's fields, read the way its quoting promises."""
    head = re.match(r"\[[^ ]*\] [A-Z_]+ ?", text)
    assert head is not None, text
    words = shlex.split(text[head.end() :], posix=True)
    return [(name, value) for name, _, value in (word.partition("=") for word in words)]


@pytest.mark.suite
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("place", ["tool", "caller", "status", "reason", "input", "list"])
def test_no_value_forges_a_line_or_a_field(site: Any, place: str, hostile: str) -> None:
    log = site.open()
    value: Any = {"input": {hostile: [hostile]}, "list": [hostile]}.get(place, hostile)
    log.append("APPROVAL_DECIDED", {"tool": "t", "caller": "c", "status": "denied"} | {place: value})
    assert len(site.lines) == 1
    assert json.loads(site.lines[0])[place] == value
    text = as_text(tail(site.folder, 1)[0])
    assert text.isprintable()
    names = [name for name, _ in members(text)]
    assert names == ["name", "caller", "status", "seq"] + (
        [place] if place in ("reason", "input", "list") else []
    )
    if place != "status":
        assert dict(members(text))["status"] == "denied"


@pytest.mark.suite
@each_row("hostile", [*HOSTILE, "name", "caller=x", "status "])
def test_no_key_forges_a_line_or_a_field(hostile: str) -> None:
    text = as_text({"time": "2026-06-15T12:00:00Z", "event": "PANIC", "status": "denied", hostile: "x"})
    assert text.isprintable()
    assert re.findall(r"(?:^| )(?:name|caller)=", text.split('"')[0]) == []
    assert text.count(" status=denied") == 1
    assert len(members(text)) == 2


@each_row("hostile", HOSTILE)
def test_no_time_and_no_event_forges_a_line(hostile: str) -> None:
    text = as_text({"time": hostile, "event": hostile, "status": "denied"})
    assert text.isprintable()
    assert text.endswith(" status=denied")
    assert "\n" not in text


def test_text_that_looks_like_another_kind_of_value_is_quoted() -> None:
    text = as_text(
        {"time": "t", "event": "E", "a": "true", "b": True, "c": "5", "d": 5, "e": "null", "f": None}
    )
    assert text.endswith('a="true" b=true c="5" d=5 e="null" f=null')


def test_a_reader_that_starts_near_the_end_gets_the_last_whole_lines(site: Any) -> None:
    site.fill(4)
    site.now += 31 * 86_400
    site.fill(3)
    every = list(Follower(site.folder).lines())
    total = sum(len(line) + 1 for line in every)
    for most in range(total + 3):
        follower = Follower(site.folder)
        left_out = follower.start_near_end(most)
        lines = list(follower.lines())
        assert left_out == (most < total)
        # As many lines as fit, and then each new one.
        fitting = [at for at in range(8) if sum(len(line) + 1 for line in every[at:]) <= most]
        assert lines == every[min(fitting) :]
        assert not follower.replaced()
        assert list(follower.lines()) == []
    site.fill(1)
    assert len(list(follower.lines())) == 1


@pytest.mark.anyio
async def test_the_first_read_of_a_long_log_says_how_many_lines_it_leaves_out(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.fill(9)
    monkeypatch.setattr(audit_reader, "MAX_BYTES", 1_000)
    reader = AuditReader(site.folder, site.anchors)
    first = await reader.read_new()
    assert first.lines == tuple(line[:-1] for line in site.lines[-len(first.lines) :])
    assert 0 < len(first.lines) < 9
    assert first.skipped + len(first.lines) == 9
    site.fill(2)
    later = await reader.read_new()
    assert (len(later.lines), later.skipped, later.replaced) == (2, 0, False)
