"""Programs followed before: what a file was found to be holds for as long as `stat` says it is that file."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from flycore.model.enums import Anchor
from flycore.model.program import ResolvedProgram

MAX_CACHED = 1_024
_SETTLED_NS = 100_000_000
"""A file that changed this recently could change again within one tick of its clock: not remembered."""


class FileStat(NamedTuple):
    """All that the outcome for a binary depends on; a `#!` line depends on other files as well."""

    real: str
    """Path of the opened file, links followed."""
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """Changes with owner, mode and access list, too."""
    command: str
    args: tuple[str, ...]
    cwd: Anchor


def stat_file(
    status: os.stat_result, real: str, command: str, args: tuple[str, ...], cwd: Anchor
) -> FileStat:
    """The look at an opened file whose status was just taken."""
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


def recall(look: FileStat) -> ResolvedProgram | None:
    """What came of the same look before."""
    return _seen.get(look)


def remember(look: FileStat, program: ResolvedProgram) -> None:
    """Keep what came of it, where nothing but the file itself had a part in it."""
    settled = time.time_ns() - max(look.modified_ns, look.changed_ns) > _SETTLED_NS
    if program.path == look.real and not program.interpreter and settled:
        if len(_seen) >= MAX_CACHED:
            _seen.clear()
        _seen[look] = program
