"""Scans an app root and the person's folders for everything that discovery describes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from flycore.discovery import kits, plugins, servers, skills
from flycore.discovery.kits import read_kits
from flycore.discovery.plugins import read_installed_plugins, read_project_plugins
from flycore.discovery.search_folder import SearchFolder
from flycore.discovery.servers import read_servers
from flycore.discovery.skills import read_skills
from flycore.model.described import Described, DescribedState, Origin
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.registry.paths import BUNDLES_FILE, RootPaths

SHADOWED_RULE = "shadowed"
Stamps = tuple[tuple[str, int, int, int, int] | None, ...]
"""For each file and folder: name, inode, size, time of contents and of inode in nanoseconds."""


class SearchRoots(msgspec.Struct, frozen=True):
    """The folders that are scanned."""

    project: SearchFolder
    config: SearchFolder
    home: SearchFolder | None
    """Home folder of the person; None where it is not known, or is the app root itself."""


def search_roots(places: RootPaths, environ: Mapping[str, str]) -> SearchRoots:
    """Return the folders to scan for one root. `environ` holds the home folder."""
    home = environ.get("HOME", "").rstrip("/")
    known = home.startswith("/") and Path(home) != places.app_root
    below = f"{home}/" if known else "\0"
    config = f"{places.config_dir}/"
    shown = f"~/{config[len(below) :]}" if config.startswith(below) else config
    return SearchRoots(
        project=SearchFolder(places.app_root, Origin.PROJECT),
        config=SearchFolder(places.config_dir, Origin.USER, shown),
        home=SearchFolder(Path(home), Origin.USER, "~/") if known else None,
    )


def scan(grounds: SearchRoots) -> tuple[Described, ...]:
    """Return everything that is found. Raises nothing for the contents of a file, and starts no program."""
    return tuple(_with_shadows(_scan_unsorted(grounds)))


def user_kits(grounds: SearchRoots) -> list[Described]:
    """Return the kits of the project and the person, each with its problems.

    Of two kits with one id, both are returned as they are.
    """
    return [kit for kit in read_kits(grounds.project, grounds.config) if kit.source is not Origin.BUILTIN]


def _scan_unsorted(grounds: SearchRoots) -> Iterator[Described]:
    """Yield the items of the project before those of the person. Of two with one id the first is used."""
    project, home, root = grounds.project, grounds.home, grounds.project.path
    yield from read_kits(project, grounds.config)
    yield from read_skills(project, skills.PROJECT_FOLDERS)
    yield from read_project_plugins(project)
    yield from read_servers(project, servers.PROJECT_FILES, str(root))
    if home is not None:
        yield from read_skills(home, skills.HOME_FOLDERS)
        yield from read_installed_plugins(home, root)
        yield from read_servers(home, servers.HOME_FILES, str(root))


def watched_files(grounds: SearchRoots) -> Iterator[tuple[SearchFolder, str]]:
    """Yield the files that `scan` would read now, and the folders that it would list."""
    project, home = grounds.project, grounds.home
    for file in (*kits.PROJECT_FILES, *servers.PROJECT_FILES, plugins.MANIFEST):
        yield project, file
    yield grounds.config, kits.USER_FILE
    yield grounds.config, BUNDLES_FILE
    yield from _below(project, skills.PROJECT_FOLDERS, skills.SKILL_FILE)
    yield from _below(project, (plugins.PROJECT_FOLDER,), plugins.MANIFEST)
    if home is not None:
        for file in (*servers.HOME_FILES, plugins.RECORD):
            yield home, file
        yield from _below(home, skills.HOME_FOLDERS, skills.SKILL_FILE)


def _below(anchor: SearchFolder, folders: Iterable[str], file: str) -> Iterator[tuple[SearchFolder, str]]:
    for folder in folders:
        yield anchor, folder
        for name in anchor.folders(folder).names:
            yield anchor, f"{folder}/{name}/{file}"


def _with_shadows(found: Iterable[Described]) -> Iterator[Described]:
    """Yield all items. Of each kind and id the first good one is used; later ones are marked as shadowed."""
    listed = list(found)
    winners: dict[str, Described] = {}
    for described in listed:
        if described.state is not DescribedState.FAULTY:
            winners.setdefault(described.key, described)
    for described in listed:
        winner = winners.get(described.key, described)
        if winner is described or described.state is DescribedState.FAULTY:
            yield described
            continue
        where = winner.path or "flytui itself"
        reason = Diagnostic(
            severity=Severity.INFO,
            rule=SHADOWED_RULE,
            message=f"{described.id}: the one of {where} is used",
            remedy="give one of the two another name",
        )
        yield msgspec.structs.replace(
            described, state=DescribedState.SHADOWED, reasons=(*described.reasons, reason)
        )


def stamps(grounds: SearchRoots) -> Stamps:
    """Return the stamps of all scanned files and folders, which differ where `scan` may find other items."""
    return tuple(_stamp(anchor, relative) for anchor, relative in watched_files(grounds))


def _stamp(anchor: SearchFolder, relative: str) -> tuple[str, int, int, int, int] | None:
    try:
        status = os.stat(anchor.path / relative)
    except OSError:
        return None
    name = anchor.shown(relative)
    return name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
