"""A month that outgrows its file goes on in the next one, and nothing is ever deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flycore.audit.chain import log_file_of, month_files
from flycore.audit.query import find, tail

ROOM = 2_000


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flycore.audit.log.MOST_FILE_BYTES", ROOM)


def names(site: Any) -> list[str]:
    return [path.name for path in month_files(site.folder)]


def test_a_full_file_is_followed_by_the_next_and_the_chain_runs_on(site: Any) -> None:
    site.fill(70)
    assert names(site)[:2] == ["2026-06.jsonl", "2026-06.2.jsonl"]
    assert names(site)[9:11] == ["2026-06.10.jsonl", "2026-06.11.jsonl"], "by number, not by letter"
    assert all(path.stat().st_size <= ROOM for path in month_files(site.folder))
    found = site.check()
    assert (found.exit_code, found.lines) == (0, 70)
    assert [line["seq"] for line in tail(site.folder, 25)] == list(range(46, 71))
    assert find(site.folder, 17)[0]["callId"] == "call-17"


def test_the_next_month_starts_with_its_first_file(site: Any) -> None:
    site.fill(15)
    site.now += 31 * 86_400
    site.fill(1)
    assert names(site)[-2:] == ["2026-06.3.jsonl", "2026-07.jsonl"]
    assert site.check().lines == 16


def test_an_opened_log_goes_on_in_the_newest_file(site: Any) -> None:
    for _ in range(15):
        site.fill(1)
    assert names(site) == ["2026-06.jsonl", "2026-06.2.jsonl", "2026-06.3.jsonl"]
    assert site.check().lines == 15


def test_a_line_larger_than_a_file_has_one_of_its_own(site: Any) -> None:
    log = site.open()
    for _ in range(3):
        log.append("TOOL_CALLED", {"input": "x" * ROOM})
    assert names(site) == ["2026-06.jsonl", "2026-06.2.jsonl", "2026-06.3.jsonl"]
    assert site.check().lines == 3


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_file_that_is_gone_is_noticed(site: Any, gone: int) -> None:
    site.fill(15)
    month_files(site.folder)[gone].unlink()
    found = site.check()
    assert found.exit_code == (4 if gone == 2 else 1)
    assert bool(site.open().stopped) == (gone > 0), "opening checks the newest two, verify all"


def test_two_files_that_change_places_are_noticed(site: Any) -> None:
    site.fill(20)
    first, second = month_files(site.folder)[:2]
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    found = site.check()
    assert (found.exit_code, found.file, found.line) == (1, str(first), 1)


def test_a_crash_right_after_a_file_was_started_loses_nothing(site: Any, tmp_path: Path) -> None:
    site.fill(5)
    (site.folder / "2026-06.2.jsonl").touch()
    log = site.open()
    assert (log.stopped, log.append("TOOL_CALLED", {})) == ("", 6)
    assert len((site.folder / "2026-06.2.jsonl").read_bytes().splitlines()) == 1
    assert site.check().lines == 6


def test_the_torn_end_of_a_further_file_is_set_aside(site: Any, tmp_path: Path) -> None:
    site.fill(20, closed=False)
    cut = site.copy(tmp_path / "cut")
    newest = month_files(cut.folder)[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    assert cut.check().exit_code == 3
    assert cut.open().append("TOOL_CALLED", {}) == 21
    assert (cut.folder / f"{newest.name}.torn-20").exists()
    assert cut.check().exit_code == 0


def test_years_are_kept(site: Any) -> None:
    for _ in range(40):
        site.fill(1)
        site.now += 31 * 86_400
    assert len(names(site)) == 40
    assert site.check().lines == 40


@pytest.mark.parametrize(
    "name",
    [
        "2026-06.1.jsonl",
        "2026-06.0.jsonl",
        "2026-06.02.jsonl",
        "2026-06..jsonl",
        "2026-06.2.jsonl.torn-3",
        "٢٠٢٦-06.jsonl",
    ],
)
def test_other_names_are_no_part(name: str) -> None:
    assert log_file_of(Path(name)) is None
