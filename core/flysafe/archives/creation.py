"""Creates archives of files below an anchor, in a fixed order. The final name appears when all is written."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from flysafe.archives.limits import LIMITS, ArchiveLimits, ArchiveRefused, EntryNames, Format, parts_of
from flysafe.beneath import open_beneath

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 16
_OLDEST_IN_ZIP = 315_532_800
"""1980-01-01 as Unix time, the earliest time that a zip can hold."""


@dataclass(frozen=True, slots=True)
class Created:
    """The contents of a new archive."""

    files: int
    folders: int
    bytes: int
    """Bytes of all files before packing."""
    archive_bytes: int
    skipped: tuple[str, ...]
    """Paths of links, devices, pipes and sockets, which are left out."""


def create(
    anchor_fd: int,
    paths: Sequence[str],
    kind: Format,
    folder_fd: int,
    name: str,
    limits: ArchiveLimits = LIMITS,
    on_progress: Callable[[int, int], None] | None = None,
) -> Created:
    """Pack the files and folders `paths`, relative to `anchor_fd`, into the new file `name` of `folder_fd`.

    `on_progress` is called with the entries and bytes so far, and may raise an exception to stop. Raises
    ArchiveRefused (`exists` where the name is in use, `too-many`, `too-big`, `unsafe-entry`) and OSError; no
    archive is left then.
    """
    beside = f".{secrets.token_hex(8)}.part"
    fd = os.open(beside, _NEW_FILE, 0o666, dir_fd=folder_fd)
    try:
        with os.fdopen(fd, "w+b") as file:
            packer = _ZipPacker(file) if kind is Format.ZIP else _TarPacker(file, kind)
            work = _Work(packer, limits, os.fstat(fd), on_progress)
            for path in paths:
                work.add(anchor_fd, "/".join(parts_of(path, limits)))
            packer.close()
            archive_bytes = file.seek(0, os.SEEK_END)
        try:
            # A link fails where the name exists, unlike a rename, which would replace that file.
            os.link(beside, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
        except FileExistsError as error:
            raise ArchiveRefused("exists", "exists already", name) from error
    finally:
        os.unlink(beside, dir_fd=folder_fd)
    return Created(work.files, work.folders, work.bytes, archive_bytes, tuple(work.skipped))


class _Work:
    """Packs files and folders, and counts them."""

    def __init__(
        self,
        packer: _ZipPacker | _TarPacker,
        limits: ArchiveLimits,
        itself: os.stat_result,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._packer, self._limits, self._itself = packer, limits, itself
        self._on_progress = on_progress
        self._names = EntryNames(limits)
        self.files = self.folders = self.bytes = 0
        self.skipped: list[str] = []

    def add(self, anchor_fd: int, path: str) -> None:
        """Pack a file, or a folder with its contents, sorted by name."""
        fd = open_beneath(anchor_fd, path or ".", _READ)
        try:
            self._add_open(fd, path)
        finally:
            os.close(fd)

    def _add_open(self, fd: int, path: str) -> None:
        found = os.fstat(fd)
        # The archive may lie in the folder that it packs; packing itself, it would never end.
        if os.path.samestat(found, self._itself):
            return
        if stat.S_ISDIR(found.st_mode):
            self._add_folder(fd, path, found)
        elif stat.S_ISREG(found.st_mode):
            self._names.take(path, folder=False)
            self._limits.weigh(self.bytes + found.st_size, self._limits.bytes)
            with os.fdopen(os.dup(fd), "rb") as content:
                self.bytes += self._packer.file(path, found, content)
            self.files += 1
        else:
            self.skipped.append(path)
        if self._on_progress is not None:
            self._on_progress(self.files + self.folders, self.bytes)

    def _add_folder(self, fd: int, path: str, found: os.stat_result) -> None:
        if path:
            self._names.take(path, folder=True)
            self._packer.folder(path, found)
            self.folders += 1
        for item in sorted(os.listdir(fd)):
            inner_path = f"{path}/{item}" if path else item
            # The type is looked at before opening, because opening some devices has effects of its own.
            mode = os.stat(item, dir_fd=fd, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                self.skipped.append(inner_path)
                continue
            inner = open_beneath(fd, item, _READ)
            try:
                self._add_open(inner, inner_path)
            finally:
                os.close(inner)


class _ZipPacker:
    def __init__(self, file: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def _info(self, name: str, found: os.stat_result) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, time.gmtime(max(found.st_mtime, _OLDEST_IN_ZIP))[:6])
        info.external_attr = (found.st_mode & (stat.S_IFMT(found.st_mode) | 0o777)) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        return info

    def folder(self, path: str, found: os.stat_result) -> None:
        self._archive.writestr(self._info(f"{path}/", found), b"")

    def file(self, path: str, found: os.stat_result, content: IO[bytes]) -> int:
        with self._archive.open(self._info(path, found), "w", force_zip64=found.st_size > 1 << 31) as out:
            return sum(out.write(chunk) for chunk in _chunks(content, found.st_size))

    def close(self) -> None:
        self._archive.close()


class _TarPacker:
    def __init__(self, file: IO[bytes], kind: Format) -> None:
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if kind is Format.TAR_GZ else None
        self._archive = tarfile.TarFile(fileobj=self._packed or file, mode="w", format=tarfile.PAX_FORMAT)

    def _info(self, name: str, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.mtime = kind, found.st_mode & 0o777, int(found.st_mtime)
        return info

    def folder(self, path: str, found: os.stat_result) -> None:
        self._archive.addfile(self._info(path, found, tarfile.DIRTYPE))

    def file(self, path: str, found: os.stat_result, content: IO[bytes]) -> int:
        info = self._info(path, found, tarfile.REGTYPE)
        info.size = found.st_size
        self._archive.addfile(info, content)
        return found.st_size

    def close(self) -> None:
        self._archive.close()
        if self._packed is not None:
            self._packed.close()


def _chunks(content: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield at most `size` bytes of the content. What is added to the file in the meantime is left out."""
    bytes_left = size
    while bytes_left and (chunk := content.read(min(bytes_left, _CHUNK))):
        bytes_left -= len(chunk)
        yield chunk
