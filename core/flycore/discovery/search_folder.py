"""Looking below one anchor: names in a folder, the beginning of a file; bounded, and through its descriptor.

What a link leads out to is not followed, a pipe is not waited for, nothing is run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic
from flycore.registry.read_file import read_text, unreadable, whole_file
from flysafe.beneath import open_anchor, open_beneath, read_beneath

MOST_FILE_BYTES = 1024 * 1024
"""Of a file that is read whole."""
MOST_NAMES = 20_000
"""Names of a folder that are looked at."""
MOST_LISTED = 256
"""Folders that are opened below one folder."""


class FolderNames(NamedTuple):
    """What a folder holds, in order."""

    names: tuple[str, ...] = ()
    left: int = 0
    """How many there are besides."""


class FileText(NamedTuple):
    """What a file says; all empty where there is none."""

    text: str | None = None
    problem: Diagnostic | None = None

    @property
    def absent(self) -> bool:
        """Whether there is no such file."""
        return self.text is None and self.problem is None


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """A folder that files are looked for below."""

    path: Path
    origin: Origin
    prefix: str = ""
    """What its files are shown with: empty in the project, `~/` below the person's home."""

    def shown(self, relative: str) -> str:
        """The file's name for people."""
        return f"{self.prefix}{relative}"

    def folders(self, relative: str) -> FolderNames:
        """Names below a folder that may be folders, none that is hidden; nothing where it cannot be read."""
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
                seen = islice(entries, MOST_NAMES)
                found = sorted(
                    entry.name
                    for entry in seen
                    if not entry.name.startswith(".") and (entry.is_symlink() or entry.is_dir())
                )
        except OSError:
            return FolderNames()
        finally:
            os.close(fd)
        return FolderNames(tuple(found[:MOST_LISTED]), max(0, len(found) - MOST_LISTED))

    def whole(self, relative: str, limit: int = MOST_FILE_BYTES) -> FileText:
        """All of a file of at most `limit` bytes."""
        text, _, problem = read_text(self.path, relative, self.shown(relative), limit)
        return FileText(text, problem)

    def head(self, relative: str, limit: int) -> FileText:
        """The first bytes of a file, however large; what is no UTF-8 shows as U+FFFD."""
        try:
            data = read_beneath(self.path, relative, limit, links=True, head=True)
        except (FileNotFoundError, NotADirectoryError):
            return FileText()
        except OSError as error:
            said, remedy = unreadable(error, limit)
            return FileText(problem=whole_file(self.shown(relative), "unreadable", said, remedy))
        return FileText(data.decode("utf-8", "replace").removeprefix("\ufeff"))
