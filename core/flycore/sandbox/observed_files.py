"""Notes of every file and folder that a seal was made from, so that the seal can be used again while one
`lstat` of each shows the same facts.

A path that was looked up in vain is noted, too: a file that appears there would have been part of the seal.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter

import msgspec

Facts = tuple[int, ...]

content_facts: Callable[[os.stat_result], Facts] = attrgetter(
    "st_ino", "st_ctime_ns", "st_mtime_ns", "st_size", "st_mode", "st_dev", "st_uid", "st_gid"
)
"""The facts of which at least one changes with the content, the owner or the rights of a file, or with the
names in a folder."""
way_facts: Callable[[os.stat_result], Facts] = attrgetter("st_ino", "st_mode", "st_dev", "st_uid", "st_gid")
"""The facts of a folder on the way to a file. Its times do not count, because every file that is made in it
changes them; the inode of a link changes with its target."""
SETTLED_NS = 100_000_000
"""What changed this recently is not kept: it could change again within one tick of the file system's clock,
and the second change would not show in any time."""
LINKS_FOLLOWED = 40
"""How many links one path may have: the limit of Linux."""


class Notes(msgspec.Struct):
    """What a seal was made from."""

    contents: dict[str, Facts] = msgspec.field(default_factory=dict)
    """The facts of files that were read and of folders that were listed."""
    ways: dict[str, Facts] = msgspec.field(default_factory=dict)
    """The facts of folders and links on the way to them."""
    absent: set[str] = msgspec.field(default_factory=set)
    digests: dict[str, str] = msgspec.field(default_factory=dict)
    """The digests of the files whose content was read."""
    began_ns: int = 0
    newest_ns: int = 0
    """The latest change of anything in `contents`."""

    @property
    def settled(self) -> bool:
        """Whether everything was last changed so long before the first look that a later change shows."""
        return self.began_ns - self.newest_ns > SETTLED_NS

    def tidy(self) -> None:
        """Leave out what is looked at twice: the facts of a content include those of a way."""
        self.ways = {path: facts for path, facts in self.ways.items() if path not in self.contents}

    def has_facts(self, path: str) -> bool:
        """Whether the file is as it was noted, by one `lstat`. Raises OSError where it is gone."""
        return self.contents.get(path) == content_facts(os.lstat(path))

    def hold(self) -> bool:
        """Whether everything is as it was noted, by one `lstat` each."""
        # Local names: this loop is most of what a seal costs at each call.
        look, content, way = os.lstat, content_facts, way_facts
        try:
            for path, facts in self.contents.items():
                if content(look(path)) != facts:
                    return False
            for path, facts in self.ways.items():
                if way(look(path)) != facts:
                    return False
        except OSError:
            return False
        return not any(map(os.path.lexists, self.absent))


_notes: ContextVar[Notes | None] = ContextVar("notes", default=None)


@contextmanager
def take_notes() -> Iterator[Notes]:
    """Note what the functions of this module are told while the block runs."""
    notes = Notes(began_ns=time.time_ns())
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_content(path: str, about: os.stat_result | None) -> None:
    """Note a file that is read, a folder that is listed, or, by None, a path that is absent."""
    notes = _notes.get()
    if notes is None:
        return
    if about is None:
        notes.absent.add(path)
        return
    # The first look counts: where a later one differs, the seal is made of two states and is not used again.
    notes.contents.setdefault(path, content_facts(about))
    notes.newest_ns = max(notes.newest_ns, about.st_ctime_ns)


def note_digest(path: str, sha: str) -> None:
    """Note the digest of a file's content."""
    notes = _notes.get()
    if notes is not None:
        notes.digests.setdefault(path, sha)


def note_way(path: str, about: os.stat_result | None) -> None:
    """Note a folder or link on the way to a file, or, by None, a path that is absent."""
    notes = _notes.get()
    if notes is None:
        return
    if about is None:
        notes.absent.add(path)
    else:
        notes.ways.setdefault(path, way_facts(about))


def real_path(path: str) -> str | None:
    """The path with all links followed; None where nothing is there. Every step is noted."""
    names = [name for name in path.split("/") if name not in ("", ".")][::-1]
    here, followed = "", 0
    while names:
        name = names.pop()
        if name == "..":
            # Without the slash of the root, which the next name would double.
            here = os.path.dirname(here).rstrip("/")
            continue
        step = f"{here}/{name}"
        about = _lstat(step)
        note_way(step, about)
        if about is None:
            return None
        if not stat.S_ISLNK(about.st_mode):
            here = step
            continue
        followed += 1
        try:
            target = os.readlink(step)
        except OSError:
            return None
        if followed > LINKS_FOLLOWED:
            return None
        here = "" if target.startswith("/") else here
        names += [part for part in target.split("/") if part not in ("", ".")][::-1]
    return here or "/"


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def is_unchanging(path: str) -> bool:
    """Whether this user can change neither the file nor any folder on the way to it. `path` has no links.

    Raises OSError where it is not there.
    """
    # Root can change everything. For root a file counts that root owns and nobody else may write.
    user = os.geteuid()
    current = path
    while True:
        about = os.stat(current, follow_symlinks=False)
        note_way(current, about)
        if user == 0:
            writable = about.st_uid != 0 or bool(about.st_mode & 0o022)
        else:
            writable = about.st_uid == user or os.access(current, os.W_OK, effective_ids=True)
        if writable:
            return False
        if current == "/":
            return True
        current = os.path.dirname(current)
