"""Where the entries of a well-behaved registry stand, without looking at every token.

`spans.scan` knows everything and visits each token in Python. Nearly every registry is plain JSONC,
and of it only the entries are wanted: a regular expression, bounded in depth, skips whole entries at
the speed of C. It accepts plain JSONC only (no JSON5 syntax, a colon right after its key); whatever
else it meets, the answer is None, and the full scan decides.
"""

from __future__ import annotations

import re
from functools import cache

_STRING = r'"[^"\\\x00-\x1f]*+(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*+)*+"'
_COMMENT = r"//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+\*/"
_GAP = rf"[ \t\r\n,]*+(?:(?:{_COMMENT})[ \t\r\n,]*+)*+"
_PLAIN = r"[-0-9eEtrufalsn \t\r\n,]*+"
_FRACTION = r"(?<=[0-9])\.(?=[0-9])"
_DEPTH = 8
"""Levels of braces and brackets, an entry's own among them; `permissions.fs.read` is at four."""

EntryOutline = tuple[int, int]
"""Offset of an entry's key, and of what follows its closing brace."""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For a key (or a closing brace) with what precedes it, and for a value."""
    nested = "(?!)"
    for _ in range(_DEPTH):
        nested = rf"[\[{{]{_PLAIN}(?:(?:{_STRING}:?+|{_FRACTION}|{_COMMENT}|{nested}){_PLAIN})*+[\]}}]"
    key = rf'{_GAP}(?:"([^"\\\x00-\x1f]*+)":(?:[ \t\r\n]++|{_COMMENT})*+|(\}}))'
    value = rf"(?:{_STRING}|{nested}|(?:[-0-9eEtrufalsn]++|{_FRACTION})++)"
    return re.compile(key), re.compile(rf"{key}(?:(?<=\}})|{value})")


def outline(text: str) -> tuple[dict[str, EntryOutline], int] | None:
    """Offsets by sidecar id, and how many key-like places (`":`) the text has, comments and strings
    included; None where the text is anything but plain JSONC with each id once."""
    key, member = _patterns()
    position = text.find("{") + 1
    entries: dict[str, EntryOutline] = {}
    seen: set[str] = set()
    if position == 0 or not re.fullmatch(_GAP, text[: position - 1]):
        return None
    while True:
        found = key.match(text, position)
        if found is None:
            return None
        if found[2]:
            break
        name = found[1]
        if name in seen:
            return None
        seen.add(name)
        if name == "sidecars" and text.startswith("{", found.end()):
            end = _entries(text, found.end() + 1, entries)
        else:
            whole = member.match(text, position)
            end = whole.end() if whole else None
        if end is None:
            return None
        position = end
    if not re.fullmatch(_GAP, text[found.end() :]):
        return None
    return entries, text.count('":')


def members(text: str) -> dict[str, int] | None:
    """Offset of each key of the object in `"key": {…}`, of one written twice the last; None where the text
    is anything but plain JSONC."""
    key, member = _patterns()
    head = key.match(text)
    if head is None or not text.startswith("{", head.end()):
        return None
    position = head.end() + 1
    found: dict[str, int] = {}
    while True:
        match = member.match(text, position)
        if match is None:
            return None
        if match[2]:
            return found
        found[match[1]] = match.start(1) - 1
        position = match.end()


def _entries(text: str, position: int, entries: dict[str, EntryOutline]) -> int | None:
    """Read the entries of the object that begins before `position`; its end, or None."""
    member = _patterns()[1].match
    while True:
        found = member(text, position)
        if found is None:
            return None
        position = found.end()
        if found[2]:
            return position
        if found[1] in entries or text[position - 1] != "}":
            return None
        entries[found[1]] = found.start(1) - 1, position
