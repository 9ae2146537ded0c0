"""Edits one part of a JSONC text, and leaves every other byte and all comments as they are.

An edit has two steps. `set_members`, `insert_last` and `remove` plan it as changes of spans of the text.
`edited` makes the changes, and `verify` checks them: every byte outside of them is the same, and the new text
has the expected value when it is parsed. Where the check fails there is no edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flycore.model.json import Json, pointer_join
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.jsonc.spans import COMMENT, Span, SpanIndex
from flysafe.patterns import repeated
from flysafe.text import safe_text

_STEP = "  "
_TRIVIA = re.compile(repeated(rf"[\s\ufeff]++|{COMMENT}"))
_OPENING = re.compile(r"[ \t]*(?://[^\r\n]*)?(\r?\n)")
"""Text between the brace of an object and the end of the line."""


class Change(NamedTuple):
    """New text for a span. An empty span is an insertion."""

    span: Span
    text: str


def set_members(
    index: SpanIndex, pointer: str, members: Mapping[str, Json], *, behind: str = ""
) -> list[Change]:
    """Return the changes that give members of the object at `pointer` new values.

    New members come after its member `behind`, or first where there is no such member.
    """
    changes: list[Change] = []
    missing: list[str] = []
    for key, value in members.items():
        span = index.value(pointer_join(pointer, key))
        if span is None:
            missing.append(f"{json.dumps(key)}: {spelled(value)}")
        else:
            changes.append(Change(span, spelled(value)))
    before = index.value(pointer_join(pointer, behind))
    if missing and before is not None:
        changes.append(Change(Span(before.end, before.end), "".join(f", {member}" for member in missing)))
    elif missing:
        changes.append(_first(index, pointer, ", ".join(missing)))
    return changes


def insert_last(
    index: SpanIndex, pointer: str, value: Json, *, key: str | None = None, one_line: int = 0
) -> list[Change]:
    """Return the changes that add a last member (with its `key`) or item to the object or array at `pointer`.

    It comes after the comments about the one before it. It has its own lines, indented like the first
    member; a value of at most `one_line` characters has one line.
    """
    line = spelled(value)
    name = "" if key is None else f"{json.dumps(key)}: "
    part = name + (line if len(line) <= one_line else spelled(value, ""))
    return insert_last_lines(index, pointer, part.split("\n"))


def insert_last_lines(index: SpanIndex, pointer: str, lines: Sequence[str]) -> list[Change]:
    """Return the changes that add a last member or item to the object or array at `pointer`, written as these
    lines, which may begin with comments. Each line is indented like the first member."""
    text, whole = index.text, index.values[pointer]
    close = whole.end - 1
    newline = "\r\n" if "\r\n" in text else "\n"
    parts = _parts(index, pointer)
    outer = _indent(text, whole.start)
    inner = _indent(text, parts[0].start) if parts and _begins_line(text, parts[0]) else outer + _STEP
    part = "".join(f"\n{inner}{line}" if line else "\n" for line in lines)
    end = whole.start + len(text[whole.start : close].rstrip())
    changes = [Change(Span(end, end), part.replace("\n", newline))]
    if parts and _comma(text, parts[-1].end) is None:
        changes.insert(0, Change(Span(parts[-1].end, parts[-1].end), ","))
    if "\n" not in text[end:close]:
        changes.append(Change(Span(close, close), newline + outer))
    return changes


def remove(index: SpanIndex, pointer: str) -> list[Change]:
    """Return the changes that remove the member or item at `pointer`, with its comma.

    Lines that become blank are removed too; comments beside it stay.
    """
    text = index.text
    parts = _parts(index, pointer.rpartition("/")[0])
    end = index.values[pointer].end
    at = next(number for number, part in enumerate(parts) if part.end == end)
    comma = _comma(text, end)
    if comma is None and at:
        comma = _comma(text, parts[at - 1].end)
    gone = [parts[at]] if comma is None else sorted((parts[at], Span(comma, comma + 1)))
    return [Change(span, "") for span in _with_blank_lines(text, gone)]


def edited(text: str, changes: Iterable[Change], wanted: Json) -> str | None:
    """Return the text after the changes; None where its value is not `wanted`, or anything else changes."""
    changes = sorted(changes, key=lambda change: change.span)
    pieces: list[str] = []
    done = 0
    for span, new in changes:
        pieces += (text[done : span.start], new)
        done = span.end
    after = "".join((*pieces, text[done:]))
    return after if verify(text, after, changes, wanted) else None


def verify(before: str, after: str, changes: Iterable[Change], wanted: Json) -> bool:
    """Return whether `after` is `before` with exactly these changes, and has the value `wanted`.

    The changes must be in the order of the text.
    """
    old = new = 0
    for span, text in changes:
        expected = before[old : span.start] + text
        if span.start < old or not after.startswith(expected, new):
            return False
        old, new = span.end, new + len(expected)
    if before[old:] != after[new:]:
        return False
    value, problem = parse_jsonc(after, "")
    exact = _exact(wanted)
    return problem is None and exact is not None and _exact(value) == exact


def spelled(value: Json, indent: str | None = None) -> str:
    """Return the value as JSON in one line, or in several lines where `indent` is given.

    All lines but the first begin with `indent`. Raises ValueError for a value that JSON does not have.
    """
    step = None if indent is None else len(_STEP)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=step)
    line = text.replace("\n", "")
    # Characters that a person cannot see are escaped, so that the file shows what it holds.
    if not line.isprintable() or safe_text(line) != line:
        text = json.dumps(value, indent=step)
    return text if indent is None else text.replace("\n", f"\n{indent}")


def _exact(value: Json) -> str | None:
    """Return a text that is the same only for equal values; None for a value that is not JSON."""
    # Python's == does not tell 1, 1.0 and True apart, but a reader of the file does.
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except ValueError:
        return None


def _parts(index: SpanIndex, pointer: str) -> list[Span]:
    """Return the spans of the members with their keys, or of the items, in the order of the text."""
    found: list[Span] = []
    for below, span in index.values.items():
        if below.rpartition("/")[0] == pointer and below != pointer:
            key = index.key(below)
            found.append(span if key is None else Span(key.start, span.end))
    return sorted(found)


def _first(index: SpanIndex, pointer: str, members: str) -> Change:
    """Return the change that adds members after the brace of an object."""
    # They get their own line where the other members have one: in front of the first member they would come
    # between it and the comment above it.
    text, brace = index.text, index.values[pointer].start + 1
    parts = _parts(index, pointer)
    if not parts:
        return Change(Span(brace, brace), members)
    first = parts[0].start
    opening = _OPENING.match(text, brace, first)
    if opening is None or not _begins_line(text, parts[0]):
        return Change(Span(first, first), f"{members}, ")
    indent = text[text.rfind("\n", 0, first) + 1 : first]
    return Change(Span(opening.end(), opening.end()), f"{indent}{members},{opening.group(1)}")


def _with_blank_lines(text: str, gone: list[Span]) -> list[Span]:
    """Return the spans, extended to whole lines where the lines have nothing else. Overlaps are merged."""
    left = text
    for start, end in gone:
        left = f"{left[:start]}{' ' * (end - start)}{left[end:]}"
    wide: list[Span] = []
    for start, end in gone:
        begins, ends = left.rfind("\n", 0, start) + 1, left.find("\n", end)
        blank = ends >= 0 and not left[begins:ends].strip()
        span = Span(begins, ends + 1) if blank else Span(start, end)
        if wide and span.start < wide[-1].end:
            span = Span(wide[-1].start, max(span.end, wide.pop().end))
        wide.append(span)
    return wide


def _comma(text: str, offset: int) -> int | None:
    """Return the offset of the comma after a value and its comments; None where there is none."""
    trivia = _TRIVIA.match(text, offset)
    at = trivia.end() if trivia else offset
    return at if text.startswith(",", at) else None


def _indent(text: str, offset: int) -> str:
    """Return the white space at the beginning of the line of that character."""
    start = text.rfind("\n", 0, offset) + 1
    return text[start : len(text) - len(text[start:].lstrip(" \t"))]


def _begins_line(text: str, part: Span) -> bool:
    return not text[text.rfind("\n", 0, part.start) + 1 : part.start].strip()
