"""Reads a registry that is plain JSONC: JSON with comments and trailing commas, and without syntax of JSON5.

Nearly every registry is. With comments and trailing commas replaced by as many spaces, the text is JSON whose
offsets are those of the file. A decoder of JSON then finds the values, and how long each entry is, in a
fraction of the time that a scan of the text takes.

None is returned for every other text: the caller then parses it with the parser of JSON5, and scans it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from flycore.model.shared_values import SharedValues, with_shared_tools
from flycore.registry.jsonc.parse import MAX_DEPTH
from flycore.registry.jsonc.spans import Span

_COMMENT = re.compile(r"//|/\*")
_LINE_END = re.compile(r"[\n\r]")
_TRAILING_COMMA = re.compile(r",[ \t\r\n]*+[}\]]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_GAP = r"[ \t\r\n]*+"
_KEY = rf'"([^"\\\x00-\x1f]*+)":{_GAP}'
_FIRST = re.compile(rf"{_GAP}(?:{_KEY}|(\}}))")
_NEXT = re.compile(rf"{_GAP}(?:,{_GAP}{_KEY}|(\}}))")
_END = re.compile(rf"{_GAP}\Z")
_NOT_PLAIN = ("\0", "\u2028", "\u2029")
"""No comment may hold the first. The others end a comment, and are rare in a registry."""
_COLON_APART = re.compile(r":(?<=[ \t\r\n]:)")
"""Where a colon does not follow its key at once, keys cannot be counted by `":`."""


class PlainDocument(NamedTuple):
    """A document that is plain JSONC."""

    value: dict[str, Any]
    places: dict[str, Span]
    """The places of the entries of `sidecars` by id, from the key to the end of the value."""
    keys: int
    """The number of `":` in the text without its comments."""


class _NotPlain(Exception):
    """The text is not plain JSONC."""


def read_plain(text: str) -> PlainDocument | None:
    """Return the document; None where the text is not plain JSONC, has an id twice, or is nested too deep.

    Of other equal keys the last one counts, as in the parser of JSON5.
    """
    if any(character in text for character in _NOT_PLAIN):
        return None
    try:
        blank = _without_commas(_without_comments(text))
        return None if _COLON_APART.search(blank) else _document(blank)
    except (_NotPlain, ValueError, RecursionError):  # every fault that the decoder finds is a ValueError
        return None


def _document(blank: str) -> PlainDocument:
    data = blank.encode("utf-8")
    frame, start = _members().decode(data), blank.index("{") + 1
    value = {name: _value(name, written) for name, written in frame.items()}
    found, end = _values(blank, start, frame)
    if _END.match(blank, end) is None:
        raise _NotPlain
    for name, span in found.items():
        if name != "sidecars":
            _check_depth(value[name], blank, span, MAX_DEPTH - 1)
    if "sidecars" not in frame:
        return PlainDocument(value, {}, blank.count('":'))
    entries = value["sidecars"]
    inner, _ = _values(blank, found["sidecars"].start + 1, _members().decode(frame["sidecars"]))
    places: dict[str, Span] = {}
    for sidecar, span in inner.items():
        if not isinstance(entries[sidecar], dict):
            raise _NotPlain
        _check_depth(entries[sidecar], blank, span, MAX_DEPTH - 2)
        places[sidecar] = Span(blank.rindex(":", 0, span.start) - len(sidecar) - 2, span.end)
    return PlainDocument(value, places, blank.count('":'))


@cache
def _members() -> msgspec.json.Decoder[dict[str, msgspec.Raw]]:
    return msgspec.json.Decoder(dict[str, msgspec.Raw])


def _value(name: str, written: msgspec.Raw) -> Any:
    """Return a value of the document. Entries are decoded one by one, and equal schemas of their tools are
    one object: what is left over of one makes room for the next, and is not spread over the memory."""
    if name != "sidecars":
        return msgspec.json.decode(written)
    shared = SharedValues()
    return {
        sidecar: with_shared_tools(msgspec.json.decode(entry), shared)
        for sidecar, entry in _members().decode(written).items()
    }


def _values(blank: str, position: int, members: dict[str, msgspec.Raw]) -> tuple[dict[str, Span], int]:
    """Return the places of the values of an object that begins before `position`, and its end.

    The decoder has found how long each value is. Raises _NotPlain where a key is written twice.
    """
    spans: dict[str, Span] = {}
    only_ascii, pattern = blank.isascii(), _FIRST
    for name, raw in members.items():
        found = pattern.match(blank, position)
        if found is None or found[1] != name:
            raise _NotPlain
        start = found.end()
        position = start + (len(memoryview(raw)) if only_ascii else len(str(raw, "utf-8")))
        spans[name] = Span(start, position)
        pattern = _NEXT
    found = pattern.match(blank, position)
    if found is None or not found[2]:
        raise _NotPlain
    return spans, found.end()


def _check_depth(value: object, blank: str, span: Span, most: int) -> None:
    """Raise _NotPlain for a value that is nested deeper than `most` levels."""
    # Most values have so few brackets that they cannot be.
    if blank.count("{", *span) + blank.count("[", *span) > most:
        level = [value]
        for _ in range(most):
            level = [item for outer in level for item in _containers(outer)]
        if level:
            raise _NotPlain


def _containers(value: object) -> Iterator[object]:
    """Yield the objects and arrays directly in an object or array; it itself counts as one level."""
    if isinstance(value, dict):
        yield from (item for item in value.values() if isinstance(item, dict | list))
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict | list))


class _Quotes:
    """Says whether a place lies in a string. Places are asked in order, so that the whole is linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._escapes = "\\" in text
        self._position = 0
        self._inside = False

    def inside(self, place: int) -> bool:
        """Return whether the place lies in a string of JSON."""
        if self._escapes:
            count = _ESCAPE.sub("", self._text[self._position : place]).count('"')
        else:
            count = self._text.count('"', self._position, place)
        self._inside ^= count % 2 == 1
        self._position = place
        return self._inside

    def skip(self, place: int) -> None:
        """Go on at that place, which is outside of any string."""
        self._position = place


def _without_comments(text: str) -> str:
    """Return the text with spaces for its comments.

    A text with other strings than JSON's may lose more. But then the beginning of the first such string is
    still there, and the decoder refuses it.
    """
    quotes, pieces, last = _Quotes(text), list[str](), 0
    for found in _COMMENT.finditer(text):
        start = found.start()
        if start < last or quotes.inside(start):
            continue
        if found[0] == "//":
            ended = _LINE_END.search(text, start)
            end = ended.start() if ended else len(text)
        else:
            end = text.find("*/", start + 2) + 2
            if end < 2:
                raise _NotPlain
        pieces += text[last:start], " " * (end - start)
        last = end
        quotes.skip(end)
    return "".join([*pieces, text[last:]]) if last else text


def _without_commas(text: str) -> str:
    """Return the text without comments with spaces for its trailing commas."""
    quotes, pieces, last = _Quotes(text), list[str](), 0
    for found in _TRAILING_COMMA.finditer(text):
        start = found.start()
        if quotes.inside(start):
            continue
        before = start - 1
        while before >= 0 and text[before] in " \t\r\n":
            before -= 1
        if before < 0 or text[before] in "[{":  # a comma alone, which even JSON5 does not have
            raise _NotPlain
        pieces += text[last:start], " "
        last = start + 1
    return "".join([*pieces, text[last:]]) if last else text
