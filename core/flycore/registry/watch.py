"""Watches the registry, policy and settings files for changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.registry.folder_notices import folder_notices
from flycore.registry.paths import RootPaths
from flycore.registry.stamps import FileStamps, FurtherFiles, file_stamps, no_further_files, watched_files


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
