"""The folder each call has for files it makes: private, kept when something is in it.

Removing a folder costs several times what renaming one does on a journaling file system, and most calls
leave theirs as they found it. So a folder that is still empty becomes the next call's, under its name.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_SPARE = 64
"""Empty folders kept for later calls; as many as usually run at once."""


class ArtifactFolders:
    """Hands out folders below `parent`."""

    def __init__(self, parent: Path) -> None:
        self._parent = os.fspath(parent)
        self._spare: list[str] = []

    def take(self, call_id: str) -> str:
        """An empty folder of that name, for its user alone. Raises OSError."""
        path = os.path.join(self._parent, call_id)
        while self._spare:
            try:
                os.rename(self._spare.pop(), path)
            except OSError:
                continue  # somebody tidied up
            return path
        os.makedirs(self._parent, stat.S_IRWXU, exist_ok=True)
        os.mkdir(path, stat.S_IRWXU)
        return path

    def give_back(self, path: str, *, settled: bool) -> None:
        """The call is over. `settled`: nobody is left who could still write there; without that an empty
        folder is removed and not used again."""
        try:
            if settled and len(self._spare) < MOST_SPARE and _is_new(path):
                self._spare.append(path)
            else:
                os.rmdir(path)
        except OSError:
            return  # something is in it, or it is gone

    def close(self) -> None:
        """Remove what is left over."""
        while self._spare:
            self.give_back(self._spare.pop(), settled=False)


def _is_new(path: str) -> bool:
    """Whether it is as `take` made it. Raises OSError."""
    about = os.lstat(path)
    own = stat.S_IFDIR | stat.S_IRWXU
    return about.st_mode == own and about.st_uid == os.geteuid() and not os.listdir(path)
