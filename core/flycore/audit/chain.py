"""What a line of the log looks like, and how each holds on to the one before.

A line is one JSON object, ASCII, its members in a fixed order:

    {"seq":N,"time":"…Z","mono":S,"boot":"…","event":"…", …fields…, "prev":"<64 hex>","hash":"<64 hex>"}

`hash` is the SHA-256 of the line's bytes as written, without the member `hash` and without the newline: the
bytes up to it, closed by `}`. `prev` is the `hash` of the line before, in this month's file or an earlier
one; GENESIS for the first line of all. So a change of any byte breaks the line it is in, and a line that is
taken out, put in or moved breaks the one after it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

GENESIS = "0" * 64
MOST_LINE_BYTES = 1_048_576
"""No line is longer; what reads the log never holds more than one."""
RESERVED = frozenset(("seq", "time", "mono", "boot", "event", "prev", "hash"))
"""Members that the log itself writes."""

_PART_FILE = re.compile(r"(\d{4}-\d{2})(?:\.([2-9]|[1-9]\d{1,5}))?\.jsonl", re.ASCII)
_HEAD = re.compile(rb'\{"seq":([1-9][0-9]{0,18}),"time":')
_TAIL = re.compile(rb',"prev":"([0-9a-f]{64})"')
_PREV_BYTES = len(',"prev":""') + 64
_HASH_BYTES = len(',"hash":""}') + 64


class LogFile(NamedTuple):
    """One file of the log. A month that outgrows its first file goes on in `YYYY-MM.2.jsonl`, then `.3`."""

    month: str
    """`YYYY-MM`."""
    number: int = 1

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.month}.jsonl" if self.number == 1 else f"{self.month}.{self.number}.jsonl"


class ChainLink(NamedTuple):
    """What the chain needs of a line."""

    seq: int
    prev: str
    hash: str


def seal_line(body: str, prev: str) -> tuple[bytes, str]:
    """The line's bytes, newline included, and its hash. `body` is the object without its last brace."""
    hashed = f'{body},"prev":"{prev}"'.encode("ascii")
    own = hashlib.sha256(hashed + b"}").hexdigest()
    return hashed + b',"hash":"' + own.encode("ascii") + b'"}\n', own


def read_link(line: bytes) -> ChainLink | None:
    """The link of a line without its newline; None where a byte of it is not as it was written."""
    hashed = line[:-_HASH_BYTES]
    head = _HEAD.match(hashed)
    tail = _TAIL.fullmatch(hashed, max(len(hashed) - _PREV_BYTES, 0))
    own = hashlib.sha256(hashed + b"}").hexdigest()
    if head is None or tail is None or line[-_HASH_BYTES:] != b',"hash":"' + own.encode("ascii") + b'"}':
        return None
    return ChainLink(int(head[1]), tail[1].decode("ascii"), own)


def log_file_of(path: Path) -> LogFile | None:
    """Which part of the log the file is, by its name; None for anything else."""
    named = _PART_FILE.fullmatch(path.name)
    return LogFile(named[1], int(named[2] or 1)) if named else None


def month_files(folder: Path) -> tuple[Path, ...]:
    """The log's files, oldest first; nothing else in the folder counts. OSError as the system says."""
    parts = ((log_file_of(path), path) for path in folder.iterdir())
    return tuple(path for _, path in sorted((part, path) for part, path in parts if part is not None))


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their newline, if any; one that is too long comes in pieces, so that none of them holds."""
    while line := file.readline(MOST_LINE_BYTES + 1):
        yield line
