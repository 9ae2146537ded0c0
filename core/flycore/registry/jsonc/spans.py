"""Finds the places of the keys and values in a JSONC text that has parsed.

`scan` makes an index of every key and value in one linear pass, with Python code for each token. Positions in
messages, duplicate keys, lints and edits use that index. Where only the places of an entry's keys are needed,
and the text is plain JSONC, without syntax of JSON5 and with each colon right after its key, `plain_keys`
skips whole values with a regular expression. It returns None for every other text, which then needs the full
scan. `plain` finds the places of the entries of such a text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import msgspec

from flycore.model.json import pointer_join
from flysafe.patterns import repeated

_BLOCK = repeated(r"[^*]++|\*(?!/)")
COMMENT = rf"//[^\n\r\u2028\u2029]*+|/\*{_BLOCK}\*/"
"""The pattern of a comment."""
_DOUBLE, _SINGLE = repeated(r'[^"\\]++|\\.'), repeated(r"[^'\\]++|\\.")
_TOKEN = re.compile(
    rf"""(?P<skip>[\s\ufeff]++|{COMMENT})
    |(?P<string>"{_DOUBLE}"|'{_SINGLE}')
    |(?P<punct>[{{}}\[\]:,])
    |(?P<word>[^\s{{}}\[\]:,"'/]++)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRING = r'"[^"\\\x00-\x1f]*+' + repeated(r'\\["\\/bfnrtu][^"\\\x00-\x1f]*+') + '"'
_GAP = r"[ \t\r\n,]*+" + repeated(rf"(?:{COMMENT})[ \t\r\n,]*+")
_WORDS = r"[-0-9eEtrufalsn \t\r\n,]*+"
_FRACTION = r"(?<=[0-9])\.(?=[0-9])"
_CHARACTER = r'[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_JSON_STRING = re.compile(f'"{repeated(_CHARACTER)}"')
_JSON_WORD = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null")


class Span(NamedTuple):
    """A half-open range of character offsets."""

    start: int
    end: int


class Duplicate(NamedTuple):
    """A key that is twice in one object. The parser keeps the last."""

    pointer: str
    first: Span
    second: Span


class Lint(NamedTuple):
    """A piece of syntax that JSON5 has and JSONC does not have."""

    offset: int
    message: str
    remedy: str


class SpanIndex(msgspec.Struct):
    """The spans of keys and values by JSON pointer. Of two equal keys it has the last, like the parser."""

    text: str
    keys: dict[str, Span] = msgspec.field(default_factory=dict)
    values: dict[str, Span] = msgspec.field(default_factory=dict)
    duplicates: list[Duplicate] = msgspec.field(default_factory=list)
    lints: list[Lint] = msgspec.field(default_factory=list)
    _lines: list[int] = msgspec.field(default_factory=list)

    def key(self, pointer: str) -> Span | None:
        """Return the span of the key at `pointer`, with its quotes."""
        return self.keys.get(pointer)

    def value(self, pointer: str) -> Span | None:
        """Return the span of the value at `pointer`."""
        return self.values.get(pointer)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character offset, both from 1."""
        if not self._lines:
            self._lines = line_starts(self.text)
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


def line_starts(text: str) -> list[int]:
    """Return the offsets of the beginnings of all lines."""
    lengths = accumulate(len(line) + 1 for line in text.split("\n"))
    return [0, *lengths][:-1]


class _Frame(msgspec.Struct):
    pointer: str
    start: int
    is_object: bool
    count: int = 0
    pending: str | None = None
    """Pointer of the member whose value comes next."""
    seen: dict[str, Span] = msgspec.field(default_factory=dict)


class _Scan:
    """The state of one scan: the open objects and arrays, and the index so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = SpanIndex(text)
        self.stack: list[_Frame] = []

    def run(self) -> SpanIndex:
        """Read all tokens and return the index."""
        for kind, start, end in _tokens(self.text):
            if kind != "punct":
                self.scalar(start, end)
            elif self.text[start] in "{[":
                self.stack.append(_Frame(self.next_pointer(), start, self.text[start] == "{"))
            elif self.text[start] in "}]" and self.stack:
                frame = self.stack.pop()
                self.index.values[frame.pointer] = Span(frame.start, end)
        return self.index

    def next_pointer(self) -> str:
        """Return the pointer of the value that begins here."""
        if not self.stack:
            return ""
        frame = self.stack[-1]
        if frame.is_object:
            pointer, frame.pending = frame.pending or frame.pointer, None
            return pointer
        frame.count += 1
        return pointer_join(frame.pointer, frame.count - 1)

    def scalar(self, start: int, end: int) -> None:
        """Add a string or a word: as a key where the object expects one, else as a value."""
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.is_object and frame.pending is None:
            self.member_key(frame, Span(start, end))
            return
        self.index.values[self.next_pointer()] = Span(start, end)
        self.lint(start, self.text[start:end])

    def member_key(self, frame: _Frame, span: Span) -> None:
        """Add a key, and a duplicate where the object has it already."""
        token = self.text[span.start : span.end]
        name = _key_name(token)
        frame.pending = pointer_join(frame.pointer, name)
        if name in frame.seen:
            self.index.duplicates.append(Duplicate(frame.pending, frame.seen[name], span))
        frame.seen[name] = span
        self.index.keys[frame.pending] = span
        if token[0] not in "\"'":
            self.add_lint(span.start, f"the key {token[:40]} has no quotes", f'write "{name[:40]}"')
        else:
            self.lint(span.start, token)

    def lint(self, start: int, token: str) -> None:
        """Add a lint where only JSON5 allows the token."""
        if token[0] == "'":
            self.add_lint(start, "single quotes", "use double quotes")
        elif token[0] == '"':
            if not _JSON_STRING.fullmatch(token):
                what = "a line continuation" if re.search(r"\\[\n\r\u2028\u2029]", token) else "an escape"
                self.add_lint(start, f"{what} in a string that JSON does not have", 'use \\n, \\" or \\uXXXX')
        elif not _JSON_WORD.fullmatch(token):
            self.add_lint(start, f"{token[:40]} is JSON5 only", "write a decimal number, true, false or null")

    def add_lint(self, offset: int, message: str, remedy: str) -> None:
        """Add a lint, at most 100 for one file."""
        if len(self.index.lints) < 100:
            self.index.lints.append(Lint(offset, message, remedy))


def scan(text: str) -> SpanIndex:
    """Return the index of a text that the parser accepted. For other texts it may be incomplete."""
    return _Scan(text).run()


def plain_keys(text: str) -> dict[str, int] | None:
    """Return the offset of each key of the object in `"key": {…}`, the last one of two equal keys.

    Returns None where the text is not plain JSONC.
    """
    key = _plain_patterns()[0]
    head = key.match(text)
    if head is None or not text.startswith("{", head.end()):
        return None
    position: int | None = head.end() + 1
    keys: dict[str, int] = {}
    while position is not None and (found := key.match(text, position)):
        if found[2]:
            return keys
        keys[found[1]] = found.start(1) - 1
        position = _plain_value(text, found.end())
    return None


def _plain_value(text: str, position: int) -> int | None:
    """Return the end of the value that begins at `position`; None where it is not plain."""
    _, scalar, step = _plain_patterns()
    if not text.startswith(("{", "["), position):
        found = scalar.match(text, position)
        return found.end() if found else None
    depth, position = 1, position + 1
    while depth:
        found = step.match(text, position)
        if found is None:
            return None
        depth += 1 if found[1] in "{[" else -1
        position = found.end()
    return position


@cache
def _plain_patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return three patterns: a key or closing brace, a scalar value, and the way to the next bracket."""
    # Each includes the gap before it. The third skips an object or array that has no other one inside in one
    # step, because most brackets belong to such. The possessive quantifiers (`*+`) keep all of them linear.
    after_key = repeated(rf"[ \t\r\n]++|{COMMENT}")
    key = rf'{_GAP}(?:"([^"\\\x00-\x1f]*+)":{after_key}|(\}}))'
    scalar = rf"{_PLAIN_STRING}|" + repeated(rf"[-0-9eEtrufalsn]++|{_FRACTION}", "+")
    item = rf"{_PLAIN_STRING}:?+|{_FRACTION}|{COMMENT}"
    innermost = r"[\[{]" + _WORDS + repeated(rf"(?:{item}){_WORDS}") + r"[\]}]"
    step = _WORDS + repeated(rf"(?:{item}|{innermost}){_WORDS}") + r"([\[\]{}])"
    return re.compile(key), re.compile(scalar), re.compile(step)


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "skip"
        if kind != "skip":
            yield kind, match.start(), match.end()


def _key_name(token: str) -> str:
    """Return the name that the token of a key spells."""
    if "\\" not in token:
        return token[1:-1] if token[0] in "\"'" else token
    import pyjson5

    name = next(iter(pyjson5.decode("{" + token + ":0}")))
    return str(name)
