"""Clears what earlier kernels left: artifacts past their time, and private copies of calls long over."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

ARTIFACT_DAYS = 7


def sweep(state_dir: Path, now: float) -> int:
    """Remove artifact folders not changed for a week and all private copies; how many were removed.

    The caller holds the root's lock and has started no call yet. `now` is Unix time, seconds.
    """
    oldest = now - ARTIFACT_DAYS * 86_400
    expired = [folder for folder in _folders(state_dir / "artifacts") if folder.lstat().st_mtime < oldest]
    left = _folders(state_dir / "programs")
    for folder in (*expired, *left):
        shutil.rmtree(folder, ignore_errors=True)
    return len(expired) + len(left)


def _folders(parent: Path) -> list[Path]:
    """Real folders below `parent`; a link is nobody's folder."""
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if stat.S_ISDIR(entry.lstat().st_mode)]
