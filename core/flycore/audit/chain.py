"""Anchors: sequence numbers and hashes kept away from the log, which show that its end was cut off.

One JSON object a line, `{"seq": N, "hash": "…"}`. An anchor is only written for a line that is on disk.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from flysafe.atomic import private_folder

_MOST_BYTES = 64 * 1024 * 1024
_END_BYTES = 4096
"""Holds some forty anchors."""


class Anchor(NamedTuple):
    """The line `seq` existed, with this hash."""

    seq: int
    hash: str


class UnreadableAnchors(Exception):
    """The file holds something that was never written to it."""


class _AnchorLine(msgspec.Struct, forbid_unknown_fields=True):
    seq: int
    hash: str


_decode = msgspec.json.Decoder(_AnchorLine).decode


def read_anchors(path: Path) -> dict[int, str]:
    """Hash by sequence number; empty where there is no file. A last line without newline does not count.

    Raises UnreadableAnchors, OSError.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    if len(data) > _MOST_BYTES:
        raise UnreadableAnchors(f"{path.name} is larger than {_MOST_BYTES} bytes")
    anchors: dict[int, str] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            found = _decode(line)
        except msgspec.MsgspecError as error:
            raise UnreadableAnchors(f"{path.name}:{number} is no anchor") from error
        if anchors.setdefault(found.seq, found.hash) != found.hash:
            raise UnreadableAnchors(f"{path.name}:{number} contradicts an earlier anchor of line {found.seq}")
    return anchors


def last_anchor(path: Path) -> Anchor | None:
    """The newest anchor, without reading the others. Raises UnreadableAnchors, OSError."""
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _END_BYTES, 0))
            lines = file.read(_END_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    if not lines:
        return None
    try:
        found = _decode(lines[-1])
    except msgspec.MsgspecError as error:
        raise UnreadableAnchors(f"the last line of {path.name} is no anchor") from error
    return Anchor(found.seq, found.hash)


class AnchorFile:
    """Appends anchors; whoever has it also has the log, so there is one writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def write(self, anchor: Anchor) -> None:
        """Append one and put it on disk. Raises OSError."""
        if self._fd < 0:
            self._fd = self._open()
        line = b'{"seq":%d,"hash":"%s"}\n' % (anchor.seq, anchor.hash.encode("ascii"))
        size = os.fstat(self._fd).st_size
        if os.write(self._fd, line) != len(line):
            os.ftruncate(self._fd, size)
            raise OSError("no room for an anchor")
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        private_folder(self._path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        size = os.fstat(fd).st_size
        start = max(size - _END_BYTES, 0)
        end = os.pread(fd, _END_BYTES, start)
        if end and not end.endswith(b"\n"):
            os.ftruncate(fd, start + end.rfind(b"\n") + 1)  # half a line of a writer that was killed
        return fd


# What a line of the log looks like, and how each holds on to the one before.
#
# A line is one JSON object, ASCII, its members in a fixed order:
#
# {"seq":N,"time":"…Z","mono":S,"boot":"…","event":"…", …fields…, "prev":"<64 hex>","hash":"<64 hex>"}
#
# `hash` is the SHA-256 of the line's bytes as written, without the member `hash` and without the newline: the
# bytes up to it, closed by `}`. `prev` is the `hash` of the line before, in this month's file or an earlier
# one; GENESIS for the first line of all. So a change of any byte breaks the line it is in, and a line that is
# taken out, put in or moved breaks the one after it.


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
