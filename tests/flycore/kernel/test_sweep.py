"""What a starting kernel clears away."""

from __future__ import annotations

import os
from pathlib import Path

from flycore.kernel.sweep import sweep

NOW = 1_800_000_000.0
DAY = 86_400


def folder(path: Path, age_days: float) -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text("x")
    os.utime(path, (NOW - age_days * DAY, NOW - age_days * DAY))
    return path


def test_old_artifacts_and_all_private_copies_go(tmp_path: Path) -> None:
    old = folder(tmp_path / "artifacts" / "old", 8)
    young = folder(tmp_path / "artifacts" / "young", 6)
    copy = folder(tmp_path / "programs" / "call", 0)
    assert sweep(tmp_path, NOW) == 2
    assert [path.exists() for path in (old, young, copy)] == [False, True, False]


def test_a_link_is_left_alone_and_never_followed(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path / "elsewhere", 30)
    (tmp_path / "state" / "artifacts").mkdir(parents=True)
    (tmp_path / "state" / "artifacts" / "link").symlink_to(elsewhere)
    assert sweep(tmp_path / "state", NOW) == 0
    assert (elsewhere / "file").exists()


def test_a_fresh_root_has_nothing_to_clear(tmp_path: Path) -> None:
    assert sweep(tmp_path, NOW) == 0
