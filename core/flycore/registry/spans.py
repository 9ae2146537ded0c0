"""Where every key and value of a JSONC text stands: one linear scan over text that has parsed.

Positions in messages, duplicate keys, lint and edits that keep every comment all use the same index.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from flycore.model.json import pointer_join

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+\*/)
    |(?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')
    |(?P<punct>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,"'/]++)""",
    re.VERBOSE | re.DOTALL,
)
_JSON_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_JSON_WORD = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null")


class Span(NamedTuple):
    """Half-open range of character offsets."""

    start: int
    end: int


class Duplicate(NamedTuple):
    """A key written twice in one object; the parser keeps the last."""

    pointer: str
    first: Span
    second: Span


class Lint(NamedTuple):
    """Something JSON5 has and JSONC has not."""

    offset: int
    message: str
    remedy: str


@dataclass(slots=True)
class SpanIndex:
    """Spans by JSON pointer. A pointer that occurs twice has its last span, as parsers keep the last."""

    text: str
    keys: dict[str, Span] = field(default_factory=dict)
    values: dict[str, Span] = field(default_factory=dict)
    duplicates: list[Duplicate] = field(default_factory=list)
    lints: list[Lint] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def key(self, pointer: str) -> Span | None:
        """Span of the key, quotes included, of the member that `pointer` names."""
        return self.keys.get(pointer)

    def value(self, pointer: str) -> Span | None:
        """Span of the value that `pointer` names."""
        return self.values.get(pointer)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1."""
        if not self._lines:
            self._lines = line_starts(self.text)
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


def line_starts(text: str) -> list[int]:
    """Offsets at which lines begin."""
    lengths = accumulate(len(line) + 1 for line in text.split("\n"))
    return [0, *lengths][:-1]


@dataclass(slots=True)
class _Frame:
    pointer: str
    start: int
    is_object: bool
    count: int = 0
    pending: str | None = None
    """Pointer of the member whose value comes next."""
    seen: dict[str, Span] = field(default_factory=dict)


class _Scan:
    """The state of one scan: the open containers and what was found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = SpanIndex(text)
        self.stack: list[_Frame] = []

    def run(self) -> SpanIndex:
        """Walk all tokens."""
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
        """Pointer of the value that begins here."""
        if not self.stack:
            return ""
        frame = self.stack[-1]
        if frame.is_object:
            pointer, frame.pending = frame.pending or frame.pointer, None
            return pointer
        frame.count += 1
        return pointer_join(frame.pointer, frame.count - 1)

    def scalar(self, start: int, end: int) -> None:
        """A string or a word: a key where an object waits for one, else a value."""
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.is_object and frame.pending is None:
            self.member_key(frame, Span(start, end))
            return
        self.index.values[self.next_pointer()] = Span(start, end)
        self.lint(start, self.text[start:end])

    def member_key(self, frame: _Frame, span: Span) -> None:
        """Remember a key, and whether the object had it already."""
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
        """Note what only JSON5 allows."""
        if token[0] == "'":
            self.add_lint(start, "single quotes", "use double quotes")
        elif token[0] == '"':
            if not _JSON_STRING.fullmatch(token):
                what = "a line continuation" if re.search(r"\\[\n\r\u2028\u2029]", token) else "an escape"
                self.add_lint(start, f"{what} in a string that JSON does not have", 'use \\n, \\" or \\uXXXX')
        elif not _JSON_WORD.fullmatch(token):
            self.add_lint(start, f"{token[:40]} is JSON5 only", "write a decimal number, true, false or null")

    def add_lint(self, offset: int, message: str, remedy: str) -> None:
        """Keep a finding; a file full of them is told the first hundred."""
        if len(self.index.lints) < 100:
            self.index.lints.append(Lint(offset, message, remedy))


def scan(text: str) -> SpanIndex:
    """Index a text that a JSON5 parser has accepted; of another text the index is a best effort."""
    return _Scan(text).run()


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "skip"
        if kind != "skip":
            yield kind, match.start(), match.end()


def _key_name(token: str) -> str:
    """The name a key token spells."""
    if "\\" not in token:
        return token[1:-1] if token[0] in "\"'" else token
    import pyjson5

    name = next(iter(pyjson5.decode("{" + token + ":0}")))
    return str(name)
