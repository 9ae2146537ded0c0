"""The kit that finds a folder in memory, and removes what earlier runs have kept."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from kits import scratch


def test_a_folder_without_room_or_existence_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEEDED", 0)
    assert scratch.find_scratch(str(tmp_path)) == str(tmp_path)
    usual = tempfile.gettempdir()
    assert scratch.find_scratch(str(tmp_path / "nowhere")) == usual
    monkeypatch.setattr(scratch, "NEEDED", 1 << 60)
    assert scratch.find_scratch(str(tmp_path)) == usual


def test_only_folders_of_ended_runs_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    kept = [f"{scratch.PREFIX}{os.getpid()}", f"{scratch.PREFIX}x", f"x{ended.pid}"]
    for name in (*kept, f"{scratch.PREFIX}{ended.pid}"):
        (tmp_path / name).mkdir()
    scratch.remove_earlier(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == len(kept) + 1
    scratch.remove_earlier(str(tmp_path), now=time.time() + scratch.KEPT_S + 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
