"""Anchors: sequence numbers and hashes kept away from the log, which show that its end was cut off.

One JSON object a line, `{"seq": N, "hash": "…"}`. An anchor is only written for a line that is on disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

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
