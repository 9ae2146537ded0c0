"""Stamps of the registry, policy and settings files, by which a change of them is noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

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


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file or folder; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
