"""Unpacks or copies a package into a new folder, gives its files the modes of a package, and syncs them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from flycore.packages.area import FOLDER_FLAGS, PackageRefused
from flycore.packages.tree import CHUNK, FILE, MOST_BYTES, MOST_FILES, PROGRAM, READ, walk
from flysafe.archives import ArchiveLimits, ArchiveRefused, extract, format_of
from flysafe.archives.limits import EntryNames
from flysafe.beneath import open_anchor, open_beneath

LIMITS = ArchiveLimits(entries=MOST_FILES, bytes=MOST_BYTES)
"""The limits of a package, whether it is an archive or a folder."""
MOST_ARCHIVE_BYTES = 512 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = 0o755


def unpack(source: Path, parent: int, name: str) -> None:
    """Make the new folder `name` of `parent` with what an archive or a folder has, and sync it.

    An archive with nothing but one folder stands for that folder. Raises PackageRefused with the code of
    ArchiveRefused, (`links`) for a link or a special file in a folder, (`source`) where there is neither an
    archive nor a folder, and OSError. What was written stays; the caller removes it.
    """
    try:
        if source.is_dir():
            os.mkdir(name, 0o700, dir_fd=parent)
            _copy_folder(source, parent, name)
        else:
            _extract(source, parent, name)
    except ArchiveRefused as error:
        raise PackageRefused(error.code, f"{source.name}: {error}") from error
    fd = open_beneath(parent, name, FOLDER_FLAGS)
    try:
        _normalise(fd, _FOLDER)
    finally:
        os.close(fd)
    os.fsync(parent)


def _extract(source: Path, parent: int, name: str) -> None:
    kind = format_of(source.name)
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PackageRefused("source", f"{source} cannot be opened: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if kind is None or not stat.S_ISREG(facts.st_mode):
            message = f"{source} is neither a folder nor an archive: .zip, .tar, .tar.gz or .tgz"
            raise PackageRefused("source", message)
        if facts.st_size > MOST_ARCHIVE_BYTES:
            raise PackageRefused("too-big", f"{source.name} is larger than {MOST_ARCHIVE_BYTES >> 20} MiB")
        extract(file, kind, parent, name, LIMITS)
    _lift(parent, name)


def _lift(parent: int, name: str) -> None:
    """Put the only folder of an archive in the place of the archive."""
    fd = open_beneath(parent, name, FOLDER_FLAGS)
    try:
        items = os.listdir(fd)
        if len(items) != 1 or not stat.S_ISDIR(os.stat(items[0], dir_fd=fd, follow_symlinks=False).st_mode):
            return
        inner = f"{name}-top"
        os.rename(items[0], inner, src_dir_fd=fd, dst_dir_fd=parent)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
    os.rename(inner, name, src_dir_fd=parent, dst_dir_fd=parent)


def _copy_folder(source: Path, parent: int, name: str) -> None:
    names, copied = EntryNames(LIMITS), 0
    anchor, target = open_anchor(source), open_beneath(parent, name, FOLDER_FLAGS)
    try:
        for path, is_folder in walk(anchor, ""):
            names.take(path, folder=is_folder)
            if is_folder:
                with_parent = os.path.split(path)
                above = open_beneath(target, with_parent[0] or ".", FOLDER_FLAGS)
                try:
                    os.mkdir(with_parent[1], 0o700, dir_fd=above)
                finally:
                    os.close(above)
            else:
                copied += _copy_file(anchor, target, path, LIMITS.bytes - copied)
    finally:
        os.close(anchor)
        os.close(target)


def _copy_file(anchor: int, target: int, path: str, room: int) -> int:
    """Copy one file; return its bytes. Raises ArchiveRefused (`too-big`) for more than `room`."""
    source = open_beneath(anchor, path, READ)
    with os.fdopen(source, "rb") as content:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            raise PackageRefused("links", f"{path}: changed while it was read")
        mode = 0o700 if facts.st_mode & 0o100 else 0o600
        size = 0
        with os.fdopen(open_beneath(target, path, _NEW_FILE, mode), "wb") as file:
            while chunk := content.read(CHUNK):
                size += len(chunk)
                if size > room:
                    raise ArchiveRefused("too-big", f"more than {LIMITS.bytes} bytes")
                file.write(chunk)
    return size


def _normalise(folder: int, mode: int) -> None:
    """Give files and folders the modes of a package, whatever the umask is, and sync all of them."""
    for name in sorted(os.listdir(folder)):
        fd = open_beneath(folder, name, READ)
        try:
            facts = os.fstat(fd)
            if stat.S_ISDIR(facts.st_mode):
                _normalise(fd, _FOLDER)
                continue
            os.fchmod(fd, PROGRAM if facts.st_mode & 0o100 else FILE)
            os.fsync(fd)
        finally:
            os.close(fd)
    os.fchmod(folder, mode)
    os.fsync(folder)
