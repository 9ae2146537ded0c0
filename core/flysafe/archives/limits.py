"""How much an archive may hold, and the one error that says why it is refused."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum


class ArchiveRefused(Exception):
    """The archive is not extracted, or not made. `code` is one of `unsafe-entry`, `too-many`, `too-big`,
    `broken`, `encrypted`, `unsupported`, `exists`; `entry` is the name it is about, as it was written."""

    def __init__(self, code: str, message: str, entry: str = "") -> None:
        super().__init__(f"{entry}: {message}" if entry else message)
        self.code = code
        self.message = message
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """What is refused beyond."""

    entries: int = 10_000
    bytes: int = 1 << 30
    """Of all files together, as they are written."""
    ratio: int = 100
    """Bytes written for each byte of the archive, once `ratio_from` bytes are written."""
    ratio_from: int = 10 << 20
    """Less than this fills no disk: text that repeats itself may pack better than `ratio`."""
    depth: int = 32
    """Folders in each other."""
    path_bytes: int = 1_024
    header_bytes: int = 1 << 20
    """Of one entry's names and attributes, which are read at once."""

    def count(self, entries: int) -> None:
        """Raise `Refused` for more entries than there may be."""
        if entries > self.entries:
            raise ArchiveRefused("too-many", f"more than {self.entries} entries")

    def weigh(self, written: int, archive_bytes: int) -> None:
        """Raise `Refused` where so many bytes are too many, in all or for an archive of that size."""
        if written > self.bytes:
            raise ArchiveRefused("too-big", f"more than {self.bytes} bytes unpacked")
        if written > self.ratio_from and written > archive_bytes * self.ratio:
            raise ArchiveRefused("too-big", f"unpacks to more than {self.ratio} times its size")


LIMITS = ArchiveLimits()


# Which names of entries are taken, and which archive a file's name promises.


_DRIVE = re.compile(r"[A-Za-z]:")
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the order of what stands beside them."""
_HIDDEN = frozenset(("Cc", "Cs", "Zl", "Zp"))
_COMPONENT_BYTES = 255


class Format(Enum):
    """The archives that are read and written."""

    ZIP = "zip"
    TAR = "tar"
    TAR_GZ = "tar.gz"


def format_of(name: str) -> Format | None:
    """The format that the end of a file's name promises; None for any other."""
    lowered = name.lower()
    if lowered.endswith(".zip"):
        return Format.ZIP
    if lowered.endswith((".tar.gz", ".tgz")):
        return Format.TAR_GZ
    return Format.TAR if lowered.endswith(".tar") else None


def parts_of(name: str, limits: ArchiveLimits) -> tuple[str, ...]:
    """The folders and the last name of an entry; empty for the top itself. `Refused` (`unsafe-entry`) for a
    name that leads out, means something else on another system, hides what it is, or is too long."""
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
        return "a control character, or one that is no text"
    if len(parts) > limits.depth + 1:
        return f"more than {limits.depth} folders deep"
    too_long = any(len(part.encode()) > _COMPONENT_BYTES for part in parts)
    if too_long or len(name.encode()) > limits.path_bytes:
        return "too long"
    return ""


class EntryNames:
    """The names taken so far, told apart as the pickiest file system would."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._folders: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._files: set[tuple[str, ...]] = set()

    def take(self, name: str, *, folder: bool) -> tuple[str, ...]:
        """The parts of a name that may be written; `Refused` for a file named twice, a file where a folder is
        or the other way round, and names that differ in case or composition alone."""
        parts = parts_of(name, self._limits)
        if not parts and not folder:
            raise ArchiveRefused("unsafe-entry", "a file without a name", name)
        for length in range(1, len(parts) + (1 if folder else 0)):
            self._folder(parts[:length], name)
        if not folder:
            key = _key(parts)
            if key in self._files or key in self._folders:
                raise ArchiveRefused("unsafe-entry", "its name is taken by another entry", name)
            self._files.add(key)
            self._limits.count(len(self._files) + len(self._folders))
        return parts

    def _folder(self, parts: tuple[str, ...], name: str) -> None:
        key = _key(parts)
        if key in self._files or self._folders.setdefault(key, parts) != parts:
            raise ArchiveRefused("unsafe-entry", "its name is taken by another entry", name)
        self._limits.count(len(self._files) + len(self._folders))


def _key(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFKC", part).casefold().rstrip(". ") for part in parts)
