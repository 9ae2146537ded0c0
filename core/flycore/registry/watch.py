"""Watches the registry, policy and settings files for changes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.registry.folder_notices import folder_notices
from flycore.registry.paths import (
    BUNDLES_FILE,
    LEGACY_REGISTRY_FILE,
    POLICY_FILE,
    PROJECT_POLICY_FILE,
    REGISTRY_FILE,
    SETTINGS_FILE,
    SYSTEM_CONFIG_DIR,
    RootPaths,
)
from flycore.registry.read_file import MAX_FILE_BYTES
from flysafe.beneath import read_beneath

Stamp = tuple[int, int, int, int] | None
"""Inode, size, time of contents and of inode in nanoseconds; None for a file that does not exist."""
FileStamps = tuple[Stamp, ...]
"""The stamps of all watched files at one moment."""
FurtherFiles = Callable[[], tuple[tuple[Path, Stamp], ...]]
"""Returns further files and folders to watch, with their stamps as they are now. A folder is watched for what
lies right in it."""


def no_further_files() -> tuple[tuple[Path, Stamp], ...]:
    """Return no further files."""
    return ()


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
        (config, BUNDLES_FILE),
        (SYSTEM_CONFIG_DIR, POLICY_FILE),
    )


def file_stamps(places: RootPaths, further: FurtherFiles = no_further_files) -> FileStamps:
    """Return the current stamps of the watched files.

    Call this before reading the files, so that a change in between is noticed later.
    """
    own = (stamp_of(anchor / relative) for anchor, relative in watched_files(places))
    return (*own, *(stamp for _, stamp in further()))


def files_digest(places: RootPaths) -> str:
    """Return a digest of the names and bytes of the watched files. One that cannot be read counts by why."""
    whole = hashlib.sha256()
    for anchor, relative in watched_files(places):
        try:
            data = read_beneath(anchor, relative, MAX_FILE_BYTES, links=True)
        except OSError as error:
            data = f"error {error.errno}".encode()
        whole.update(os.fsencode(anchor / relative) + b"\0" + hashlib.sha256(data).digest())
    return whole.hexdigest()


async def watch_files(
    places: RootPaths, seen: FileStamps, stop: anyio.Event, further: FurtherFiles = no_further_files
) -> AsyncIterator[None]:
    """Yield after each change of the stamps, beginning from `seen`, until `stop` is set.

    Files and folders need not exist. Several quick changes may give one item. A file that was written again
    with equal bytes counts as changed, because a reader may have seen other bytes in between.
    """

    def look(folders: list[Path]) -> tuple[FileStamps, bool]:
        return file_stamps(places, further), _existing_folders(places, further) == folders

    while not stop.is_set():
        folders = await anyio.to_thread.run_sync(_existing_folders, places, further)
        with folder_notices(folders) as notices:
            same_folders = True
            while same_folders and not stop.is_set():
                # Also before the first notice: what changed until the folders were watched sent none.
                now, same_folders = await anyio.to_thread.run_sync(look, folders)
                if now != seen:
                    seen = now
                    yield
                if same_folders and not stop.is_set():
                    await notices.wait(stop)


def _existing_folders(places: RootPaths, further: FurtherFiles) -> list[Path]:
    """Return for each file its folder, or the nearest ancestor that exists."""
    # A folder that does not exist cannot be watched; its ancestor reports when it appears.
    found: set[Path] = set()
    folders = [(anchor / relative).parent for anchor, relative in watched_files(places)]
    for path, _ in further():
        folders.append(path.parent)
        folders += [path] if path.is_dir() else []
    for folder in dict.fromkeys(folders):
        found.add(next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/")))
    return sorted(found)


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file or folder; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
