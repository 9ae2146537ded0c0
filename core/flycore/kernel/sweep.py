"""Clears what earlier kernels left: artifacts past their time, and copies of programs nobody runs now."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from flycore.registry.places import ARTIFACTS_DIR, STORE_DIR
from flycore.sandbox.store import prune

ARTIFACT_DAYS = 7


def remove_expired(state_dir: Path, data_dir: Path, now: float) -> int:
    """Remove artifact folders not changed for a week and copies of programs not run for a month; how many
    were removed.

    The caller holds the root's lock and has started no call yet. `now` is Unix time, seconds.
    """
    oldest = now - ARTIFACT_DAYS * 86_400
    expired = [folder for folder in _folders(state_dir / ARTIFACTS_DIR) if folder.lstat().st_mtime < oldest]
    for folder in expired:
        shutil.rmtree(folder, ignore_errors=True)
    return len(expired) + prune(data_dir / STORE_DIR, now)


def _folders(parent: Path) -> list[Path]:
    """Real folders below `parent`; a link is nobody's folder."""
    if not parent.is_dir():
        return []
    return [entry for entry in parent.iterdir() if stat.S_ISDIR(entry.lstat().st_mode)]
