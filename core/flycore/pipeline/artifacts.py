"""Artifact folders: each call gets a private folder for the files it makes, kept when something is in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

MOST_SPARE = 64
"""How many empty folders are kept for later calls: more than usually run at once."""


class ArtifactFolders:
    """Hands out folders below `parent`. A folder that is still empty after its call is renamed for a later
    one. The calls that one process may serve have theirs in a folder of their own below it, which is all that
    a confined process sees."""

    # Most calls leave their folder empty, and on a journaling file system removing a folder costs several
    # times what renaming one does.

    def __init__(self, parent: Path) -> None:
        self._parent = os.fspath(parent)
        self._spare: dict[Hashable, list[str]] = {}
        self._shared: set[str] = set()
        """The folders of processes."""
        self._count = 0

    def take(self, call_id: str, whose: Hashable = None) -> str:
        """An empty folder of that name, with access for this user alone. `whose` is the key of the process
        that may still have it open after the call; None for nobody. Raises OSError."""
        parent = self._parent if whose is None else os.path.join(self._parent, _folder_of(whose))
        path = os.path.join(parent, call_id)
        while spare := self._pop(whose):
            try:
                os.rename(spare, path)
            except OSError:
                continue  # somebody else removed it: the next spare one, or a new one
            return path
        os.makedirs(self._parent, stat.S_IRWXU, exist_ok=True)
        if whose is not None:
            with suppress(FileExistsError):
                os.mkdir(parent, stat.S_IRWXU)
            self._shared.add(parent)
        os.mkdir(path, stat.S_IRWXU)
        return path

    def give_back(self, path: str, *, settled: bool, whose: Hashable = None) -> None:
        """Take back the folder of a call that has ended. `settled` says that nobody but `whose` can still
        write there; without it an empty folder is removed."""
        try:
            # A persistent process may still have the folder open: its later files would otherwise appear in
            # the folder of another caller's call. So the folder goes only to calls of the same key.
            if settled and self._count < MOST_SPARE and _is_new(path):
                self._spare.setdefault(whose, []).append(path)
                self._count += 1
            else:
                os.rmdir(path)
        except OSError:
            return  # rmdir refuses a folder with files in it, which is kept; or somebody else removed it

    def close(self) -> None:
        """Remove the spare folders."""
        for whose in tuple(self._spare):
            while spare := self._pop(whose):
                self.give_back(spare, settled=False)
        for folder in self._shared:
            with suppress(OSError):
                os.rmdir(folder)  # refused where files of a call are in it

    def _pop(self, whose: Hashable) -> str:
        """A spare folder of that key; empty where there is none."""
        spares = self._spare.get(whose)
        if not spares:
            return ""
        self._count -= 1
        path = spares.pop()
        if not spares:
            del self._spare[whose]
        return path


def _folder_of(whose: Hashable) -> str:
    """The name of the folder for the calls of one key, which no call's id is."""
    return f"shared-{sha256(repr(whose).encode()).hexdigest()[:16]}"


def _is_new(path: str) -> bool:
    """Whether the folder is as `take` made it: empty, with the same mode and owner. Raises OSError."""
    about = os.lstat(path)
    own = stat.S_IFDIR | stat.S_IRWXU
    return about.st_mode == own and about.st_uid == os.geteuid() and not os.listdir(path)
