"""The content store: copies of sealed programs, named by the digest of what they hold.

    <data dir>/store/<digest>/     a copy, read-only (see trees.py)
    <data dir>/store/.<what>.<…>   being made, or being removed; nothing is ever run from there
    <data dir>/store/.lock         shared while a copy is looked at, exclusive while old ones are taken away

A copy appears under its name by one rename, so of two processes that make it the first wins. Nothing is
synced to disk: each process reads a copy whole before its first use, so what a power cut tore is made anew.
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

from flycore.sandbox.tree_digest import copy_digest, copy_tree
from flysafe.atomic import private_folder

KEPT_SECONDS = 30 * 86_400.0
"""How long a copy nobody uses stays."""

_LEFT_SECONDS = 86_400.0
"""A copy that has been in the making for a day was left by a process that was ended."""
_TOUCH_SECONDS = 3_600.0
_ATTEMPTS = 3
_NOT_THE_COPY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
"""Reading failed for a reason that says nothing of the copy."""
_NAME = re.compile(r"[0-9a-f]{64}")


class SealBrokenError(OSError):
    """What would be run is not what was sealed, or it cannot be copied. Nothing may be run."""


def store_copy(store: Path, content: str, source: str) -> Path:
    """The folder of the copy whose digest is `content`, read again or known to be untouched; made of
    `source` where there is none, or where somebody changed it.

    Raises SealBrokenError where `source` is not `content` any more or the copy cannot be made.
    """
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
        # a write names no file: what lacks room then is the store
        raise SealBrokenError(
            fault.errno, fault.strerror or str(fault), fault.filename or str(store)
        ) from fault
    raise SealBrokenError(None, "keeps being changed", str(copy))


def prune(store: Path, now: float, keep: float = KEPT_SECONDS) -> int:
    """Remove copies nobody used for `keep` seconds, and what ended processes left; how many were removed.
    `now` is Unix time, seconds."""
    if not store.is_dir():
        return 0
    try:
        private_folder(store)
        with _locked(store, fcntl.LOCK_EX):
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
    """Whether the copy is there and untouched; it counts as used now."""
    try:
        about = os.lstat(copy)
        if about.st_uid != os.geteuid() or copy_digest(str(copy)) != content:
            return False
        if time.time() - about.st_mtime > _TOUCH_SECONDS:
            os.utime(copy)
    except OSError as fault:
        if fault.errno in _NOT_THE_COPY:
            raise
        return False
    return True


def _make(copy: Path, source: str) -> bool:
    """Copy the source; whether the copy now stands under its name, rather than somebody else's."""
    fresh = copy.parent / f".new.{secrets.token_hex(8)}"
    try:
        made = copy_tree(source, fresh)
        if made == copy.name:
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
    """Remove a copy that somebody changed, and not the good one that another process made meanwhile."""
    with _locked(copy.parent, fcntl.LOCK_EX):
        if not os.path.lexists(copy) or _is_good(copy, content):
            return
        aside = _set_aside(copy)
    _remove(aside)


def _expired(store: Path, now: float, keep: float) -> list[Path]:
    """What lies in the store and may go. Names the store does not give are nobody's."""
    found = []
    for path in store.iterdir():
        age = now - path.lstat().st_mtime
        copy = bool(_NAME.fullmatch(path.name)) and age > keep
        left = path.name.startswith((".new.", ".gone.")) and age > _LEFT_SECONDS
        if copy or left:
            found.append(path)
    return found


def _set_aside(path: Path) -> Path:
    """Take it out of use in one step."""
    aside = path.parent / f".gone.{secrets.token_hex(8)}"
    os.rename(path, aside)
    return aside


def _remove(path: Path) -> None:
    """Remove a copy, whose folders cannot be written, or whatever was put in its place. What cannot be
    removed stays for a later `prune`."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        os.chmod(path, 0o700)
        for folder, folders, _ in os.walk(path):
            for name in folders:
                inside = os.path.join(folder, name)
                if not os.path.islink(inside):
                    os.chmod(inside, 0o700)
    except OSError:
        return
    shutil.rmtree(path, ignore_errors=True)
