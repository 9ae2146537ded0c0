"""`workspace.list`, and the walk over the files of a project that the search uses as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from flycore.model.json import Json, JsonObject
from flycore.runners.workspace.project_files import FOLDER, Project, lies_in, opened, shown

NOT_ENTERED = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache",
        ".ruff_cache", ".tox", ".nox", "target", ".gradle", ".terraform", ".next", ".turbo", ".cache",
    }
)  # fmt: skip
"""Names of folders that hold what was installed or built, or the insides of a version control system. They
are left out below the folder that a call names."""
MOST_ENTRIES = 200_000
"""How many entries one walk looks at."""
MOST_DEEP = 100


class Entry(NamedTuple):
    """One entry of a folder."""

    path: str
    """Relative to the project folder."""
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size: int
    not_entered: bool = False


class Walk:
    """A walk over what lies below one folder, sorted by path. No link is followed."""

    def __init__(self, project: Project, *, recursive: bool, most: int = MOST_ENTRIES) -> None:
        self._project = project
        self._recursive = recursive
        self._left = most
        self.incomplete = ""
        """Why the walk has not seen everything; empty where it has."""

    def entries(self, folder: int, path: str, depth: int = 0) -> Iterator[Entry]:
        """Yield the entries below the open folder, which has that real path relative to the project."""
        names = os.listdir(folder)
        names.sort(key=os.fsencode)
        for name in names:
            if self._left <= 0:
                self.incomplete = "there are too many files: name a folder further down"
                return
            self._left -= 1
            inner = name if path == "." else f"{path}/{name}"
            try:
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue  # it was removed during the walk
            if lies_in(inner, self._project.closed):
                continue
            yield from self._entry(folder, name, inner, about, depth)

    def _entry(self, folder: int, name: str, path: str, about: os.stat_result, depth: int) -> Iterator[Entry]:
        if not stat.S_ISDIR(about.st_mode):
            kind = (
                "link" if stat.S_ISLNK(about.st_mode) else "file" if stat.S_ISREG(about.st_mode) else "other"
            )
            yield Entry(path, kind, about.st_size if kind == "file" else 0)
            return
        skipped = self._recursive and name in NOT_ENTERED
        yield Entry(path, "folder", 0, skipped)
        if not self._recursive or skipped:
            return
        if depth >= MOST_DEEP:
            self.incomplete = f"folders are nested more than {MOST_DEEP} deep"
            return
        try:
            # O_NOFOLLOW: a link may have taken the folder's place since it was looked at.
            inner = os.open(name, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            self.incomplete = f"{shown(path)} cannot be read"
            return
        try:
            yield from self.entries(inner, path, depth + 1)
        finally:
            os.close(inner)


def list_page(project: Project, given: str, *, recursive: bool, offset: int, limit: int) -> JsonObject:
    """Return a page of the entries below a folder.

    Raises PathRefused, and OSError where the folder cannot be read.
    """
    page: list[Json] = []
    more = False
    with opened(project, given, FOLDER) as (descriptor, real):
        walk = Walk(project, recursive=recursive)
        for number, entry in enumerate(walk.entries(descriptor, real)):
            if number < offset:
                continue
            if len(page) == limit:
                more = True
                break
            page.append(_document(entry))
        found: JsonObject = {"path": shown(real), "entries": page}
    if more:
        found["nextOffset"] = offset + len(page)
    if walk.incomplete:
        found["incomplete"] = walk.incomplete
    return found


def _document(entry: Entry) -> JsonObject:
    document: JsonObject = {"path": shown(entry.path), "kind": entry.kind}
    if entry.kind == "file":
        document["bytes"] = entry.size
    if entry.not_entered:
        document["notEntered"] = True
    return document
