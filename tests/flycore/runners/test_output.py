"""Suite S1: what stdout means. Every text gives a typed meaning; only a good answer gives success."""

from __future__ import annotations

import json
import os
import random

import pytest

from flycore.model.enums import Code, Status
from flycore.runners.output import LINES_TRIED, Answer, EventFeed, SidecarEvent, read_answer
from kits.tables import each_row

ROUNDS = 10_000 if os.environ.get("FLYTUI_SUITES") == "full" else 1_000
GOOD = b'{"ok": true, "digest": "ab\\u00e9", "sizes": [1, 2.5, null], "nested": {"deep": [{}]}}'
PROGRESS = b'{"event": "progress", "progress": 0.4, "total": 1.0, "message": "page 4 of 10"}\n'
LOG = b'{"event": "log", "level": "warning", "message": "slow"}\n'


def understand(stdout: bytes, exit_code: int = 0, step: int = 0) -> tuple[Answer, list[SidecarEvent]]:
    events: list[SidecarEvent] = []
    feed = EventFeed(events.append)
    step = step or max(1, len(stdout))
    for start in range(0, len(stdout), step):
        feed.take(stdout[start : start + step])
    feed.finish()
    return read_answer(stdout[feed.length :], exit_code, "some stderr"), events


TABLE = [
    # stdout, exit code, status, code
    (b'{"ok": true, "a": 1}', 0, Status.SUCCESS, ""),
    (b'{"ok": true, "a": 1}\n', 0, Status.SUCCESS, ""),
    (b'{\r\n  "ok": true,\r\n  "a": 1\r\n}\r\n', 0, Status.SUCCESS, ""),
    (b'{"ok": true, "event": "progress", "a": 1}', 0, Status.SUCCESS, ""),
    (b'{"ok": true, "a": 1}', 3, Status.FAILED, Code.EXIT),
    (b'{"ok": true, "a": 1}', -9, Status.FAILED, Code.EXIT),
    (b'{"ok": false, "code": "unavailable", "error": "no"}', 0, Status.UNAVAILABLE, "tool-unavailable"),
    (b'{"ok": false, "code": "unavailable", "error": "no"}', 1, Status.UNAVAILABLE, "tool-unavailable"),
    (b'{"ok": false, "code": "failed", "error": "no"}', 0, Status.FAILED, Code.FAILED),
    (b'{"ok": false, "code": "timeout", "error": "no"}', 1, Status.FAILED, Code.FAILED),
    (b'{"ok": false}', 0, Status.FAILED, Code.FAILED),
    (b"", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b" \n\n", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b"", 1, Status.FAILED, Code.EXIT),
    (b"garbage", 1, Status.FAILED, Code.EXIT),
    (b"garbage", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b"null", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b"[]", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'"x"', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b"{}", 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'{"ok": 1}', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'{"ok": "true"}', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'{"ok": true, "ok": true}', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'{"ok": true, "a": NaN}', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (b'\xef\xbb\xbf{"ok": true}', 0, Status.FAILED, Code.INVALID_OUTPUT),
    (PROGRESS + LOG, 0, Status.FAILED, Code.INVALID_OUTPUT),
]


@each_row(("stdout", "exit_code", "status", "code"), TABLE)
def test_table(stdout: bytes, exit_code: int, status: Status, code: str) -> None:
    meaning, _ = understand(stdout, exit_code)
    assert (meaning.status, meaning.code) == (status, code)
    assert bool(meaning.message) == (status is not Status.SUCCESS)
    if status is Status.SUCCESS:
        assert "ok" not in meaning.output
        assert meaning.output["a"] == 1


def test_failures_carry_what_an_audit_needs() -> None:
    said = b'{"ok": false, "code": "http", "error": "502", "remedy": "try later", "by": "x", "exitCode": 7}'
    meaning, _ = understand(said, 4)
    assert (meaning.message, meaning.hint) == ("502", "try later")
    assert meaning.details == {
        "code": "http",
        "remedy": "try later",
        "by": "x",
        "exitCode": 4,
        "stderr": "some stderr",
        "answer": {"exitCode": 7},
    }
    killed, _ = understand(b"", -11)
    assert "SIGSEGV" in killed.message
    assert killed.details["signal"] == "SIGSEGV"
    broken, _ = understand(b"x" * 1_000)
    assert broken.details["excerpt"] == "x" * 400
    kept, _ = understand(b'{"ok": true, "a": 1}', 2)
    assert kept.details["a"] == 1


@pytest.mark.parametrize("step", [0, 1, 7])
def test_events_before_are_set_aside_and_told_as_they_come(step: int) -> None:
    meaning, events = understand(b"\n" + PROGRESS + LOG + GOOD, step=step)
    assert meaning.status is Status.SUCCESS
    assert meaning.warnings == ()
    assert events == [
        SidecarEvent(message="page 4 of 10", progress=0.4, total=1.0),
        SidecarEvent(message="slow", level="warning"),
    ]


def test_events_are_told_before_the_end() -> None:
    events: list[SidecarEvent] = []
    feed = EventFeed(events.append)
    feed.take(PROGRESS)
    assert len(events) == 1
    feed.take(b'{"event": "log", "mess')
    assert len(events) == 1
    feed.take(b'age": "x"}\n')
    assert events[1].message == "x"


def test_events_between_and_after_are_ignored_with_a_warning() -> None:
    meaning, events = understand(PROGRESS + GOOD + b"\n" + PROGRESS)
    assert meaning.status is Status.SUCCESS
    assert len(events) == 1
    assert len(meaning.warnings) == 1
    assert "after the answer" in meaning.warnings[0]


def test_first_answering_line_counts() -> None:
    two, _ = understand(b'{"ok": true, "n": 1}\n{"ok": true, "n": 2}\n')
    assert (two.output, len(two.warnings)) == ({"n": 1}, 1)
    chatty, _ = understand(b'starting\n{"n": 0}\n{"ok": true, "n": 1}\ndone\n')
    assert (chatty.output, len(chatty.warnings)) == ({"n": 1}, 2)
    one_line, _ = understand(b'{"ok": true}{"ok": true}\n')
    assert one_line.code == Code.INVALID_OUTPUT


def test_the_search_for_a_line_is_bounded() -> None:
    broken = b'{"ok": x}\n'
    assert understand(broken * (LINES_TRIED - 1) + GOOD)[0].status is Status.SUCCESS
    assert understand(broken * LINES_TRIED + GOOD)[0].code == Code.INVALID_OUTPUT


@each_row(
    ("line", "event"),
    [
        (b'{"event": "progress", "progress": "x", "total": true}', SidecarEvent(message="")),
        (b'{"event": "progress", "progress": 3}', SidecarEvent(message="", progress=3.0)),
        (b'{"event": "log", "level": "panic", "message": 4}', SidecarEvent(message="", level="info")),
        (
            b'{"event": "log", "message": "%s"}' % (b"m" * 9_000),
            SidecarEvent(message="m" * 2_000, level="info"),
        ),
        (b'{"event": "other"}', None),
        (b'{"event": ["progress"]}', None),
        (b'{"event": "log", "message": "a", "message": "b"}', None),
        (b'["event"]', None),
        (b'{"event": "log", "message": "%s"}' % (b"m" * 70_000), None),
    ],
)
def test_event_fields(line: bytes, event: SidecarEvent | None) -> None:
    _, events = understand(line + b"\n" + GOOD)
    assert events == ([event] if event else [])


@pytest.mark.parametrize("step", [1, 0])
@pytest.mark.parametrize("text", [GOOD, json.dumps(json.loads(GOOD), indent=2).encode()])
def test_bytes_one_by_one_and_pretty_printed(text: bytes, step: int) -> None:
    meaning, _ = understand(text, step=step)
    assert meaning.output == {key: value for key, value in json.loads(GOOD).items() if key != "ok"}


@pytest.mark.suite
def test_mutations_end_as_typed_meanings() -> None:
    chance = random.Random(1)
    statuses: set[Status] = set()
    for _ in range(ROUNDS):
        stdout = mutate(PROGRESS + GOOD if chance.random() < 0.5 else GOOD, chance)
        meaning, _ = understand(stdout, chance.choice((0, 0, 1, -9)))
        statuses.add(meaning.status)
        if meaning.status is Status.SUCCESS:
            json.dumps(meaning.output, allow_nan=False, ensure_ascii=False).encode()
        else:
            assert meaning.code
            assert meaning.message
    assert {Status.SUCCESS, Status.FAILED} <= statuses


def mutate(text: bytes, chance: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.randint(1, 10)]
        elif kind == 2:
            data[at:at] = chance.choice(PIECES)
        elif kind == 3:
            data[at:at] = data[at : at + 20] * chance.randint(1, 50)
        else:
            data[:] = data[:at]
    return bytes(data)


PIECES = (
    b"{", b"[" * 100, b"}", b'"', b"\\", b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"NaN", b"1e999",
    b"9" * 30, b"\n", b"\r\n", b",", b":", b"-Infinity", b'"ok": false,', b"\xc0\xaf", b"\xf4\x90\x80\x80",
)  # fmt: skip
