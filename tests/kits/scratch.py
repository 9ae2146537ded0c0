"""A folder in memory for what tests write, if there is one that holds programs: tests write small files that
nobody needs after them, and many are forced to the disk one by one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time

IN_MEMORY = "/dev/shm"
PREFIX = "ft-"
"""Begins the name of a run's folder; its process id follows. Paths of Unix sockets are short."""
KEPT_S = 3600.0
NEEDED = 2 << 30
"""Bytes that must be free. Containers often have 64 MiB there."""


def find_scratch(folder: str = IN_MEMORY) -> str:
    """Return the folder if a test can use it: room, and programs may be run from it. Otherwise return the
    usual folder for temporary files."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return tempfile.gettempdir()
    room = facts.f_bavail * facts.f_frsize >= NEEDED
    fits = room and not facts.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK | os.X_OK)
    return folder if fits else tempfile.gettempdir()


SCRATCH = find_scratch()


def remove_earlier(folder: str = SCRATCH, now: float | None = None) -> None:
    """Remove what this user's earlier runs have kept there: folders whose process has ended, after an hour.

    The hour is for runs of other containers with the same memory, whose processes cannot be seen.
    """
    oldest = (time.time() if now is None else now) - KEPT_S
    for entry in os.scandir(folder):
        pid = entry.name.removeprefix(PREFIX)
        if entry.name == pid or not pid.isdecimal() or os.path.exists(f"/proc/{pid}"):
            continue
        facts = entry.stat(follow_symlinks=False)
        if facts.st_uid == os.getuid() and facts.st_mtime < oldest:
            shutil.rmtree(entry, ignore_errors=True)
