"""Watches the registry, policy and settings files for changes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio

from flycore.registry.paths import (
    LEGACY_REGISTRY_FILE,
    POLICY_FILE,
    PROJECT_POLICY_FILE,
    REGISTRY_FILE,
    SETTINGS_FILE,
    SYSTEM_CONFIG_DIR,
    RootPaths,
)

RECHECK_MS = 700
"""How often the files are checked without a notification. A notification is lost while a new folder is not
watched yet, and some file systems send none."""

Stamp = tuple[int, int, int, int] | None
"""Inode, size, time of contents and of inode in nanoseconds; None for a file that does not exist."""
FileStamps = tuple[Stamp, ...]
"""The stamps of all watched files at one moment."""


def watched_files(places: RootPaths) -> tuple[tuple[Path, str], ...]:
    """Return (anchor, relative path) of every watched file."""
    root, config = places.app_root, places.config_dir
    return (
        (root, REGISTRY_FILE),
        (root, LEGACY_REGISTRY_FILE),
        (root, PROJECT_POLICY_FILE),
        (config, REGISTRY_FILE),
        (config, POLICY_FILE),
        (config, SETTINGS_FILE),
        (SYSTEM_CONFIG_DIR, POLICY_FILE),
    )


def file_stamps(places: RootPaths) -> FileStamps:
    """Return the current stamps of the watched files.

    Call this before reading the files, so that a change in between is noticed later.
    """
    return tuple(_stamp(anchor, relative) for anchor, relative in watched_files(places))


async def watch_files(places: RootPaths, seen: FileStamps, stop: anyio.Event) -> AsyncIterator[None]:
    """Yield after each change of the stamps, beginning from `seen`, until `stop` is set.

    Files and folders need not exist. Several quick changes may give one item. A file that was written again
    with equal bytes counts as changed, because a reader may have seen other bytes in between.
    """
    from watchfiles import awatch

    while not stop.is_set():
        folders = _existing_folders(places)
        notices = awatch(
            *folders,
            watch_filter=None,
            debounce=200,
            step=50,
            stop_event=stop,
            rust_timeout=RECHECK_MS,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        async with aclosing(notices):
            async for _ in notices:
                now = file_stamps(places)
                if now != seen:
                    seen = now
                    yield
                if _existing_folders(places) != folders:
                    break


def _existing_folders(places: RootPaths) -> list[Path]:
    """Return for each file its folder, or the nearest ancestor that exists."""
    # A folder that does not exist cannot be watched; its ancestor reports when it appears.
    found: set[Path] = set()
    for anchor, relative in watched_files(places):
        folder = (anchor / relative).parent
        found.add(next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/")))
    return sorted(found)


def _stamp(anchor: Path, relative: str) -> Stamp:
    try:
        status = os.stat(anchor / relative)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
