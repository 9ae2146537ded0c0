"""The programs that a person accepted: the first ones, and each later one after an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.approval.accepted_seals import AcceptedSeals


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "seals.json"


def test_the_first_programs_of_an_entry_are_accepted_and_others_are_not(path: Path) -> None:
    seals = AcceptedSeals(path)
    assert not seals.changed("a", "entry", "one")
    assert not seals.changed("a", "entry", "one")
    assert seals.changed("a", "entry", "two")
    assert AcceptedSeals(path).changed("a", "entry", "two")
    seals.accept("a", "entry", "two")
    assert not AcceptedSeals(path).changed("a", "entry", "two")
    assert AcceptedSeals(path).changed("a", "entry", "one")


def test_another_value_of_the_entry_begins_anew(path: Path) -> None:
    seals = AcceptedSeals(path)
    seals.accept("a", "entry", "one")
    assert not seals.changed("a", "other entry", "two")


def test_a_file_that_cannot_be_read_makes_every_program_count_as_changed(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{")
    seals = AcceptedSeals(path)
    assert seals.why_unread
    assert seals.changed("a", "entry", "one")
    seals.accept("a", "entry", "one")
    assert not seals.changed("a", "entry", "one")


def test_what_cannot_be_written_holds_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seals = AcceptedSeals(tmp_path / "file" / "seals.json")
    seals.accept("a", "entry", "one")
    assert not seals.changed("a", "entry", "one")
