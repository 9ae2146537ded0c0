"""Which names of entries are taken, and which archive a file's name promises."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

from flysafe.archives.limits import ArchiveLimits, ArchiveRefused

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
