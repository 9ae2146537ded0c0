"""An output made to fit what an agent is meant to be handed, without changing its shape."""

from __future__ import annotations

import json

from flycore.model.json import Json

_MAX_STRING_CHARS = 65_536
_MAX_LIST_ITEMS = 4_096
_MIN_STRING_CHARS = 32


def as_text(output: Json) -> str:
    """The output as JSON for a model to read: letters beyond ASCII as themselves."""
    return json.dumps(output, ensure_ascii=False)


def size_of(output: Json) -> int:
    """Bytes of its text."""
    return len(as_text(output).encode("utf-8"))


def fit_to_limit(output: Json, limit: int) -> Json:
    """The output in at most `limit` bytes where that can be done: long strings lose their ends first, then
    long lists, each shape kept. What is still too large after that, such as an object of very many keys, is
    its text's beginning, a string. The value itself is not changed."""
    if size_of(output) <= limit:
        return output
    longest = _MAX_STRING_CHARS
    while longest >= _MIN_STRING_CHARS:
        if size_of(cut := _shorten(output, longest, None)) <= limit:
            return cut
        longest //= 2
    most = _MAX_LIST_ITEMS
    while most >= 1:
        if size_of(cut := _shorten(output, _MIN_STRING_CHARS, most)) <= limit:
            return cut
        most //= 2
    return as_text(output).encode("utf-8")[: max(0, limit - 8)].decode("utf-8", "ignore") + "…"


def _shorten(value: Json, longest: int, most: int | None) -> Json:
    if isinstance(value, str):
        return value if len(value) <= longest else value[: longest - 1] + "…"
    if isinstance(value, list):
        return [_shorten(item, longest, most) for item in value[:most]]
    if isinstance(value, dict):
        return {name: _shorten(item, longest, most) for name, item in value.items()}
    return value
