"""A cache of resolved programs, and of the first bytes of scripts, valid while `stat` shows the same file."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from flycore.model.enums import Anchor
from flycore.model.program import ResolvedProgram

MAX_CACHED = 1_024
_SETTLED_NS = 100_000_000
"""A file that changed more recently is not cached: it could change again with the same time stamp, because
file systems have coarse clocks."""


class FileStat(NamedTuple):
    """Everything that the result for a binary depends on. That for a script depends on other files too."""

    real: str
    """Path of the opened file, links followed."""
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """Time of the last change of contents, owner, mode or access list."""
    command: str
    args: tuple[str, ...]
    cwd: Anchor


def stat_file(
    status: os.stat_result, real: str, command: str, args: tuple[str, ...], cwd: Anchor
) -> FileStat:
    """Return the key of the cache for an open file with that status."""
    return FileStat(
        real,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        command,
        args,
        cwd,
    )


_seen: dict[FileStat, ResolvedProgram] = {}
_heads: dict[FileStat, bytes] = {}


def recall(look: FileStat) -> ResolvedProgram | None:
    """Return the cached result; None where there is none."""
    return _seen.get(look)


def remember(look: FileStat, program: ResolvedProgram) -> None:
    """Cache the result, where it depends on the file itself only."""
    if program.path == look.real and not program.interpreter and _is_settled(look):
        if len(_seen) >= MAX_CACHED:
            _seen.clear()
        _seen[look] = program


def recall_head(look: FileStat) -> bytes | None:
    """Return the first bytes of the file; None where they are not cached."""
    return _heads.get(look)


def remember_head(look: FileStat, head: bytes) -> None:
    """Cache the first bytes of a script, whose interpreter is looked for each time."""
    if head.startswith(b"#!") and _is_settled(look):
        if len(_heads) >= MAX_CACHED:
            _heads.clear()
        _heads[look] = head


def _is_settled(look: FileStat) -> bool:
    return time.time_ns() - max(look.modified_ns, look.changed_ns) > _SETTLED_NS
