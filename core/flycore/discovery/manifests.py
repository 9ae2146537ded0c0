"""Finds tool manifests, `NAME/tool.yml` in the folders of a project that hold them. None of them is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from flycore.discovery.search_folder import SearchFolder
from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic
from flycore.model.sidecar import SidecarEntry
from flycore.registry.created_tools import PROJECT_LIMIT_FILES, UNKNOWN_CREATOR, as_created, creators
from flycore.registry.manifest import parse_manifest, unreadable_manifest
from flycore.registry.paths import MANIFEST_FILE, MANIFESTS_DIR, RootPaths
from flycore.registry.read_file import whole_file
from flycore.registry.stamps import Stamp, stamp_of
from flycore.registry.yaml_text import MAX_YAML_BYTES

MANIFEST_FOLDERS = (MANIFESTS_DIR, ".glee/tools")
"""Folders of manifests, below the app root. A name that lies in both is read in the first one alone."""
CREATED = "made by agents"
"""What the folder of the tools that agents made is called for people."""
_KEPT = 512


def read_manifests(
    places: RootPaths, is_reserved: Callable[[str], bool]
) -> tuple[tuple[SidecarEntry, ...], tuple[Diagnostic, ...]]:
    """Return the entries of all manifests of the project, and what is wrong with folders as a whole."""
    anchor = SearchFolder(places.app_root, Origin.PROJECT)
    entries: list[SidecarEntry] = []
    problems: list[Diagnostic] = []
    read: set[str] = set()
    for folder in MANIFEST_FOLDERS:
        names = anchor.folders(folder)
        for name in names.names:
            # What was carried over is read there alone: the original would be a second tool of its name.
            if name in read:
                continue
            entry = _read(anchor, f"{folder}/{name}/{MANIFEST_FILE}", name, is_reserved)
            if entry is not None:
                entries.append(entry)
                read.add(name)
        if names.left:
            said = f"{names.left} more folders are not searched for manifests"
            problems.append(whole_file(folder, "too-many", said, "remove what you do not use"))
    return (*entries, *_read_created(places, is_reserved)), tuple(problems)


def _read_created(places: RootPaths, is_reserved: Callable[[str], bool]) -> Iterator[SidecarEntry]:
    """Yield the entries of the tools that agents made."""
    if not places.created_dir.is_dir():
        return
    made_by = creators(places)
    anchor = SearchFolder(places.created_dir, Origin.USER, f"{CREATED}/")
    for name in anchor.folders(".").names:
        entry = _read(anchor, f"{name}/{MANIFEST_FILE}", name, is_reserved)
        if entry is not None:
            yield as_created(entry, made_by.get(name, UNKNOWN_CREATOR))


def watched_manifests(places: RootPaths) -> Iterator[tuple[Path, Stamp]]:
    """Yield every file and folder that `read_manifests` depends on, with its stamp as it is now."""
    anchor = SearchFolder(places.app_root, Origin.PROJECT)
    for folder in MANIFEST_FOLDERS:
        top = places.app_root / folder
        yield top, stamp_of(top)
        for name in anchor.folders(folder).names:
            for path in (top / name, top / name / MANIFEST_FILE):
                yield path, stamp_of(path)
    for path in _created_files(places):
        yield path, stamp_of(path)


def _created_files(places: RootPaths) -> Iterator[Path]:
    yield from (places.app_root / relative for relative in PROJECT_LIMIT_FILES)
    if places.created_dir.is_dir():
        yield places.created_dir
        for name in SearchFolder(places.created_dir, Origin.USER).folders(".").names:
            yield places.created_dir / name / MANIFEST_FILE


def _read(
    anchor: SearchFolder, relative: str, name: str, is_reserved: Callable[[str], bool]
) -> SidecarEntry | None:
    """Return the entry of one manifest; None where the folder holds none."""
    found = anchor.whole(relative, MAX_YAML_BYTES)
    file, shown = str(anchor.path / relative), anchor.shown(relative)
    if found.problem is not None:
        return unreadable_manifest(shown, name, file, (found.problem,))
    return None if found.text is None else _parsed(found.text, shown, name, file, is_reserved)


@lru_cache(maxsize=_KEPT)
def _parsed(
    text: str, shown: str, folder: str, file: str, is_reserved: Callable[[str], bool]
) -> SidecarEntry:
    """Return the entry of a text. It is kept, because the files are read again at every change of one."""
    return parse_manifest(text, shown, folder=folder, file=file, is_reserved=is_reserved)
