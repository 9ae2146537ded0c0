"""Reads the entries of an archive one after the other.

The readers of the standard library do the parsing. What they trust is checked before they read, or while they
do: the size of the directory of a zip and whether its entries overlap, the size of the headers of a tar, and
how much a gzip unpacks to.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO

from flysafe.archives.limits import ArchiveLimits, ArchiveRefused, Format

_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
    struct.error,
    UnicodeError,
    OverflowError,
    NotImplementedError,
    ValueError,
)
"""The exceptions that the readers raise for a broken archive."""
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LOCAL_HEADER = 30
_DIRECTORY_BYTES_PER_ENTRY = 512
"""Bytes of the directory of a zip for each entry that the limits allow."""


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One file or folder. `open` may be called once, before the next entry is read."""

    name: str
    folder: bool
    executable: bool
    open: Callable[[], IO[bytes]]


@contextmanager
def broken_as_refused() -> Iterator[None]:
    """Turn the exceptions of the readers into ArchiveRefused (`broken`)."""
    try:
        yield
    except _BROKEN as error:
        raise ArchiveRefused("broken", f"the archive is damaged ({type(error).__name__})") from error


def entries(source: IO[bytes], kind: Format, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    """Yield the entries of an archive in their order. `source` must be seekable; the caller closes it.

    Raises ArchiveRefused: `encrypted`, `unsupported`, `too-many`, and `unsafe-entry` for links, devices and
    pipes. Use it within `broken_as_refused`, because the exceptions of the readers are not changed here.
    """
    size = os.fstat(source.fileno()).st_size
    if kind is Format.ZIP:
        return _zip_entries(source, size, limits)
    if kind is Format.TAR_GZ:
        return _tar_entries(_CountingFile(gzip.GzipFile(fileobj=source, mode="rb"), size, limits), limits)
    return _tar_entries(_CountingFile(source, size, limits), limits)


def _zip_entries(source: IO[bytes], size: int, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    _check_directory(source, size, limits)
    source.seek(0)
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        limits.count(len(infos))
        _check_overlap(infos)
        for info in infos:
            yield _zip_entry(archive, info)


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArchiveEntry:
    name = info.orig_filename
    mode = info.external_attr >> 16
    if info.flag_bits & _ENCRYPTED:
        raise ArchiveRefused("encrypted", "is encrypted", name)
    if info.compress_type not in _METHODS:
        raise ArchiveRefused("unsupported", f"compressed by method {info.compress_type}", name)
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveRefused("unsafe-entry", "neither file nor folder", name)
    folder = name.endswith("/")
    if folder != stat.S_ISDIR(mode) and stat.S_IFMT(mode):
        raise ArchiveRefused("unsafe-entry", "file and folder at once", name)
    return ArchiveEntry(name, folder, bool(mode & 0o100), lambda: archive.open(info))


def _check_directory(source: IO[bytes], size: int, limits: ArchiveLimits) -> None:
    """Refuse a zip whose end record states a directory that is too large."""
    # zipfile reads the whole directory into memory before anything of it can be checked.
    tail_at = max(0, size - (1 << 16) - 22)
    source.seek(tail_at)
    tail = source.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < 22:
        raise ArchiveRefused("broken", "not a zip archive, or cut off")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    wide = tail.rfind(b"PK\6\6", 0, at)
    if length == 0xFFFF_FFFF and wide >= 0:
        length = int.from_bytes(tail[wide + 40 : wide + 48], "little")
    if length > limits.entries * _DIRECTORY_BYTES_PER_ENTRY:
        raise ArchiveRefused("too-many", f"more than {limits.entries} entries")


def _check_overlap(infos: list[zipfile.ZipInfo]) -> None:
    """Refuse a zip whose entries share bytes: such a zip bomb unpacks to far more than its size suggests."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    if ordered and ordered[0].header_offset < 0:
        raise ArchiveRefused("broken", "an entry before the archive's first byte", ordered[0].orig_filename)
    for info, following in pairwise(ordered):
        end = info.header_offset + _LOCAL_HEADER + len(info.orig_filename) + info.compress_size
        if end > following.header_offset:
            raise ArchiveRefused(
                "unsafe-entry", "shares its bytes with another entry", following.orig_filename
            )


def _tar_entries(source: _CountingFile, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    with tarfile.TarFile(fileobj=source, mode="r", encoding="utf-8", errors="surrogateescape") as archive:
        for count, member in enumerate(archive, 1):
            limits.count(count)
            if not (member.isdir() or (member.isreg() and not member.issparse())):
                raise ArchiveRefused("unsafe-entry", "neither file nor folder", member.name)
            yield ArchiveEntry(
                member.name, member.isdir(), bool(member.mode & 0o100), _opener(archive, member)
            )


def _opener(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        content = archive.extractfile(member)
        return content if content is not None else io.BytesIO()

    return opened


class _CountingFile(io.RawIOBase):
    """The bytes of a tar, read forwards. Only the last `_BACK` bytes can be read again.

    Checks the bytes so far against the limits, and refuses a single read of more than a header may have.
    """

    _BACK = 1 << 12
    """Enough for tarfile, which only steps back within the header that it just read."""

    def __init__(self, plain: IO[bytes] | gzip.GzipFile, archive_bytes: int, limits: ArchiveLimits) -> None:
        super().__init__()
        self._plain, self._archive_bytes, self._limits = plain, archive_bytes, limits
        self._at = self._end = 0
        self._recent = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move forwards by reading, or backwards within the last bytes."""
        if whence != os.SEEK_SET or offset < self._end - len(self._recent):
            raise io.UnsupportedOperation("a tar is read forwards")
        if offset <= self._end:
            self._at = offset
        else:
            self._at = self._end
            while self._at < offset and self.read(min(offset - self._at, 1 << 16)):
                pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        # tarfile reads extended headers into memory whole, with a size that the archive states.
        if not 0 <= size <= self._limits.header_bytes:
            raise ArchiveRefused("too-big", f"a header of more than {self._limits.header_bytes} bytes")
        again = (
            self._recent[len(self._recent) - (self._end - self._at) :][:size] if self._at < self._end else b""
        )
        fresh = self._plain.read(size - len(again)) if len(again) < size else b""
        self._at += len(again) + len(fresh)
        if fresh:
            self._end = self._at
            self._recent = (self._recent + fresh)[-self._BACK :]
            self._limits.weigh(self._end - self._limits.header_bytes, self._archive_bytes)
        return again + fresh
