"""A report names places and types, is private and bounded, and quotes nothing."""

from __future__ import annotations

import stat
from pathlib import Path

from flytui.supervisor.crash_report import MAX_REPORT_BYTES, report_text, traceback_text, write_report

SECRET = "what a caller sent"


def broken(text: str) -> None:
    raise KeyError(text)


def raised() -> BaseException:
    try:
        try:
            broken(SECRET)
        except KeyError as error:
            raise ExceptionGroup(SECRET, [ValueError(SECRET), error]) from RuntimeError(SECRET)
    except ExceptionGroup as group:
        return group


def test_it_names_types_and_places_and_no_text() -> None:
    text = traceback_text(raised())
    for part in ("builtins.ExceptionGroup", "builtins.ValueError", "builtins.RuntimeError", "in broken"):
        assert part in text
    assert text.count("builtins.KeyError") == 1
    assert SECRET not in text


def test_an_endless_chain_ends() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert traceback_text(first).count("ValueError") == 2


def test_the_file_is_private_new_and_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    path = write_report(str(folder), "crash.txt", report_text("It died", "x" * 2 * MAX_REPORT_BYTES))
    report = Path(path)
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert report.stat().st_size == MAX_REPORT_BYTES
    assert "flytui 0." in report.read_text()
    report.unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    report.symlink_to(victim)
    assert write_report(str(folder), "crash.txt", "again") == path
    assert (victim.read_text(), report.read_text(), report.is_symlink()) == ("mine", "again", False)
    assert write_report(str(victim), "crash.txt", "nowhere") == ""
