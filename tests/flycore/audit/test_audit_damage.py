"""Suite S11: whatever is done to the file is found, and the first place is named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flycore.audit.chain import GENESIS
from flycore.audit.query import tail
from flycore.model.errors import AuditUnwritable

FULL = os.environ.get("FLYTUI_SUITES") == "full"
KILLS = 100 if FULL else 10
BITS = range(8) if FULL else (0, 7)
CUT_STEP = 1 if FULL else 17


def rewrite(line: bytes, *, prev: str | None = None, **fields: Any) -> bytes:
    """The line with other fields and a hash that fits, as someone who knows the format would write it."""
    body = json.loads(line)
    body.update(fields)
    if prev is not None:
        body["prev"] = prev
    del body["hash"]
    hashed = json.dumps(body, separators=(",", ":"))
    own = hashlib.sha256(hashed.encode()).hexdigest()
    return f'{hashed[:-1]},"hash":"{own}"}}\n'.encode()


def rechain(lines: list[bytes], prev: str = GENESIS) -> list[bytes]:
    """All lines written anew, each hash fitting the one before."""
    done = []
    for line in lines:
        done.append(rewrite(line, prev=prev))
        prev = json.loads(done[-1])["hash"]
    return done


def test_the_format_is_as_documented(site: Any) -> None:
    site.fill(4)
    assert rechain(site.lines) == site.lines


@pytest.mark.suite
def test_every_byte_that_is_flipped_is_found_in_its_line(site: Any) -> None:
    site.fill(5, closed=False)
    data = site.file.read_bytes()
    for bit in BITS:
        for offset in range(len(data) - 1):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << bit
            site.file.write_bytes(flipped)
            found = site.check()
            assert found.exit_code == 1, (offset, bit, found)
            assert found.line == data.count(b"\n", 0, offset) + 1, (offset, bit, found)
            assert found.file == str(site.file)
            assert found.lines == found.line - 1
    site.file.write_bytes(data)
    assert site.check().exit_code == 0


@pytest.mark.suite
def test_every_cut_of_the_last_line_is_torn_and_set_aside(site: Any, tmp_path: Path) -> None:
    site.fill(4, closed=False)
    whole, last = b"".join(site.lines[:-1]), site.lines[-1]
    for length in range(1, len(last)):
        site.file.write_bytes(whole + last[:length])
        found = site.check()
        assert (found.exit_code, found.lines, found.line, found.seq) == (3, 3, 4, 4), length
        if length % CUT_STEP and length != len(last) - 1:
            continue
        cut = site.copy(tmp_path / f"cut-{length}")
        log = cut.open()
        assert log.stopped == ""
        assert log.append("TOOL_CALLED", {}) == 5
        assert (cut.folder / f"{cut.file.name}.torn-4").read_bytes() == last[:length]
        noted = tail(cut.folder, 2)[0]
        assert (noted["event"], noted["file"], noted["bytes"]) == (
            "TAIL_TORN",
            "2026-06.jsonl.torn-4",
            length,
        )
        assert noted["digest"] == hashlib.sha256(last[:length]).hexdigest()
        assert cut.check().exit_code == 0
        log.close()


def test_a_tail_of_zeros_is_torn_too(site: Any, tmp_path: Path) -> None:
    site.fill(3, closed=False)
    cut = site.copy(tmp_path / "cut")
    cut.file.write_bytes(cut.file.read_bytes() + bytes(4096))
    assert cut.check().exit_code == 3
    assert cut.open().append("TOOL_CALLED", {}) == 5
    assert cut.check().exit_code == 0


def test_a_first_line_of_a_month_may_be_torn(site: Any, tmp_path: Path) -> None:
    site.fill(3, closed=False)
    cut = site.copy(tmp_path / "cut")
    cut.now += 31 * 86_400
    (cut.folder / "2026-07.jsonl").write_bytes(b'{"seq":4,')
    assert cut.check().exit_code == 3
    assert cut.open().append("TOOL_CALLED", {}) == 5
    assert (cut.folder / "2026-07.jsonl.torn-4").exists()
    assert cut.check().exit_code == 0


def test_two_crashes_at_one_number_keep_both_pieces(site: Any, tmp_path: Path) -> None:
    site.fill(2, closed=False)
    cut = site.copy(tmp_path / "cut")
    (cut.folder / f"{cut.file.name}.torn-3").write_bytes(b"earlier")
    cut.file.write_bytes(cut.file.read_bytes() + b"later")
    cut.open()
    assert (cut.folder / f"{cut.file.name}.torn-3").read_bytes() == b"earlier"
    assert (cut.folder / f"{cut.file.name}.torn-3.1").read_bytes() == b"later"


def edited(lines: list[bytes], how: str) -> tuple[list[bytes], int, int]:
    """The six lines, changed; and line and number that are first not as they were."""
    a, b, c, d, e, f = lines
    forged = rewrite(c, tool="other.tool")
    return {
        "removed": ([a, b, d, e, f], 3, 3),
        "first removed": ([b, c, d, e, f], 1, 1),
        "two removed": ([a, d, e, f], 2, 2),
        "doubled": ([a, b, c, c, d, e, f], 4, 3),
        "swapped": ([a, b, d, c, e, f], 3, 3),
        "moved to the end": ([a, b, d, e, f, c], 3, 3),
        "replaced with a fitting hash": ([a, b, forged, d, e, f], 3, 3),
        "first replaced": ([rewrite(a, tool="other.tool"), b, c, d, e, f], 1, 1),
        "put in": ([a, b, rewrite(c, event="PANIC"), c, d, e, f], 4, 3),
        "blank line": ([a, b, b"\n", c, d, e, f], 3, 3),
        "line feed made CRLF": ([a, b, c[:-1] + b"\r\n", d, e, f], 3, 3),
        "joined": ([a, b, c[:-1], d, e, f], 3, 3),
        "spaced": ([a, b, c.replace(b",", b", ", 1), d, e, f], 3, 3),
    }[how]


@pytest.mark.suite
@pytest.mark.parametrize(
    "how",
    [
        *("removed", "first removed", "two removed", "doubled", "swapped", "moved to the end", "put in"),
        *("replaced with a fitting hash", "first replaced", "blank line", "line feed made CRLF", "joined"),
        "spaced",
    ],
)
def test_the_first_line_that_is_not_as_it_was_is_named(site: Any, how: str) -> None:
    site.fill(6)
    lines, line, seq = edited(site.lines, how)
    site.file.write_bytes(b"".join(lines))
    found = site.check()
    assert (found.exit_code, found.line, found.seq) == (1, line, seq), found
    log = site.open()
    assert log.stopped
    with pytest.raises(AuditUnwritable, match=re.escape(log.stopped)):
        log.append("TOOL_STARTED", {}, sync=True)
    assert site.file.read_bytes() == b"".join(lines)


@pytest.mark.suite
@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_tail_cut_off_is_seen_against_the_anchor(site: Any, kept: int) -> None:
    site.fill(6)
    site.file.write_bytes(b"".join(site.lines[:kept]))
    found = site.check()
    assert (found.exit_code, found.lines, found.seq) == (4, kept, kept + 1)
    assert "cut off" in site.open().stopped


def test_an_anchored_line_that_is_torn_counts_as_cut(site: Any) -> None:
    site.fill(6)
    site.file.write_bytes(site.file.read_bytes()[:-1])
    assert site.check().exit_code == 4
    assert "cut off" in site.open().stopped


def test_a_log_that_is_gone_is_seen_against_the_anchor(site: Any) -> None:
    site.fill(3)
    site.file.unlink()
    assert site.check().exit_code == 4
    site.folder.rmdir()
    assert site.check().exit_code == 4


def test_a_log_written_anew_is_seen_against_the_anchor(site: Any) -> None:
    site.fill(3)
    forged = [rewrite(line, tool="other.tool") for line in site.lines]
    site.file.write_bytes(b"".join(rechain(forged)))
    found = site.check()
    assert (found.exit_code, found.line, found.seq) == (1, 3, 3)
    assert "differs from its anchor" in site.open().stopped


def test_a_month_that_is_missing_is_named(site: Any) -> None:
    for _ in range(3):
        site.fill(2)
        site.now += 31 * 86_400
    (site.folder / "2026-07.jsonl").unlink()
    found = site.check()
    assert (found.exit_code, found.line, found.seq) == (1, 1, 3)
    assert found.file.endswith("2026-08.jsonl")
    assert site.open().stopped


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"seq":1}\n', b'{"seq":2,"hash":"other"}\n', b"\xff\n"])
def test_anchors_that_were_changed_are_told(site: Any, line: bytes) -> None:
    site.fill(3)
    site.fill(1)
    kept = site.anchors.read_bytes()
    site.anchors.write_bytes(line + kept)
    assert site.check().exit_code == 1


def test_half_an_anchor_is_forgotten(site: Any) -> None:
    site.fill(3)
    kept = site.anchors.read_bytes()
    site.anchors.write_bytes(kept + kept[:30])
    assert site.check().exit_code == 0
    site.fill(1)
    assert site.check().exit_code == 0
    assert [json.loads(line)["seq"] for line in site.anchors.read_text().splitlines()] == [3, 4]


def test_other_files_beside_the_log_do_not_count(site: Any) -> None:
    site.fill(2)
    for name in ("2026-06.jsonl.torn-9", "notes.txt", "2026-6.jsonl", "x2026-06.jsonl"):
        (site.folder / name).write_text("nonsense")
    assert site.check().exit_code == 0


def test_no_log_at_all_is_whole(site: Any) -> None:
    found = site.check()
    assert (found.exit_code, found.lines, found.file) == (0, 0, "")


def test_a_long_month_is_checked_at_its_end_before_it_is_written(site: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("flycore.audit.log._CHECKED_BYTES", 1500)
    site.fill(20)
    log = site.open()
    assert (log.seq, log.stopped) == (20, "")
    log.close()
    lines = site.lines
    site.file.write_bytes(b"".join([*lines[:18], lines[18].replace(b"mock", b"pock"), lines[19]]))
    assert "was changed" in site.open().stopped


WRITER = """
import pathlib, sys, time
from flycore.audit.log import AuditLog
folder, anchors = map(pathlib.Path, sys.argv[1:])
log = AuditLog.open(folder, anchors, clock=time.time, monotonic=time.monotonic)
while True:
    log.append("TOOL_CALLED", {"input": "x" * 3000})
    event = "APPROVAL_DECIDED" if log.seq % 5 == 0 else "TOOL_STARTED"
    print(log.append(event, {"input": "y" * 300}, sync=True), flush=True)
"""


@pytest.mark.suite
def test_killed_while_writing_nothing_that_was_told_is_lost(site: Any) -> None:
    site.folder.parent.mkdir()
    chance = random.Random(11)
    told = 0
    for _ in range(KILLS):
        told = max(told, _write_until_killed(site, chance.randrange(1, 40)))
        found = site.check()
        assert found.exit_code in (0, 3), found
        assert found.lines >= told
    assert told >= KILLS
    log = site.open()
    assert log.stopped == ""
    log.append("TOOL_CALLED", {})
    assert site.check().exit_code == 0


def _write_until_killed(site: Any, lines: int) -> int:
    """Kill a writer after it told of so many lines; the last number it told."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, site.folder, site.anchors], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout as told:
        numbers = [int(next(told)) for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        numbers += [int(line) for line in told if line.endswith("\n")]
    assert child.wait() == -signal.SIGKILL
    return numbers[-1]
