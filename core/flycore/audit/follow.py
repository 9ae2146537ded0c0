"""Reading the log as it grows: each line once, and whether what was read before is still what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from flycore.audit.chain import MOST_LINE_BYTES, LogFile, log_file_of, month_files

_CHUNK = 1 << 20


class Follower:
    """A place in the log of one folder. Used from one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at: LogFile | None = None
        self._read = 0
        """Bytes of that file that were read."""
        self._files: dict[LogFile, tuple[int, int]] = {}
        """Device and inode of every file read so far."""
        self._end = b""
        """The last line that was read."""

    def replaced(self) -> bool:
        """Whether the log is no longer the one that was read, so that one has to start anew. OSError."""
        for part, known in self._files.items():
            try:
                facts = os.stat(self._folder / part.name)
            except FileNotFoundError:
                return True
            if (facts.st_dev, facts.st_ino) != known or (part == self._at and facts.st_size < self._read):
                return True
        if self._at is None or not self._end:
            return False
        with (self._folder / self._at.name).open("rb") as file:
            file.seek(self._read - len(self._end))
            return file.read(len(self._end)) != self._end

    def lines(self) -> Iterator[bytes]:
        """Whole lines that have come since, without newline; half a line waits for its end. OSError."""
        for path in month_files(self._folder) if self._folder.exists() else ():
            part = log_file_of(path)
            if part is None or (self._at is not None and part < self._at):
                continue
            if part != self._at:
                self._at, self._read, self._end = part, 0, b""
            yield from self._more(path, part)

    def _more(self, path: Path, part: LogFile) -> Iterator[bytes]:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            self._files[part] = facts.st_dev, facts.st_ino
            file.seek(self._read)
            rest = b""
            while chunk := file.read(_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._read += len(line) + 1
                    self._end = line + b"\n"
                    yield line
                if len(rest) > MOST_LINE_BYTES:
                    self._read += len(rest)
                    self._end = b""
                    yield rest
                    rest = b""
