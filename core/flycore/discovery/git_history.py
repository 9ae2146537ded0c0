"""Reads the first commit of a git repository from its object files.

git itself is not run: in a folder that nobody has trusted yet, its settings may name programs that git
starts. Each object is compared with its name, so a history can be copied but not made up. Sources:
gitformat-pack(5), gitrepository-layout(5).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

MOST_COMMITS = 50_000
"""Commits of a history that are followed; a longer one has no first commit that is known."""
MOST_PACKS = 200
MOST_BYTES = 262_144
"""Bytes of a commit; and of one that others in a pack are differences from."""
MOST_BYTES_IN_ALL = 268_435_456
"""Bytes that are decompressed for one history, so that hostile packs take no more than some seconds."""
DEEPEST = 128
"""How many differences may stand on one another. git makes 50."""
_CHUNK = 4_096
_KEPT = 256
"""Commits that are kept as bases of others."""
_COMMIT, _OFFSET_DELTA, _NAMED_DELTA = 1, 6, 7
_HEADER = re.compile(rb"tree [0-9a-f]{40,64}\n(?:parent ([0-9a-f]{40,64})\n)?")
_HASHES = {20: hashlib.sha1, 32: hashlib.sha256}


class HistoryError(Exception):
    """The history cannot be read, or not to its end."""


def first_commit(objects: Path, head: str) -> str:
    """Return the first commit of the history of `head`, by first parents, from the folder of objects.

    Raises HistoryError: for a shallow clone, for a longer history, and for files that are not as git writes
    them.
    """
    try:
        with ExitStack() as opened:
            reader = _Reader(objects, len(head) // 2, opened)
            name = bytes.fromhex(head)
            for _ in range(MOST_COMMITS):
                found = _HEADER.match(reader.commit(name))
                if found is None:
                    raise HistoryError("a commit has another form")
                if found[1] is None:
                    return name.hex()
                name = bytes.fromhex(found[1].decode("ascii"))
    except (OSError, ValueError, IndexError, KeyError, zlib.error) as error:
        raise HistoryError(str(error)) from error
    raise HistoryError(f"the history has more than {MOST_COMMITS} commits")


class _Budget:
    """How many bytes may still be decompressed."""

    def __init__(self) -> None:
        self._left = MOST_BYTES_IN_ALL

    def spend(self, size: int) -> None:
        """Take these bytes off. Raises HistoryError when none are left."""
        self._left -= size
        if self._left < 0:
            raise HistoryError(f"the history takes more than {MOST_BYTES_IN_ALL} bytes")


class _Reader:
    """The commits of a repository, from its loose objects and its packs."""

    def __init__(self, objects: Path, name_bytes: int, opened: ExitStack) -> None:
        self._objects = objects
        self._hash = _HASHES[name_bytes]
        self._budget = budget = _Budget()
        self._packs = [_Pack(path, name_bytes, opened, budget) for path in _pack_names(objects / "pack")]

    def commit(self, name: bytes) -> bytes:
        """Return the text of the commit."""
        text = self._loose(name) or self._packed(name)
        # Commits only: a name is the hash over kind, size and text.
        if self._hash(b"commit %d\0%s" % (len(text), text)).digest() != name:
            raise HistoryError("an object is not what its name says")
        return text

    def _loose(self, name: bytes) -> bytes:
        digits = name.hex()
        try:
            fd = _open(self._objects / digits[:2] / digits[2:])
        except FileNotFoundError:
            return b""
        with os.fdopen(fd, "rb") as file:
            whole = zlib.decompressobj().decompress(file.read(MOST_BYTES), MOST_BYTES)
        self._budget.spend(len(whole))
        return whole.partition(b"\0")[2]

    def _packed(self, name: bytes) -> bytes:
        for pack in self._packs:
            offset = pack.find(name)
            if offset is not None:
                return pack.commit_at(offset)
        raise HistoryError(f"{name.hex()} is not there")


class _Pack:
    """One pack with its index of version 2."""

    def __init__(self, index: Path, name_bytes: int, opened: ExitStack, budget: _Budget) -> None:
        self._width = name_bytes
        self._budget = budget
        self._index = _open(index)
        opened.callback(os.close, self._index)
        self._data = _open(index.with_suffix(".pack"))
        opened.callback(os.close, self._data)
        head = os.pread(self._index, 8 + 1_024, 0)
        if head[:8] != b"\xfftOc\0\0\0\x02" or len(head) != 1_032:
            raise HistoryError(f"{index.name} has another form")
        self._fanout = [int.from_bytes(head[at : at + 4], "big") for at in range(8, 1_032, 4)]
        self._kept: dict[int, bytes] = {}

    def find(self, name: bytes) -> int | None:
        """Return the offset of the object in the pack; None if it is not there."""
        low = self._fanout[name[0] - 1] if name[0] else 0
        high = self._fanout[name[0]]
        while low < high:
            middle = (low + high) // 2
            found = os.pread(self._index, self._width, 1_032 + middle * self._width)
            if found == name:
                return self._offset(middle)
            low, high = (middle + 1, high) if found < name else (low, middle)
        return None

    def _offset(self, number: int) -> int:
        # Behind the names stand a checksum and an offset for each, of four bytes, and then the long offsets.
        count = self._fanout[-1]
        offsets = 1_032 + count * (self._width + 4)
        short = int.from_bytes(os.pread(self._index, 4, offsets + 4 * number), "big")
        if not short & 0x8000_0000:
            return short
        long = offsets + 4 * count + 8 * (short & 0x7FFF_FFFF)
        return int.from_bytes(os.pread(self._index, 8, long), "big")

    def commit_at(self, offset: int) -> bytes:
        """Return the text of the commit at that offset, put together from what it is a difference from."""
        deltas: list[bytes] = []
        while offset not in self._kept:
            head = os.pread(self._data, 128, offset)
            kind, at = head[0] >> 4 & 7, 1
            while head[at - 1] & 0x80:  # the size follows, which is not needed
                at += 1
            before: int | None = None
            if kind == _OFFSET_DELTA:
                back, at = _backwards(head, at)
                before = offset - back
            elif kind == _NAMED_DELTA:
                before, at = self.find(head[at : at + self._width]), at + self._width
            elif kind != _COMMIT:
                raise HistoryError("a commit's name leads to another kind of object")
            content = self._inflate(offset + at)
            if kind == _COMMIT:
                self._keep(offset, content)
                break
            deltas.append(content)
            if before is None or before < 0 or len(deltas) > DEEPEST:
                raise HistoryError("a difference stands on nothing that can be read")
            offset = before
        text = self._kept[offset]
        for delta in reversed(deltas):
            text = b"".join(_pieces(text, delta))
            self._budget.spend(len(text))
        return text

    def _keep(self, offset: int, content: bytes) -> None:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[offset] = content

    def _inflate(self, at: int) -> bytes:
        stream = zlib.decompressobj()
        whole = b""
        while not stream.eof:
            chunk = os.pread(self._data, _CHUNK, at)
            whole += stream.decompress(chunk, MOST_BYTES - len(whole) + 1)
            if not chunk or len(whole) > MOST_BYTES:
                raise HistoryError("an object is cut off or too large")
            at += _CHUNK
        self._budget.spend(len(whole))
        return whole


def _pack_names(folder: Path) -> list[Path]:
    """The indexes of the packs, the largest first, in which a commit is most likely."""
    try:
        with os.scandir(folder) as entries:
            names = (entry for entry in entries if entry.name.endswith(".idx"))
            found = list(islice(names, MOST_PACKS + 1))
            if len(found) > MOST_PACKS:
                raise HistoryError(f"there are more than {MOST_PACKS} packs")
            sized = sorted((-entry.stat().st_size, entry.name) for entry in found)
    except FileNotFoundError:
        return []
    return [folder / name for _, name in sized]


def _open(path: Path) -> int:
    """Open a regular file for reading. The caller closes it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HistoryError(f"{path.name} is not a regular file")
    return fd


