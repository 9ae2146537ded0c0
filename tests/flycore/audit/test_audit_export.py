"""The log given out: nothing is lost, nothing is obeyed, memory does not grow with it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flycore.audit.export import COLUMNS, Format, export
from flycore.audit.query import UNREADABLE
from flycore.audit.record import TimeRange, parse_time
from kits.tables import each_row

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1",
    " =1+1",
    "＝1+1",
    'a";=1+1',
    "a;=1+1",
    "a,@x",
    "a\n=1+1",
    "\x1b]0;title\x07",
    "\u202e=x",
    "\x7f",
    "\ud800",
    "é 🦋",
)
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def given(site: Any, form: Format, span: TimeRange | None = None) -> list[str]:
    return list(export(site.folder, form, span or TimeRange()))


def test_the_lines_come_out_as_they_stand(site: Any) -> None:
    site.fill(5)
    site.now += 31 * 86_400
    site.fill(2)
    shown = given(site, Format.JSONL)
    written = b"".join(path.read_bytes() for path in sorted(site.folder.iterdir()))
    assert "\n".join([*shown, ""]).encode() == written


def test_an_exported_log_can_be_verified(site: Any) -> None:
    log = site.open()
    for text in HOSTILE:
        log.append("TOOL_CALLED", {"tool": text, "input": {text: text}})
    log.close()
    shown = given(site, Format.JSONL)
    site.file.write_text("\n".join([*shown, ""]), "ascii")
    assert site.check().lines == len(HOSTILE)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("place", ["tool", "caller", "message", "input", "decidedBy"])
def test_no_cell_starts_a_formula(site: Any, text: str, place: str) -> None:
    log = site.open()
    log.append("TOOL_EXECUTED", {place: text, "exitCode": -9})
    for splits in ",;\t|":
        for row in csv.reader(io.StringIO("\n".join(given(site, Format.CSV))), delimiter=splits):
            for cell in row:
                assert cell.lstrip(' "\u3000')[:1] not in ("=", "+", "-", "@", "＝", "\t", "\r"), (
                    splits,
                    cell,
                )


def test_a_table_has_a_heading_and_a_row_a_line(site: Any) -> None:
    log = site.open()
    for text in HOSTILE:
        log.append("TOOL_EXECUTED", {"tool": text, "message": text, "durationMs": 7, "exitCode": -9})
    log.append("TOOL_EXECUTED", {"exitCode": 3, "message": "x" * 10_000})
    text_ = "\r\n".join(given(site, Format.CSV))
    rows = list(csv.DictReader(io.StringIO(text_)))
    assert tuple(rows[0]) == COLUMNS
    assert [row["seq"] for row in rows] == [str(number) for number in range(1, len(HOSTILE) + 2)]
    assert (rows[0]["ended"], rows[0]["durationMs"], rows[-1]["ended"]) == ("signal 9", "7", "exit 3")
    assert rows[-1]["message"].endswith("… (10000 characters)")
    assert all(character.isprintable() for character in text_.replace("\r\n", ""))


def test_text_is_one_safe_line_each(site: Any) -> None:
    log = site.open()
    for text in HOSTILE:
        log.append("TOOL_CALLED", {"tool": text})
    shown = given(site, Format.TEXT)
    assert len(shown) == len(HOSTILE)
    assert all(line.isprintable() and line.startswith("[2026-06-15T12:00:00") for line in shown)


@pytest.mark.parametrize("form", Format)
def test_what_is_no_line_is_not_dropped(site: Any, form: Format) -> None:
    site.fill(3)
    broken = b'\x1b[2J{"seq":2,"a":"\xff"}\n[1]\n{"seq":NaN}\n{"a":"\x7f\xc2\x9b"}\n'
    site.file.write_bytes(broken + b"".join(site.lines))
    shown = given(site, form, TimeRange(since=NOW))
    assert sum(UNREADABLE in line for line in shown) == 3
    assert all(line.isprintable() for line in shown)
    if form is Format.JSONL:
        for line in shown:
            assert line.isascii()
            json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, range(1, 41)),
        (10, None, range(10, 41)),
        (None, 10, range(1, 10)),
        (10, 20, range(10, 20)),
        (30, 30, ()),
        (100, None, ()),
    ],
)
def test_a_stretch_of_time(site: Any, since: int | None, until: int | None, expected: Any) -> None:
    start = datetime.fromtimestamp(site.now, UTC)
    log = site.open()
    for _ in range(40):
        site.now += 86_400
        log.append("TOOL_CALLED", {})
    span = TimeRange(*(start + timedelta(days=days) if days else None for days in (since, until)))
    shown = given(site, Format.JSONL, span)
    assert [json.loads(line)["seq"] for line in shown] == list(expected)


def test_a_clock_that_went_back_hides_nothing(site: Any) -> None:
    log = site.open()
    start = datetime.fromtimestamp(site.now, UTC)
    site.now += 40 * 86_400
    log.append("TOOL_CALLED", {})
    site.now -= 39 * 86_400
    log.append("TOOL_CALLED", {})
    span = TimeRange(start, start + timedelta(days=2))
    assert [json.loads(line)["seq"] for line in given(site, Format.JSONL, span)] == [2]


@each_row(
    ("text", "expected"),
    [
        ("2026-06-01", datetime(2026, 6, 1, tzinfo=UTC)),
        ("2026-06-01T10:30", datetime(2026, 6, 1, 10, 30, tzinfo=UTC)),
        ("2026-06-01T10:30+02:00", datetime(2026, 6, 1, 8, 30, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("90m", NOW - timedelta(minutes=90)),
        ("24h", NOW - timedelta(days=1)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(days=14)),
    ],
)
def test_times_as_people_write_them(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


@each_row("text", ["", "never", "7", "-7d", "7 d", "2026-13-01", "999999w", "٧d", "0001-01-01T00:00+23:00"])
def test_other_words_are_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, NOW)


PEAK = """
import sys, pathlib
from flycore.audit.export import Format, export
# `ru_maxrss` would begin with the peak of the process that started this one.
def peak():
    return int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
count = sum(1 for form in Format for _ in export(pathlib.Path(sys.argv[1]), form))
print(count, peak() - before)
"""


def test_memory_does_not_grow_with_the_log(site: Any) -> None:
    """20 MB of lines are given out three times within 8 MiB."""
    log = site.open()
    for _ in range(200):
        log.append("TOOL_CALLED", {"input": "x" * 100_000})
    log.close()
    done = subprocess.run(
        [sys.executable, "-c", PEAK, site.folder], capture_output=True, text=True, check=True
    )
    count, kilobytes = map(int, done.stdout.split())
    assert count == 3 * 200 + 1
    assert kilobytes < 8 * 1024, kilobytes
