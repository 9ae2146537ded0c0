"""Noticing that a registry, policy or settings file has been written, replaced or removed."""

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
"""Files are looked at this often even without a notice: a notice may be lost while a folder that has just
appeared is not yet watched, and some file systems give none."""

Stamp = tuple[int, int, int, int] | None
"""Inode, size, time of the content and of the inode in nanoseconds; None for a file that is not there."""
FileStamps = tuple[Stamp, ...]
"""Of all watched files at one moment."""


def watched_files(places: RootPaths) -> tuple[tuple[Path, str], ...]:
    """(anchor, relative path) of every file whose content matters."""
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
    """The watched files as they are now. Taken before they are read, so that no change falls between."""
    return tuple(_stamp(anchor, relative) for anchor, relative in watched_files(places))


async def watch_files(places: RootPaths, seen: FileStamps, stop: anyio.Event) -> AsyncIterator[None]:
    """Yield whenever the stamps are others than the last ones, first `seen`, until `stop` is set.

    Files and folders need not exist; several quick changes may come as one. Equal bytes written
    anew are a change too: whoever read in between may have read others.
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
    """For each file its folder, or the nearest ancestor there is: it tells when the next one appears."""
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
