"""The difference between two JSON values in lines for a person: `- /pointer: before`, `+ /pointer: after`.

Nothing that differs is left out. A long value continues in lines that begin with `- …` or `+ …`. Values are
written as JSON, so none can pass for another line. They are still text from outside, to be drawn through
`strict_text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from flycore.model.json import Json, canonical_json, pointer_join

LINE_CHARACTERS = 240
"""Characters of a line, besides the `- …` of one that continues another."""
DEEPEST = 32
"""Levels that are compared key by key; what lies deeper is compared and shown as a whole."""
_PLAIN_POINTER = re.compile(r"(?:/[A-Za-z0-9._~-]*)*")


def json_difference(before: Json, after: Json) -> tuple[str, ...]:
    """Return every place where the two values differ, in the order of their keys.

    Objects are compared key by key. Arrays are compared item by item, without the items at the beginning and
    the end that are equal. A value that only one side has is shown leaf by leaf. `1`, `1.0` and `true` are
    three different values. Raises what `canonical_json` raises for a value that is not JSON.
    """
    return tuple(_changes(before, after, ""))


def _changes(before: Json, after: Json, pointer: str) -> Iterator[str]:
    deep = _deep(pointer)
    if isinstance(before, dict) and isinstance(after, dict) and not deep:
        for key in sorted({*before, *after}):
            below = pointer_join(pointer, key)
            if key in before and key in after:
                yield from _changes(before[key], after[key], below)
            elif key in before:
                yield from _leaves("-", before[key], below)
            else:
                yield from _leaves("+", after[key], below)
    elif isinstance(before, list) and isinstance(after, list) and not deep:
        yield from _items(before, after, pointer)
    elif canonical_json(before) != canonical_json(after):
        yield from _leaves("-", before, pointer)
        yield from _leaves("+", after, pointer)


def _items(before: list[Json], after: list[Json], pointer: str) -> Iterator[str]:
    """Yield the differences between two arrays, without their equal beginning and end. Indexes of `-` lines
    are those before the change, of `+` lines those after it."""
    old, new = [canonical_json(item) for item in before], [canonical_json(item) for item in after]
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    alike = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
    for at in range(start, max(len(old), len(new)) - alike):
        below = f"{pointer}/{at}"
        if at >= len(old) - alike:
            yield from _leaves("+", after[at], below)
        elif at >= len(new) - alike:
            yield from _leaves("-", before[at], below)
        else:
            yield from _changes(before[at], after[at], below)


def _leaves(sign: str, value: Json, pointer: str) -> Iterator[str]:
    if isinstance(value, dict) and value and not _deep(pointer):
        for key in sorted(value):
            yield from _leaves(sign, value[key], pointer_join(pointer, key))
    elif isinstance(value, list) and value and not _deep(pointer):
        for at, item in enumerate(value):
            yield from _leaves(sign, item, f"{pointer}/{at}")
    else:
        shown = pointer if _PLAIN_POINTER.fullmatch(pointer) else _quoted(pointer)
        yield from _bounded(sign, f"{shown}: {_quoted(value)}" if shown else _quoted(value))


def _bounded(sign: str, text: str) -> Iterator[str]:
    yield f"{sign} {text[:LINE_CHARACTERS]}"
    for at in range(LINE_CHARACTERS, len(text), LINE_CHARACTERS):
        yield f"{sign} …{text[at : at + LINE_CHARACTERS]}"


def _deep(pointer: str) -> bool:
    return pointer.count("/") >= DEEPEST


def _quoted(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
