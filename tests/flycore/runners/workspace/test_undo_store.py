"""The kept changes: private, bounded, and removed after some days."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flycore.runners.workspace import undo_store
from flycore.runners.workspace.undo_store import UndoFile, UndoRecord, UndoStore
from flycore.runners.workspace.write_files import FileState

DAY = 86_400


def record(call: str, size: int = 10) -> UndoRecord:
    return UndoRecord(call, "workspace.write", 0.0, (UndoFile("a", FileState(b"x" * size), "ab", 0o644),))


def test_a_record_comes_back_and_is_private(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo")
    store.save(record("c1"))
    assert store.load("c1") == record("c1")
    (file,) = (tmp_path / "undo").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    store.drop("c1")
    assert store.load("c1") is None


@pytest.mark.parametrize("call", ["", "../c1", "c1/..", "c1.undo", "c" * 200, "é"])
def test_no_call_names_another_file(tmp_path: Path, call: str) -> None:
    store = UndoStore(tmp_path / "undo")
    store.save(record("c1"))
    assert store.load(call) is None


def test_a_part_of_an_id_is_enough_where_one_call_has_it(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo")
    for call in ("abcdef-000001", "abcdef-000002"):
        store.save(record(call))
    assert store.load("000002") == record("abcdef-000002")
    assert store.load("abcdef") is None
    assert store.load("00001") is None


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo")
    store.save(record("c1"))
    (tmp_path / "undo" / "c1.undo").write_bytes(b"\xc1")
    assert store.load("c1") is None


def test_the_oldest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_store, "MOST_KEPT_BYTES", 3_500)
    store = UndoStore(tmp_path / "undo")
    for number in range(5):
        store.save(record(f"c{number}", 1_000))
        os.utime(tmp_path / "undo" / f"c{number}.undo", ns=(number, number))
    assert [store.load(f"c{number}") is not None for number in range(5)] == [False, False, True, True, True]


def test_a_week_is_kept(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo")
    for name, age in (("old", 8 * DAY), ("new", 6 * DAY)):
        store.save(record(name))
        os.utime(tmp_path / "undo" / f"{name}.undo", (100 * DAY - age,) * 2)
    assert store.remove_expired(100 * DAY) == 1
    assert (store.load("old"), store.load("new") is not None) == (None, True)
