"""Extracts archives below a descriptor, without following links: the whole archive or nothing of it."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from flysafe.archives.entries import ArchiveEntry, broken_as_refused, entries
from flysafe.archives.limits import LIMITS, ArchiveLimits, ArchiveRefused, EntryNames, Format
from flysafe.beneath import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Extracted:
    """The result of an extraction."""

    files: int
    folders: int
    bytes: int
    """Bytes of all files together."""


def extract(
    source: IO[bytes],
    kind: Format,
    parent_fd: int,
    name: str,
    limits: ArchiveLimits = LIMITS,
    on_progress: Callable[[int, int], None] | None = None,
) -> Extracted:
    """Extract an archive into the folder `name` of `parent_fd`, which may exist; nothing in it is replaced.

    `on_progress` is called with the entries and bytes so far, and may raise an exception to stop. Files get
    the mode of new files, and are executable where the archive says so for their owner. Owners, times and
    special bits of the archive are ignored. Raises ArchiveRefused, and OSError, for example for a full disk;
    nothing of the archive is left then.
    """
    # Beside the target, so that the entries can be moved there by `rename`, which needs one file system.
    beside = f".{secrets.token_hex(8)}.part"
    os.mkdir(beside, 0o700, dir_fd=parent_fd)
    try:
        beside_fd = os.open(beside, _FOLDER, dir_fd=parent_fd)
        try:
            writer = _Writer(beside_fd, os.fstat(source.fileno()).st_size, limits, on_progress)
            with broken_as_refused():
                for entry in entries(source, kind, limits):
                    writer.write(entry)
            _move(beside_fd, parent_fd, name)
        finally:
            os.close(beside_fd)
    finally:
        _remove(beside, parent_fd)
    return Extracted(writer.files, writer.folders, writer.bytes)


class _Writer:
    """Writes entries below a new folder."""

    def __init__(
        self,
        folder_fd: int,
        archive_bytes: int,
        limits: ArchiveLimits,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._folder_fd, self._archive_bytes, self._limits = folder_fd, archive_bytes, limits
        self._on_progress = on_progress
        self._names = EntryNames(limits)
        self.files = self.folders = self.bytes = 0

    def write(self, entry: ArchiveEntry) -> None:
        """Write one file or folder, and the folders that contain it."""
        parts = self._names.take(entry.name, folder=entry.folder)
        folders = parts if entry.folder else parts[:-1]
        fd = self._open_folders(folders)
        try:
            if not entry.folder:
                self._write_file(entry, fd, parts[-1])
                self.files += 1
        finally:
            os.close(fd)
        if self._on_progress is not None:
            self._on_progress(self.files + self.folders, self.bytes)

    def _open_folders(self, parts: tuple[str, ...]) -> int:
        fd = os.dup(self._folder_fd)
        for part in parts:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=fd)
                    self.folders += 1
                inner = open_beneath(fd, part, _FOLDER)
            finally:
                os.close(fd)
            fd = inner
        return fd

    def _write_file(self, entry: ArchiveEntry, folder_fd: int, name: str) -> None:
        fd = os.open(name, _NEW_FILE, 0o777 if entry.executable else 0o666, dir_fd=folder_fd)
        with os.fdopen(fd, "wb") as file, entry.open() as content:
            while chunk := content.read(_CHUNK):
                # The bytes that are really unpacked count, not the size that the archive states.
                self.bytes += len(chunk)
                self._limits.weigh(self.bytes, self._archive_bytes)
                file.write(chunk)


def _move(beside_fd: int, parent_fd: int, name: str) -> None:
    """Move everything from the new folder to the target. Nothing is moved where one of the names exists."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o777, dir_fd=parent_fd)
    try:
        target_fd = open_beneath(parent_fd, name, _FOLDER)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ArchiveRefused("exists", "the target is a link or not a folder", name) from error
        raise
    try:
        new_items = sorted(os.listdir(beside_fd))
        conflicts = set(os.listdir(target_fd)).intersection(new_items)
        if conflicts:
            raise ArchiveRefused("exists", "exists already; nothing was extracted", min(conflicts))
        moved: list[str] = []
        try:
            for item in new_items:
                os.rename(item, item, src_dir_fd=beside_fd, dst_dir_fd=target_fd)
                moved.append(item)
        except OSError:
            for item in moved:
                os.rename(item, item, src_dir_fd=target_fd, dst_dir_fd=beside_fd)
            raise
    finally:
        os.close(target_fd)


def _remove(name: str, parent_fd: int) -> None:
    """Remove the temporary folder, which may be gone. `rmtree` follows no links."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=parent_fd)
