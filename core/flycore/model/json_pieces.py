"""Work on large JSON in small pieces, between which a worker thread lets the event loop run.

`json` in C and `re` hold the interpreter's lock from the beginning to the end of one call, which takes some
hundred milliseconds for a text of a megabyte. The loop can run again between two calls. So what is long is
done by many calls on pieces, and the result is the same.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from heapq import merge

from flysafe.patterns import repeated

PIECE_VALUES = 2_000
"""Parts of a value that are written, or strings that are removed, by one call: less than a millisecond."""
PIECE_CHARACTERS = 64
"""Characters of a string that take as long to write as one value more."""

_CHARACTERS = r'[^"\\]*+' + repeated(r'\\.[^"\\]*+')
_STRING = re.compile(f'"{_CHARACTERS}"?'.encode(), re.DOTALL)
_STRINGS = re.compile(repeated(f'[^"]*+"{_CHARACTERS}"', f"{{1,{PIECE_VALUES}}}").encode(), re.DOTALL)


def encode(encoder: json.JSONEncoder, value: object) -> str:
    """Return `encoder.encode(value)`, for an encoder without indent. Raises what the encoder raises."""
    # The main thread is the one of the event loop, or that of a command, which has nothing else to run.
    in_worker = threading.get_ident() != threading.main_thread().ident
    return "".join(_written(encoder, value)) if in_worker and _is_long(value) else encoder.encode(value)


def _written(encoder: json.JSONEncoder, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        # In the order in which the encoder writes them, so that a piece is a part of what it writes.
        items = _sorted(list(value.items())) if encoder.sort_keys else list(value.items())
        yield "{"
        between = ""
        for piece in _pieces([part for _, part in items]):
            yield between
            if piece.stop - piece.start == 1 and _is_long(items[piece.start][1]):
                key, part = items[piece.start]
                yield encoder.encode({key: None})[1 : -len("null}")]
                yield from _written(encoder, part)
            else:
                yield encoder.encode(dict(items[piece]))[1:-1]
            between = encoder.item_separator
        yield "}"
    elif isinstance(value, list):
        yield "["
        between = ""
        for piece in _pieces(value):
            yield between
            if piece.stop - piece.start == 1 and _is_long(value[piece.start]):
                yield from _written(encoder, value[piece.start])
            else:
                yield encoder.encode(value[piece])[1:-1]
            between = encoder.item_separator
        yield "]"
    else:
        yield encoder.encode(value)


def _pieces(parts: list[object]) -> Iterator[slice]:
    """Return the slices of the parts that are written by one call. A part that is long itself is alone."""
    start, size = 0, 0
    for at, part in enumerate(parts):
        if isinstance(part, str):
            more = 1 + len(part) // PIECE_CHARACTERS
        else:
            more = weight(part, PIECE_VALUES, PIECE_CHARACTERS) if isinstance(part, dict | list) else 1
        if size + more >= PIECE_VALUES and start < at:
            yield slice(start, at)
            start, size = at, 0
        size += more
    if start < len(parts):
        yield slice(start, len(parts))


def _sorted(items: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Return the items sorted by their keys. To sort 100,000 at once takes a quarter of a second."""
    starts = range(0, len(items), PIECE_VALUES)
    return list(merge(*(sorted(items[at : at + PIECE_VALUES]) for at in starts)))


def _is_long(value: object) -> bool:
    return weight(value, PIECE_VALUES, PIECE_CHARACTERS) >= PIECE_VALUES


def weight(value: object, most: int, characters: int) -> int:
    """Return the number of parts of a JSON value, `characters` of a string counting as one more; some number
    of at least `most` where there are that many."""
    counted = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        counted += 1
        if isinstance(part, str):
            counted += len(part) // characters
        elif isinstance(part, dict):
            counted += len(part) + sum(map(len, part)) // characters if len(part) < most else most
            if counted < most:
                waiting.extend(part.values())
        elif isinstance(part, list):
            # The length alone tells of a long array; its items are not looked at.
            counted += len(part) if len(part) >= most else 0
            if counted < most:
                waiting.extend(part)
        if counted >= most:
            return counted
    return counted


def without_strings(data: bytes) -> bytes:
    """Return a JSON text without its strings; a string that has no end reaches to the end of the text."""
    left: list[bytes] = []
    at = 0
    while found := _STRINGS.match(data, at):
        # Each piece ends behind a closing quote, so that the next one does not begin within a string.
        left.append(_STRING.sub(b"", data[at : found.end()]))
        at = found.end()
    left.append(_STRING.sub(b"", data[at:]))
    return b"".join(left)
