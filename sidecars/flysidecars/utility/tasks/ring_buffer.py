"""A file that keeps the last bytes of a stream.

The byte at offset `n` of the stream is at `n` modulo the buffer's size. The stream's length follows the
buffer, as 8 bytes, big-endian.
"""

from __future__ import annotations

import os

_COUNT = 8
"""Bytes of the stream's length at the end of the file."""


class RingBuffer:
    """The last `size` bytes of a stream, in the file of `descriptor`.

    One process writes. Others may read at any time without a lock, and may get bytes that are just being
    replaced.
    """

    __slots__ = ("_descriptor", "_size", "total")

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self.total = int.from_bytes(os.pread(descriptor, _COUNT, size), "big")
        """The length of the stream in bytes."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def write(self, data: bytes) -> None:
        """Append bytes to the stream."""
        self.total += len(data)
        kept = data[-self._size :]
        at = (self.total - len(kept)) % self._size
        first = kept[: self._size - at]
        os.pwrite(self._descriptor, first, at)
        os.pwrite(self._descriptor, kept[len(first) :], 0)
        os.pwrite(self._descriptor, self.total.to_bytes(_COUNT, "big"), self._size)

    def read(self, offset: int | None, max_bytes: int) -> tuple[int, bytes]:
        """At most `max_bytes` from `offset` on, or from the oldest kept byte if that is later; without an
        offset the last ones. Returns their offset and the bytes."""
        oldest = max(0, self.total - self._size)
        begin = max(oldest, self.total - max_bytes if offset is None else min(offset, self.total))
        length = min(max_bytes, self.total - begin)
        at = begin % self._size
        first = os.pread(self._descriptor, min(length, self._size - at), at)
        return begin, first + os.pread(self._descriptor, length - len(first), 0)


def decode_part(begin: int, data: bytes, *, whole: bool, cut: bool) -> tuple[int, str, int]:
    """Decode a part of a UTF-8 stream that begins at the offset `begin`.

    Returns the offset of the text, the text, and the offset to continue at. With `cut` the part may begin
    within a character, whose rest is left out. Unless `whole`, an incomplete character at the end is left
    for the next part.
    """
    start = 0
    while cut and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    end = len(data)
    if not whole:
        for back in range(1, min(4, end - start + 1)):
            byte = data[end - back]
            if byte & 0xC0 == 0xC0:
                needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                end -= back if needed > back else 0
                break
            if byte < 0x80:
                break
    return begin + start, data[start:end].decode("utf-8", "replace"), begin + end
