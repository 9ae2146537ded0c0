"""Writing the log: what a line holds, when it is on disk, and when nothing is written any more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flycore.audit.chain import GENESIS, MOST_LINE_BYTES
from flycore.audit.log import ANCHOR_EVERY, MOST_UNSYNCED, AuditLog
from flycore.audit.query import tail
from flycore.model.errors import AuditUnwritable


def test_a_line_holds_what_the_chain_needs(site: Any) -> None:
    log = site.open()
    assert log.append("TOOL_CALLED", {"tool": "é\n\u202e"}) == 1
    assert log.append("PANIC", {}) == 2
    first, second = (json.loads(line) for line in site.lines)
    assert (first["seq"], first["event"], first["prev"]) == (1, "TOOL_CALLED", GENESIS)
    assert first["time"] == "2026-06-15T12:00:00.000000Z"
    assert first["tool"] == "é\n\u202e"
    assert first["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (second["seq"], second["prev"]) == (2, first["hash"])
    assert b"".join(site.lines).isascii()
    assert len(site.lines) == 2


def test_file_and_folders_are_private(site: Any) -> None:
    before = os.umask(0)
    try:
        site.fill(2)
    finally:
        os.umask(before)
    modes = [
        path.stat().st_mode & 0o777 for path in (site.folder, site.file, site.anchors.parent, site.anchors)
    ]
    assert modes == [0o700, 0o600, 0o700, 0o600]


def test_a_line_is_one_write(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write = os.write

    def counting(fd: int, data: bytes) -> int:
        written.append(bytes(data))
        return write(fd, data)

    log = site.open()
    monkeypatch.setattr(os, "write", counting)
    log.append("TOOL_CALLED", {"callId": "x" * 10_000})
    assert written == site.lines


def test_lines_are_dirty_until_they_are_synced(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counting(fd: int) -> None:
        synced.append(fd)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", counting)
    log = site.open()
    log.append("TOOL_CALLED", {})
    synced.clear()
    log.append("TOOL_CALLED", {})
    assert log.dirty
    assert not synced
    log.append("TOOL_STARTED", {}, sync=True)
    assert not log.dirty
    assert len(synced) == 1
    log.append("TOOL_EXECUTED", {})
    log.flush()
    log.flush()
    assert not log.dirty
    assert len(synced) == 2


def test_nobody_flushing_is_bounded(site: Any) -> None:
    log = site.open()
    for _ in range(MOST_UNSYNCED):
        log.append("TOOL_CALLED", {})
    assert not log.dirty


def anchored(site: Any) -> list[int]:
    if not site.anchors.exists():
        return []
    return [json.loads(line)["seq"] for line in site.anchors.read_text().splitlines()]


def test_anchors_come_every_so_often_with_decisions_and_at_the_end(site: Any) -> None:
    log = site.open()
    for _ in range(ANCHOR_EVERY - 1):
        log.append("TOOL_CALLED", {})
    log.flush()
    assert anchored(site) == []
    log.append("TOOL_CALLED", {}, sync=True)
    log.append("APPROVAL_DECIDED", {}, sync=True)
    log.append("TOOL_STARTED", {}, sync=True)
    assert anchored(site) == [ANCHOR_EVERY, ANCHOR_EVERY + 1]
    log.close()
    assert anchored(site) == [ANCHOR_EVERY, ANCHOR_EVERY + 1, ANCHOR_EVERY + 2]
    assert site.check().exit_code == 0


def test_an_anchor_that_cannot_be_left_is_told_and_tried_again(site: Any) -> None:
    log = site.open()
    site.anchors.parent.write_text("in the way")
    log.append("APPROVAL_DECIDED", {}, sync=True)
    assert "no anchor" in log.anchor_problem
    site.anchors.parent.unlink()
    log.append("TOOL_STARTED", {}, sync=True)
    assert log.anchor_problem == ""
    assert anchored(site) == [2]


def test_the_chain_goes_on_after_closing(site: Any) -> None:
    site.fill(3)
    log = site.open()
    assert log.seq == 3
    assert log.append("TOOL_CALLED", {}) == 4
    assert site.check().lines == 4


def test_the_chain_runs_over_months(site: Any) -> None:
    log = site.open()
    log.append("TOOL_CALLED", {})
    site.now += 31 * 86_400
    assert log.append("TOOL_CALLED", {}) == 2
    log.close()
    site.now += 62 * 86_400
    assert site.open().append("TOOL_CALLED", {}) == 3
    assert sorted(path.name for path in site.folder.iterdir()) == [
        f"{month}.jsonl" for month in ("2026-06", "2026-07", "2026-09")
    ]
    assert site.check().exit_code == 0


def test_a_clock_that_goes_back_opens_no_older_month(site: Any) -> None:
    log = site.fill(2, closed=False)
    site.now -= 90 * 86_400
    site.mono -= 50
    log.append("TOOL_CALLED", {})
    log.close()
    site.now -= 90 * 86_400
    site.open().append("TOOL_CALLED", {})
    written = [json.loads(line) for line in site.lines]
    assert [path.name for path in site.folder.iterdir()] == ["2026-06.jsonl"]
    assert [line["seq"] for line in written] == [1, 2, 3, 4]
    assert written[2]["time"] < written[1]["time"]
    assert [line["mono"] for line in written] == sorted(line["mono"] for line in written)
    assert site.check().exit_code == 0


def test_a_second_writer_is_refused(site: Any) -> None:
    log = site.fill(1, closed=False)
    with pytest.raises(AuditUnwritable, match="another process is writing to it"):
        site.open()
    program = (
        "import sys, pathlib\nfrom flycore.audit.log import AuditLog\n"
        "folder, anchors = map(pathlib.Path, sys.argv[1:])\n"
        "AuditLog.open(folder, anchors, clock=lambda: 0.0, monotonic=lambda: 0.0)\n"
    )
    rival = subprocess.run(
        [sys.executable, "-c", program, site.folder, site.anchors],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rival.returncode == 1
    assert "another process is writing to it" in rival.stderr
    log.append("TOOL_CALLED", {})
    log.close()
    assert site.open().seq == 2


@pytest.mark.parametrize("name", ["seq", "time", "mono", "boot", "event", "prev", "hash"])
def test_no_field_takes_the_place_of_the_logs_own(site: Any, name: str) -> None:
    with pytest.raises(ValueError, match="reserved for the log"):
        site.open().append("TOOL_CALLED", {name: "x"})


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "field", [float("nan"), float("inf"), {1, 2}, b"bytes", nested(100_000), "x" * MOST_LINE_BYTES]
)
def test_what_no_line_can_hold_is_refused_and_the_next_one_written(site: Any, field: Any) -> None:
    log = site.open()
    with pytest.raises(AuditUnwritable):
        log.append("TOOL_CALLED", {"input": field})
    assert log.stopped == ""
    assert log.append("TOOL_CALLED", {}) == 1
    assert site.check().exit_code == 0


@pytest.mark.parametrize("text", ["\ud800", "\0", "\n", '","hash":"', "\u2028", "a" * 100_000])
def test_every_text_can_be_logged(site: Any, text: str) -> None:
    log = site.open()
    log.append("TOOL_CALLED", {text: text, "nested": {"input": [text]}})
    log.append("TOOL_CALLED", {})
    assert len(site.lines) == 2
    assert tail(site.folder, 2)[0][text] == text
    assert site.check().exit_code == 0


@pytest.mark.parametrize("change", ["grown", "cut", "removed"])
def test_a_file_that_someone_else_changes_stops_the_log(site: Any, change: str) -> None:
    log = site.fill(3, closed=False)
    if change == "grown":
        site.file.write_bytes(b"".join(site.lines) + b"more\n")
    elif change == "cut":
        site.file.write_bytes(b"".join(site.lines[:2]))
    else:
        site.file.unlink()
    for _ in range(2):
        with pytest.raises(AuditUnwritable, match="another program changed or removed the file"):
            log.append("TOOL_STARTED", {}, sync=True)
    assert "another program changed or removed the file" in log.stopped


def test_a_closed_log_takes_nothing(site: Any) -> None:
    log = site.fill(1)
    with pytest.raises(AuditUnwritable, match="closed"):
        log.append("TOOL_CALLED", {})


def test_a_folder_that_cannot_be_used_stops_the_log_but_not_the_kernel(site: Any) -> None:
    site.folder.parent.mkdir()
    site.folder.write_text("in the way")
    log = site.open()
    assert log.stopped
    with pytest.raises(AuditUnwritable):
        log.append("TOOL_STARTED", {}, sync=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("mount"):
        pytest.skip("NOT TESTED, not installed: mount")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill_up(log: AuditLog) -> int:
    """Append until a line is refused; how many were not."""
    for written in range(1000):
        try:
            log.append("TOOL_STARTED", {"input": "x" * 500}, sync=True)
        except AuditUnwritable:
            return written
    pytest.fail("the disk never was full")


@pytest.mark.root
@pytest.mark.suite
def test_a_full_disk_refuses_lines_and_takes_them_again_when_there_is_room(
    site: Any, small_disk: Path
) -> None:
    site.folder = small_disk / "audit"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(16_384))
    log = site.open()
    written = fill_up(log)
    assert written > 10
    with pytest.raises(AuditUnwritable):
        log.append("TOOL_STARTED", {"input": "x" * 500}, sync=True)
    assert site.check().lines == written
    assert site.check().exit_code == 0
    ballast.unlink()
    assert log.append("TOOL_STARTED", {}, sync=True) == written + 1
    assert site.check().exit_code == 0
    log.close()


LIMITED = """
import pathlib, resource, sys, time
from flycore.audit.log import AuditLog
from flycore.model.errors import AuditUnwritable
folder, anchors = map(pathlib.Path, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
log = AuditLog.open(folder, anchors, clock=time.time, monotonic=time.monotonic)
written = refused = 0
for _ in range(100):
    try:
        log.append("TOOL_STARTED", {"input": "x" * 500}, sync=True)
        written += 1
    except AuditUnwritable:
        refused += 1
print(written, refused, log.stopped)
"""


@pytest.mark.suite
def test_any_other_failure_stops_the_log(site: Any) -> None:
    site.folder.parent.mkdir()
    child = subprocess.run(
        [sys.executable, "-c", LIMITED, site.folder, site.anchors], capture_output=True, text=True, check=True
    )
    written, refused, stopped = child.stdout.strip().split(" ", 2)
    assert int(written) + int(refused) == 100
    assert int(written) > 10
    assert stopped == "File too large"
    assert site.check().lines == int(written)
    assert site.check().exit_code == 0


def test_a_sync_that_fails_stops_the_log(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log: AuditLog = site.fill(1, closed=False)

    def failing(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        with pytest.raises(AuditUnwritable, match="could not be synced"):
            log.append("TOOL_STARTED", {}, sync=True)
    with pytest.raises(AuditUnwritable, match="could not be synced"):
        log.append("TOOL_STARTED", {}, sync=True)
