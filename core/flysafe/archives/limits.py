"""Limits of archives, the names of entries that are accepted, and the error for a refused archive."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum


class ArchiveRefused(Exception):
    """The archive is not extracted, or not created.

    `code` is one of `unsafe-entry`, `too-many`, `too-big`, `broken`, `encrypted`, `unsupported`, `exists`.
    `entry` is the name of the entry that caused it, as the archive spells it.
    """

    def __init__(self, code: str, message: str, entry: str = "") -> None:
        super().__init__(f"{entry}: {message}" if entry else message)
        self.code = code
        self.message = message
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """The limits beyond which an archive is refused."""

    entries: int = 10_000
    bytes: int = 1 << 30
    """Unpacked bytes of all files together."""
    ratio: int = 100
    """Unpacked bytes for each byte of the archive. Applies once `ratio_from` bytes are unpacked."""
    ratio_from: int = 10 << 20
    """Unpacked bytes below which the ratio is not checked: a small text may pack better than `ratio`."""
    depth: int = 32
    """Nested folders."""
    path_bytes: int = 1_024
    header_bytes: int = 1 << 20
    """Bytes of the names and attributes of one entry, which are read into memory at once."""

    def count(self, entries: int) -> None:
        """Raise ArchiveRefused where there are too many entries."""
        if entries > self.entries:
            raise ArchiveRefused("too-many", f"more than {self.entries} entries")

    def weigh(self, written: int, archive_bytes: int) -> None:
        """Raise ArchiveRefused where the bytes are too many, in total or for an archive of that size."""
        if written > self.bytes:
            raise ArchiveRefused("too-big", f"more than {self.bytes} bytes unpacked")
        if written > self.ratio_from and written > archive_bytes * self.ratio:
            raise ArchiveRefused("too-big", f"unpacks to more than {self.ratio} times its size")


LIMITS = ArchiveLimits()

_DRIVE = re.compile(r"[A-Za-z]:")
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text beside them."""
_HIDDEN = frozenset(("Cc", "Cs", "Zl", "Zp"))
_COMPONENT_BYTES = 255


class Format(Enum):
    """The formats of archives that can be read and written."""

    ZIP = "zip"
    TAR = "tar"
    TAR_GZ = "tar.gz"


def format_of(name: str) -> Format | None:
    """Return the format that belongs to the ending of a file name; None for any other ending."""
    lowered = name.lower()
    if lowered.endswith(".zip"):
        return Format.ZIP
    if lowered.endswith((".tar.gz", ".tgz")):
        return Format.TAR_GZ
    return Format.TAR if lowered.endswith(".tar") else None


def parts_of(name: str, limits: ArchiveLimits) -> tuple[str, ...]:
    """Return the folders and the last name of an entry; empty for the top folder itself.

    Raises ArchiveRefused (`unsafe-entry`) for a name that leads outside, means something else on another
    system, hides a part of itself, or is too long.
    """
    why = _why_unsafe(name, limits)
    if why:
        raise ArchiveRefused("unsafe-entry", why, name)
    return tuple(part for part in name.split("/") if part not in ("", "."))


def _why_unsafe(name: str, limits: ArchiveLimits) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/"):
        return "an absolute path"
    if "\\" in name:
        return "a backslash, which some systems read as a folder"
    if _DRIVE.match(name):
        return "a drive letter"
    if ".." in parts:
        return "leads upwards"
    if any(character in _TURNING or unicodedata.category(character) in _HIDDEN for character in name):
        return "a control character, or one that is not text"
    if len(parts) > limits.depth + 1:
        return f"more than {limits.depth} folders deep"
    too_long = any(len(part.encode()) > _COMPONENT_BYTES for part in parts)
    if too_long or len(name.encode()) > limits.path_bytes:
        return "too long"
    return ""


class EntryNames:
    """The names of the entries so far. Two names that some file system treats as equal are equal here."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._folders: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._files: set[tuple[str, ...]] = set()

    def take(self, name: str, *, folder: bool) -> tuple[str, ...]:
        """Add a name and return its parts.

        Raises ArchiveRefused for a file with a name that is in use, for a file in the place of a folder or
        the other way round, and for names that differ only in case or in the composition of letters.
        """
        parts = parts_of(name, self._limits)
        if not parts and not folder:
            raise ArchiveRefused("unsafe-entry", "a file without a name", name)
        for length in range(1, len(parts) + (1 if folder else 0)):
            self._folder(parts[:length], name)
        if not folder:
            key = _key(parts)
            if key in self._files or key in self._folders:
                raise ArchiveRefused("unsafe-entry", "another entry has its name", name)
            self._files.add(key)
            self._limits.count(len(self._files) + len(self._folders))
        return parts

    def _folder(self, parts: tuple[str, ...], name: str) -> None:
        key = _key(parts)
        if key in self._files or self._folders.setdefault(key, parts) != parts:
            raise ArchiveRefused("unsafe-entry", "another entry has its name", name)
        self._limits.count(len(self._files) + len(self._folders))


def _key(parts: tuple[str, ...]) -> tuple[str, ...]:
    # Case, composition, and dots and spaces at the end are what macOS and Windows ignore.
    return tuple(unicodedata.normalize("NFKC", part).casefold().rstrip(". ") for part in parts)
