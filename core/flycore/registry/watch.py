"""Noticing that a registry, policy or settings file has really changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import anyio

from flycore.registry.files import MAX_FILE_BYTES
from flycore.registry.places import (
    LEGACY_REGISTRY_FILE,
    POLICY_FILE,
    PROJECT_POLICY_FILE,
    REGISTRY_FILE,
    SETTINGS_FILE,
    SYSTEM_CONFIG_DIR,
    Places,
)
from flysafe.beneath import read_beneath

RECHECK_MS = 700
"""Files are looked at this often even without a notice: a notice may be lost while a folder that has just
appeared is not yet watched, and some file systems give none."""

_Stamp = tuple[int, int, int, int] | None


def watched_files(places: Places) -> tuple[tuple[Path, str], ...]:
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


async def watch_files(places: Places, stop: anyio.Event) -> AsyncIterator[None]:
    """Yield after each change of content, until `stop` is set. Files and folders need not exist.

    Several quick changes may come as one; a file touched or replaced by equal bytes is no change. What
    was there when the watch began is what is compared with.
    """
    from watchfiles import awatch

    contents = _Contents(watched_files(places))
    contents.changed()
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
                if contents.changed():
                    yield
                if _existing_folders(places) != folders:
                    break


def _existing_folders(places: Places) -> list[Path]:
    """For each file its folder, or the nearest ancestor there is: it tells when the next one appears."""
    found: set[Path] = set()
    for anchor, relative in watched_files(places):
        folder = (anchor / relative).parent
        found.add(next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/")))
    return sorted(found)


class _Contents:
    """The last known content of each file, hashed anew only where its stamp is another."""

    def __init__(self, files: tuple[tuple[Path, str], ...]) -> None:
        self.files = files
        self.stamps: dict[tuple[Path, str], _Stamp] = {}
        self.hashes: dict[tuple[Path, str], bytes] = {}

    def changed(self) -> bool:
        """Look again; whether anything is other than at the last look."""
        found = False
        for file in self.files:
            stamp = _stamp(*file)
            if stamp == self.stamps.get(file, ()):
                continue
            self.stamps[file] = stamp
            content = _hash(*file)
            found = found or content != self.hashes.get(file)
            self.hashes[file] = content
        return found


def _stamp(anchor: Path, relative: str) -> _Stamp:
    try:
        status = os.stat(anchor / relative)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hash(anchor: Path, relative: str) -> bytes:
    """Hash of the content, or of why it cannot be read."""
    try:
        data = read_beneath(anchor, relative, MAX_FILE_BYTES, links=True)
    except OSError as error:
        return str(error.errno).encode()
    return hashlib.sha256(data).digest()
