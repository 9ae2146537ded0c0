"""Reads files and folders below one anchor, with limits.

Everything is opened below the descriptor of the anchor. Links that lead outside are not followed, and a pipe
is not waited for.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic
from flycore.registry.read_file import read_text, unreadable, whole_file
from flysafe.beneath import open_anchor, open_beneath, read_beneath

MOST_FILE_BYTES = 1024 * 1024
"""Most bytes of a file that is read whole."""
MOST_NAMES = 20_000
"""Most names of a folder that are read."""
MOST_LISTED = 256
"""Most folders that are opened below one folder."""


class FolderNames(NamedTuple):
    """The names of the folders in a folder, sorted."""

    names: tuple[str, ...] = ()
    left: int = 0
    """Number of further folders, which are left out."""


class FileText(NamedTuple):
    """The text of a file, or the problem with it; neither where there is no file."""

    text: str | None = None
    problem: Diagnostic | None = None

    @property
    def absent(self) -> bool:
        """Whether there is no such file."""
        return self.text is None and self.problem is None


class SearchFolder(msgspec.Struct, frozen=True):
    """A folder below which files are searched."""

    path: Path
    origin: Origin
    prefix: str = ""
    """Prefix of the names for people: empty in the project, `~/` below the home of the person."""

    def shown(self, relative: str) -> str:
        """Return the name of a file for people."""
        return f"{self.prefix}{relative}"

    def folders(self, relative: str) -> FolderNames:
        """Return the names in a folder that may be folders and are not hidden; none on an error."""
        try:
            anchor = open_anchor(self.path)
            try:
                fd = open_beneath(anchor, relative, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK, links=True)
            finally:
                os.close(anchor)
        except OSError:
            return FolderNames()
        try:
            with os.scandir(fd) as entries:
                first_entries = islice(entries, MOST_NAMES)
                found = sorted(
                    entry.name
                    for entry in first_entries
                    if not entry.name.startswith(".") and (entry.is_symlink() or entry.is_dir())
                )
        except OSError:
            return FolderNames()
        finally:
            os.close(fd)
        return FolderNames(tuple(found[:MOST_LISTED]), max(0, len(found) - MOST_LISTED))

    def whole(self, relative: str, limit: int = MOST_FILE_BYTES) -> FileText:
        """Return the text of a file of at most `limit` bytes."""
        text, _, problem = read_text(self.path, relative, self.shown(relative), limit)
        return FileText(text, problem)

    def head(self, relative: str, limit: int) -> FileText:
        """Return the first `limit` bytes of a file as text. Bytes that are not UTF-8 become U+FFFD."""
        try:
            data = read_beneath(self.path, relative, limit, links=True, head=True)
        except (FileNotFoundError, NotADirectoryError):
            return FileText()
        except OSError as error:
            problem, remedy = unreadable(error, limit)
            return FileText(problem=whole_file(self.shown(relative), "unreadable", problem, remedy))
        return FileText(data.decode("utf-8", "replace").removeprefix("\ufeff"))