def _backwards(head: bytes, at: int) -> tuple[int, int]:
    """Read how far back the base of a difference stands. Returns it with the offset of what follows."""
    value = head[at] & 0x7F
    while head[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | head[at] & 0x7F
    return value, at + 1


def _pieces(base: bytes, delta: bytes) -> Iterator[bytes]:
    """Yield the pieces of what the difference makes of its base."""
    _, at = _size(delta, 0)
    size, at = _size(delta, at)
    if size > MOST_BYTES:
        raise HistoryError("a commit is too large")
    made = 0
    while at < len(delta):
        order, at = delta[at], at + 1
        if order & 0x80:
            start, at = _number(delta, at, order, 4)
            length, at = _number(delta, at, order >> 4, 3)
            piece = base[start : start + (length or 0x10000)]
        else:
            piece, at = delta[at : at + order], at + order
        made += len(piece)
        if not piece or made > size:
            raise HistoryError("a difference is not as git writes it")
        yield piece


def _size(delta: bytes, at: int) -> tuple[int, int]:
    value, shift = delta[at] & 0x7F, 7
    while delta[at] & 0x80:
        if shift > 63:
            raise HistoryError("a size is not as git writes it")
        at += 1
        value |= (delta[at] & 0x7F) << shift
        shift += 7
    return value, at + 1


def _number(delta: bytes, at: int, present: int, most: int) -> tuple[int, int]:
    """Read a number of which only the bytes named by the bits of `present` stand in the difference."""
    value = 0
    for place in range(most):
        if present & 1 << place:
            value |= delta[at] << 8 * place
            at += 1
    return value, at
