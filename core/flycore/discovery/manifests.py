"""Finds tool manifests, `NAME/tool.yml` in the folders of a project that hold them. None of them is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from flycore.discovery.search_folder import SearchFolder
from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic
from flycore.model.sidecar import SidecarEntry
from flycore.registry.manifest import parse_manifest, unreadable_manifest
from flycore.registry.paths import RootPaths
from flycore.registry.read_file import whole_file
from flycore.registry.watch import Stamp, stamp_of
from flycore.registry.yaml_text import MAX_YAML_BYTES

MANIFEST_FILE = "tool.yml"
MANIFEST_FOLDERS = ("tools/manifests", ".glee/tools")
"""Folders of manifests, below the app root; the first one wins where two have a tool of the same name."""
_KEPT = 512


def read_manifests(
    places: RootPaths, is_reserved: Callable[[str], bool]
) -> tuple[tuple[SidecarEntry, ...], tuple[Diagnostic, ...]]:
    """Return the entries of all manifests of the project, and what is wrong with folders as a whole."""
    anchor = SearchFolder(places.app_root, Origin.PROJECT)
    entries: list[SidecarEntry] = []
    problems: list[Diagnostic] = []
    for folder in MANIFEST_FOLDERS:
        names = anchor.folders(folder)
        for name in names.names:
            entry = _read(anchor, f"{folder}/{name}/{MANIFEST_FILE}", name, is_reserved)
            entries += [] if entry is None else [entry]
        if names.left:
            said = f"{names.left} more folders are not searched for manifests"
            problems.append(whole_file(folder, "too-many", said, "remove what you do not use"))
    return tuple(entries), tuple(problems)


def watched_manifests(places: RootPaths) -> Iterator[tuple[Path, Stamp]]:
    """Yield every file and folder that `read_manifests` depends on, with its stamp as it is now."""
    anchor = SearchFolder(places.app_root, Origin.PROJECT)
    for folder in MANIFEST_FOLDERS:
        top = places.app_root / folder
        yield top, stamp_of(top)
        for name in anchor.folders(folder).names:
            for path in (top / name, top / name / MANIFEST_FILE):
                yield path, stamp_of(path)


def _read(
    anchor: SearchFolder, relative: str, name: str, is_reserved: Callable[[str], bool]
) -> SidecarEntry | None:
    """Return the entry of one manifest; None where the folder holds none."""
    found = anchor.whole(relative, MAX_YAML_BYTES)
    file = str(anchor.path / relative)
    if found.problem is not None:
        return unreadable_manifest(relative, name, file, (found.problem,))
    return None if found.text is None else _parsed(found.text, relative, name, file, is_reserved)


@lru_cache(maxsize=_KEPT)
def _parsed(
    text: str, shown: str, folder: str, file: str, is_reserved: Callable[[str], bool]
) -> SidecarEntry:
    """Return the entry of a text. It is kept, because the files are read again at every change of one."""
    return parse_manifest(text, shown, folder=folder, file=file, is_reserved=is_reserved)
