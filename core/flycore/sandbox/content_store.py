"""The content store: copies of sealed programs, each named by the digest of its content.

<data dir>/store/<digest>/     a copy, read-only (see tree_digest.py)
<data dir>/store/.<what>.<…>   a copy that is being made or removed; nothing runs from there
<data dir>/store/.lock         locked shared while a copy is checked, exclusive while old ones are removed
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flycore.sandbox.digests import copy_digest, copy_tree
from flycore.sandbox.observed_files import Notes, take_notes
from flysafe.atomic import private_folder
from flysafe.spare_descriptors import NONE_LEFT

KEPT_SECONDS = 30 * 86_400.0
"""How long an unused copy is kept."""

_LEFT_SECONDS = 86_400.0
"""After this time an unfinished copy counts as left by a process that was ended."""
_TOUCH_SECONDS = 3_600.0
_ATTEMPTS = 3
_NOT_THE_COPY = (*NONE_LEFT, errno.ENOMEM, errno.EIO)
"""Errors of reading that say nothing about the copy, which must not be removed for them."""
_NAME = re.compile(r"[0-9a-f]{64}")
_MOST_CHECKED = 256
_checked: dict[str, Notes] = {}
"""What the copy at each path was checked by, of those that were as their name says."""


class SealBrokenError(OSError):
    """The program is not what was sealed, or it cannot be copied. It must not be run."""


def store_copy(store: Path, content: str, source: str) -> Path:
    """The folder of the copy whose digest is `content`, checked now. It is made from `source` where there is
    none, or where somebody changed it.

    Raises SealBrokenError where the content of `source` has changed, or the copy cannot be made.
    """
    # Nothing here is synced to disk: each process reads a copy as a whole before it first uses it, so that
    # a copy damaged by a power failure is made again.
    copy = store / content
    try:
        private_folder(store)
        for _ in range(_ATTEMPTS):
            with _locked(store, fcntl.LOCK_SH):
                if _is_good(copy, content):
                    return copy
                if not os.path.lexists(copy) and _make(copy, source):
                    return copy
            _clear_touched(copy, content)
    except SealBrokenError:
        raise
    except OSError as fault:
        # The error of a write names no file; then it is the store that has no room.
        raise SealBrokenError(
            fault.errno, fault.strerror or str(fault), fault.filename or str(store)
        ) from fault
    raise SealBrokenError(None, "keeps being changed", str(copy))


def prune(store: Path, now: float, keep: float = KEPT_SECONDS) -> int:
    """Remove copies that nobody used for `keep` seconds, and unfinished ones of ended processes. Returns how
    many were removed. `now` is Unix time in seconds."""
    if not store.is_dir():
        return 0
    try:
        private_folder(store)
        with _locked(store, fcntl.LOCK_EX):
            # Under the lock they are only renamed, which is quick; the removal needs no lock, because
            # nothing runs from a renamed folder.
            gone = [_set_aside(folder) for folder in _expired(store, now, keep)]
    except OSError:
        return 0
    for folder in gone:
        _remove(folder)
    return len(gone)


@contextmanager
def _locked(store: Path, how: int) -> Iterator[None]:
    descriptor = os.open(store / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _is_good(copy: Path, content: str) -> bool:
    """Whether the copy is there and unchanged. It counts as used from now on."""
    try:
        about = os.lstat(copy)
        if about.st_uid != os.geteuid() or not _holds(str(copy), content):
            return False
        # The time of the last use is the folder's mtime; it is set at most once an hour, to save writes.
        if time.time() - about.st_mtime > _TOUCH_SECONDS:
            os.utime(copy)
    except OSError as fault:
        if fault.errno in _NOT_THE_COPY:
            raise
        return False
    return True


def _holds(copy: str, content: str) -> bool:
    """Whether the content of the copy has that digest, which is its name."""
    # As for a seal: every file and folder is looked at, and where all are as they were when the digest was
    # taken, so is the digest. A name that comes or goes shows in its folder.
    checked = _checked.get(copy)
    if checked is not None and checked.hold():
        return True
    _checked.pop(copy, None)
    with take_notes() as notes:
        found = copy_digest(copy)
    if found == content and notes.settled:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked[copy] = notes
    return found == content


def _make(copy: Path, source: str) -> bool:
    """Copy the source and give the copy its name; False where another process was first."""
    fresh = copy.parent / f".new.{secrets.token_hex(8)}"
    try:
        made = copy_tree(source, fresh)
        if made == copy.name:
            # One rename, so that a copy never appears half made. It fails where another process has made
            # the copy meanwhile, which is then checked like any.
            os.rename(fresh, copy)
            return True
    except OSError as fault:
        if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    finally:
        _remove(fresh)
    raise SealBrokenError(None, "is not what was sealed", source)


def _clear_touched(copy: Path, content: str) -> None:
    """Remove a copy that somebody changed."""
    with _locked(copy.parent, fcntl.LOCK_EX):
        # Another process may have removed the bad copy and made a good one before this one got the lock.
        if not os.path.lexists(copy) or _is_good(copy, content):
            return
        aside = _set_aside(copy)
    _remove(aside)


def _expired(store: Path, now: float, keep: float) -> list[Path]:
    """The copies and unfinished copies that may be removed. Files with other names are left alone."""
    found = []
    for path in store.iterdir():
        age = now - path.lstat().st_mtime
        copy = bool(_NAME.fullmatch(path.name)) and age > keep
        left = path.name.startswith((".new.", ".gone.")) and age > _LEFT_SECONDS
        if copy or left:
            found.append(path)
    return found


def _set_aside(path: Path) -> Path:
    """Take the copy out of use by one rename, and return its new path."""
    aside = path.parent / f".gone.{secrets.token_hex(8)}"
    os.rename(path, aside)
    return aside


def _remove(path: Path) -> None:
    """Remove a copy, or whatever was put in its place. What cannot be removed is left for a later `prune`."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        # The folders of a copy are read-only, and nothing can be removed from a folder that cannot be
        # written.
        os.chmod(path, 0o700)
        for folder, folders, _ in os.walk(path):
            for name in folders:
                inside = os.path.join(folder, name)
                if not os.path.islink(inside):
                    os.chmod(inside, 0o700)
    except OSError:
        return
    shutil.rmtree(path, ignore_errors=True)
