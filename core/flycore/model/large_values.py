"""Large values: what counts as large, so that work on it is done in a worker thread.

Whatever takes longer than some milliseconds on the event loop holds up every other caller. A value is large
by its text or by the number of its parts, since a small text can hold many values.
"""

from __future__ import annotations

from flycore.model.json_pieces import weight

LARGE_BYTES = 65_536
"""Bytes of text, or characters of all strings together, from which on a value is large."""
LARGE_VALUES = 5_000
"""Parts of a value from which on it is large: its strings, numbers, objects, arrays, and keys."""


def is_large_text(data: bytes) -> bool:
    """Whether a JSON text is large, or may hold many values. It is not parsed: each comma and bracket counts,
    those in strings as well."""
    return len(data) >= LARGE_BYTES or (
        len(data) >= LARGE_VALUES and sum(map(data.count, (b",", b"[", b"{"))) >= LARGE_VALUES
    )


def is_large(value: object) -> bool:
    """Whether a JSON value is large. It is walked through only as far as it is small."""
    return weight(value, LARGE_VALUES, LARGE_BYTES // LARGE_VALUES) >= LARGE_VALUES
