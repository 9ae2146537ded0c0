"""The format of the audit log: its lines, the hash chain between them, its files, and its anchors.

A line is one JSON object in ASCII, with its members in a fixed order:

    {"seq":N,"time":"…Z","mono":S,"boot":"…","event":"…", …fields…, "prev":"<64 hex>","hash":"<64 hex>"}

`hash` is the SHA-256 of the line's bytes as written, without the member `hash` and the newline: the bytes
before `,"hash"`, closed by `}`. `prev` is the `hash` of the line before, in the same file or the one before
it, and GENESIS in the first line of the log. So a change to any byte breaks its own line, and a line that is
removed, inserted or moved breaks the line after it.

The chain alone does not show that lines were cut off at the end. Anchors do: the sequence number and hash of
some lines, kept in a file outside the log's folder, one JSON object `{"seq":N,"hash":"…"}` a line. An anchor
is written only for a line that is on disk.
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

GENESIS = "0" * 64
MOST_LINE_BYTES = 1_048_576
"""The longest line; a reader holds no more than one in memory."""
RESERVED = frozenset(("seq", "time", "mono", "boot", "event", "prev", "hash"))
"""Names of the members that the log itself writes."""

_FILE_NAME = re.compile(r"(\d{4}-\d{2})(?:\.([2-9]|[1-9]\d{1,5}))?\.jsonl", re.ASCII)
_HEAD = re.compile(rb'\{"seq":([1-9][0-9]{0,18}),"time":')
_TAIL = re.compile(rb',"prev":"([0-9a-f]{64})"')
_PREV_BYTES = len(',"prev":""') + 64
_HASH_BYTES = len(',"hash":""}') + 64


class LogFile(NamedTuple):
    """One file of the log: `YYYY-MM.jsonl`; when it is full, the month continues in `YYYY-MM.2.jsonl`."""

    month: str
    """`YYYY-MM`."""
    number: int = 1

    @property
    def name(self) -> str:
        """The file's name in the log's folder."""
        return f"{self.month}.jsonl" if self.number == 1 else f"{self.month}.{self.number}.jsonl"


class ChainLink(NamedTuple):
    """The members of one line that make up the chain."""

    seq: int
    prev: str
    hash: str


def seal_line(body: str, prev: str) -> tuple[bytes, str]:
    """Return the line's bytes with its newline, and its hash. `body` is the object without its last brace."""
    hashed = f'{body},"prev":"{prev}"'.encode("ascii")
    own = hashlib.sha256(hashed + b"}").hexdigest()
    return hashed + b',"hash":"' + own.encode("ascii") + b'"}\n', own


def read_link(line: bytes) -> ChainLink | None:
    """Return the link of a line (without newline); None if any byte differs from what was written."""
    # The bytes are hashed as they are, never parsed and written again: JSON has many forms of one value.
    hashed = line[:-_HASH_BYTES]
    head = _HEAD.match(hashed)
    tail = _TAIL.fullmatch(hashed, max(len(hashed) - _PREV_BYTES, 0))
    own = hashlib.sha256(hashed + b"}").hexdigest()
    if head is None or tail is None or line[-_HASH_BYTES:] != b',"hash":"' + own.encode("ascii") + b'"}':
        return None
    return ChainLink(int(head[1]), tail[1].decode("ascii"), own)


def log_file_of(path: Path) -> LogFile | None:
    """Return which file of the log this is, by its name; None if it is none."""
    match = _FILE_NAME.fullmatch(path.name)
    return LogFile(match[1], int(match[2] or 1)) if match else None


def month_files(folder: Path) -> tuple[Path, ...]:
    """Return the log's files, oldest first, and skip every other file in the folder. Raises OSError."""
    files = ((log_file_of(path), path) for path in folder.iterdir())
    return tuple(path for _, path in sorted((file, path) for file, path in files if file is not None))


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines with their newlines. A line longer than the log writes arrives in pieces.

    The pieces fail every check, and a file without newlines cannot fill the memory.
    """
    while line := file.readline(MOST_LINE_BYTES + 1):
        yield line


# Anchors.


_MOST_BYTES = 64 * 1024 * 1024
"""The largest anchor file that is read: about 700,000 anchors."""
_END_BYTES = 4096
"""The bytes read to find the last anchor; about forty anchors fit."""


class Anchor(NamedTuple):
    """A record that line `seq` was on disk with this hash."""

    seq: int
    hash: str


class UnreadableAnchors(Exception):
    """The anchor file has content that the log never wrote."""


class _AnchorLine(msgspec.Struct, forbid_unknown_fields=True):
    seq: int
    hash: str


_decode = msgspec.json.Decoder(_AnchorLine).decode


def read_anchors(path: Path) -> dict[int, str]:
    """Read every anchor, as hash by sequence number; empty if there is no file.

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
    # A last line without newline is left out: the writer was killed before it had finished.
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            found = _decode(line)
        except msgspec.MsgspecError as error:
            raise UnreadableAnchors(f"{path.name}:{number} is not an anchor") from error
        if anchors.setdefault(found.seq, found.hash) != found.hash:
            raise UnreadableAnchors(f"{path.name}:{number} contradicts an earlier anchor of line {found.seq}")
    return anchors


def last_anchor(path: Path) -> Anchor | None:
    """Read only the newest anchor; None if there is none. Raises UnreadableAnchors, OSError."""
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
        raise UnreadableAnchors(f"the last line of {path.name} is not an anchor") from error
    return Anchor(found.seq, found.hash)


class AnchorFile:
    """The anchor file, open for appending. Only the log's writer opens it, so it needs no lock of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def write(self, anchor: Anchor) -> None:
        """Append one anchor and sync it to disk. Raises OSError."""
        if self._fd < 0:
            self._fd = self._open()
        line = b'{"seq":%d,"hash":"%s"}\n' % (anchor.seq, anchor.hash.encode("ascii"))
        size = os.fstat(self._fd).st_size
        if os.write(self._fd, line) != len(line):
            # Half an anchor would become part of the next one, and the file unreadable.
            os.ftruncate(self._fd, size)
            raise OSError("the disk is full")
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file if it is open."""
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
            os.ftruncate(fd, start + end.rfind(b"\n") + 1)  # half a line: its writer was killed
        return fd
