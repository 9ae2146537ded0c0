"""The folder each call has for files it makes: private, kept when something is in it.

Removing a folder costs several times what renaming one does on a journaling file system, and most calls
leave theirs as they found it. So a folder that is still empty becomes the next call's, under its name. One
that a process which stays may still hold open becomes only that of a call to such a process of the same key.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable
from pathlib import Path

MOST_SPARE = 64
"""Empty folders kept for later calls; as many as usually run at once."""


class ArtifactFolders:
    """Hands out folders below `parent`."""

    def __init__(self, parent: Path) -> None:
        self._parent = os.fspath(parent)
        self._spare: dict[Hashable, list[str]] = {}
        self._count = 0

    def take(self, call_id: str, whose: Hashable = None) -> str:
        """An empty folder of that name, for its user alone. `whose`: who may still hold it open after the
        call; None for nobody. Raises OSError."""
        path = os.path.join(self._parent, call_id)
        while spare := self._pop(whose):
            try:
                os.rename(spare, path)
            except OSError:
                continue  # somebody tidied up
            return path
        os.makedirs(self._parent, stat.S_IRWXU, exist_ok=True)
        os.mkdir(path, stat.S_IRWXU)
        return path

    def give_back(self, path: str, *, settled: bool, whose: Hashable = None) -> None:
        """The call is over. `settled`: nobody but `whose` is left who could still write there; without that
        an empty folder is removed and not used again."""
        try:
            if settled and self._count < MOST_SPARE and _is_new(path):
                self._spare.setdefault(whose, []).append(path)
                self._count += 1
            else:
                os.rmdir(path)
        except OSError:
            return  # something is in it, or it is gone

    def close(self) -> None:
        """Remove what is left over."""
        for whose in tuple(self._spare):
            while spare := self._pop(whose):
                self.give_back(spare, settled=False)

    def _pop(self, whose: Hashable) -> str:
        """A spare folder of theirs; empty where there is none."""
        spares = self._spare.get(whose)
        if not spares:
            return ""
        self._count -= 1
        path = spares.pop()
        if not spares:
            del self._spare[whose]
        return path


def _is_new(path: str) -> bool:
    """Whether it is as `take` made it. Raises OSError."""
    about = os.lstat(path)
    own = stat.S_IFDIR | stat.S_IRWXU
    return about.st_mode == own and about.st_uid == os.geteuid() and not os.listdir(path)
