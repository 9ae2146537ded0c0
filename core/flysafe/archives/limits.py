"""How much an archive may hold, and the one error that says why it is refused."""

from __future__ import annotations

from dataclasses import dataclass


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
