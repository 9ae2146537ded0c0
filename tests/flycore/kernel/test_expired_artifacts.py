"""What a starting kernel clears away."""

from __future__ import annotations

import os
from pathlib import Path

from flycore.kernel.crash_recovery import remove_expired

NOW = 1_800_000_000.0
DAY = 86_400


def folder(path: Path, age_days: float) -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text("x")
    os.utime(path, (NOW - age_days * DAY, NOW - age_days * DAY))
    return path


def test_old_artifacts_and_copies_go(tmp_path: Path) -> None:
    old = folder(tmp_path / "artifacts" / "old", 8)
    young = folder(tmp_path / "artifacts" / "young", 6)
    unused = folder(tmp_path / "store" / ("0" * 64), 31)
    used = folder(tmp_path / "store" / ("1" * 64), 29)
    (tmp_path / "store").chmod(0o700)
    assert remove_expired(tmp_path, tmp_path, NOW) == 2
    assert [path.exists() for path in (old, young, unused, used)] == [False, True, False, True]


def test_a_link_is_left_alone_and_never_followed(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path / "elsewhere", 30)
    (tmp_path / "state" / "artifacts").mkdir(parents=True)
    (tmp_path / "state" / "artifacts" / "link").symlink_to(elsewhere)
    assert remove_expired(tmp_path / "state", tmp_path / "data", NOW) == 0
    assert (elsewhere / "file").exists()


def test_a_fresh_root_has_nothing_to_clear(tmp_path: Path) -> None:
    assert remove_expired(tmp_path, tmp_path, NOW) == 0
    assert list(tmp_path.iterdir()) == []
