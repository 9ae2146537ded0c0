"""The input of a request as a card shows it: as fields, or as canonical JSON.

Fields are read: each has its name and its value, short values first. The JSON is what is approved, with
unescaped letters. In both, every character is visible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from flycore.model.approval import ApprovalRequest
from flycore.model.base import Value
from flycore.model.json import MASK, Json, canonical_json, digest, escape_key, pointer_keys
from flysafe.text import strict_text
from flytui.text.wrap import cell_width, wrap_exact

_ESCAPE = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))", re.DOTALL)
_AFTER_NEWLINE = re.compile(r"((?:\\[^n]|[^\\])*?\\n|.+)", re.DOTALL)
MASK_DIGEST_SHOWN = 8
BEGINNING = 24
"""How many characters of a field's value are its beginning, which has to be read before an approval."""
SHORT = 160
"""A value of at most this many characters, without a line break, is drawn beside its name."""
FOLD_FROM = 7
"""A long value of more lines may be folded."""
FOLDED_TO = 3
"""The lines of a folded value that are shown."""
MOST_NAME_CELLS = 24
"""A longer name has a line of its own."""
INDENT = 2
"""The cells to the left of a long value."""
NEWLINE = "↵"
"""Ends a line where the value itself has a line break."""
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$-]*", re.ASCII)
_OTHER_JSON = re.compile(r"true|false|null|-?\d.*|[\[{\"•].*", re.DOTALL)
"""What a text must not look like to be drawn without quotes."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^"{}\[\],:]+', re.DOTALL)


def input_lines(request: ApprovalRequest, *, reveal: bool = False) -> str:
    """The input as one line. JSON's escapes stay as they are, letters beyond ASCII are drawn as letters, and
    deceptive characters become visible tokens. Two different inputs give two different lines.

    A masked field is drawn as `•••` with its length and the beginning of its digest, unless `reveal` is set.
    """
    try:
        value = _shown_value(request, reveal=reveal)
    except (ValueError, RecursionError):
        return _visible(request.input_json)
    return _visible(_spelled(value))


class FieldRow(Value, frozen=True, kw_only=True):
    """One drawn line of a field."""

    label: str = ""
    """The field's name, on its first line."""
    text: str
    value: bool = True
    """Whether the text is the name or value of a field; otherwise flytui says something about it."""
    must_read: bool = False
    """Whether it holds a name, or the beginning of a value."""
    field: str = ""
    """The JSON pointer of the field."""
    hidden: int = 0
    """For the last line of a folded value: how many of its characters are not shown."""
    shown: int = 0
    """How many characters of the value the line has."""
    cells: int = 0
    """The cells to the left of the text, which hold the name."""


class _Leaf(Value, frozen=True, kw_only=True):
    """A value without named parts, and the names that lead to it."""

    path: tuple[str | int, ...]
    text: str
    """The value as drawn; with its line breaks where it is a long text."""

    @property
    def short(self) -> bool:
        return len(self.text) <= SHORT and "\n" not in self.text

    @property
    def pointer(self) -> str:
        return "".join(f"/{escape_key(str(part))}" for part in self.path)


def field_rows(
    request: ApprovalRequest, room: int, *, reveal: bool = False, fold: bool = False
) -> list[FieldRow]:
    """The input as fields for `room` cells: short values, in the order of the tool's schema, then the long
    and nested ones, each below a heading with its size. With `fold`, of a long text only the first lines are
    shown, and a line says how much is not.

    An input that is not an object has one row for each line of its JSON.
    """
    try:
        value = _shown_value(request, reveal=reveal)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        lines = (line for part in input_segments(input_lines(request)) for line in wrap_exact(part, room))
        return [FieldRow(text=line, must_read=True, shown=len(line)) for line in lines]
    known = [name for name in request.fields if name in value]
    fields = {name: tuple(_leaves(value[name], (name,))) for name in (*known, *sorted(value))}
    widest = max((cell_width(_key(name)) for name in fields), default=0)
    cells = min(widest, MOST_NAME_CELLS, room // 3) + 2
    rows = [row for leaves in fields.values() if _is_short(leaves) for row in _short(leaves[0], cells, room)]
    for name, leaves in fields.items():
        if not _is_short(leaves):
            rows += _heading(name, _size(value[name]), cells, room)
            rows += [row for leaf in leaves for row in _long(leaf, room - INDENT, fold=fold)]
    return rows


def _is_short(leaves: tuple[_Leaf, ...]) -> bool:
    return len(leaves) == 1 and len(leaves[0].path) == 1 and leaves[0].short


def _short(leaf: _Leaf, cells: int, room: int) -> Iterator[FieldRow]:
    """The rows of a field with a short value."""
    name = _key(leaf.path[0])
    beside = cell_width(name) <= cells - 2
    if not beside:
        yield from _names(name, room, leaf.pointer)
    yield from _value_rows(leaf.text, room - cells, leaf.pointer, name if beside else "", cells=cells)


def _heading(name: str, size: str, cells: int, room: int) -> Iterator[FieldRow]:
    """The name of a long or nested field, with its size."""
    key = _key(name)
    if cell_width(key) <= cells - 2:
        yield FieldRow(label=key, text=size, value=False, must_read=True, cells=cells)
    else:
        yield from _names(key, room, "")
        yield FieldRow(text=size, value=False, cells=INDENT)


def _long(leaf: _Leaf, room: int, *, fold: bool) -> Iterator[FieldRow]:
    """The rows of one value of a long or nested field, with its own name where it has one."""
    inside = ".".join(map(_key, leaf.path[1:]))
    if inside and leaf.short:
        yield from _value_rows(f"{inside}: {leaf.text}", room, leaf.pointer, unread=len(inside) + 2)
        return
    if inside:
        yield from _names(inside, room, leaf.pointer, cells=INDENT)
    rows = list(_value_rows(leaf.text, room, leaf.pointer))
    shown = FOLDED_TO if fold and len(rows) >= FOLD_FROM else len(rows)
    yield from rows[:shown]
    if shown < len(rows):
        hidden = sum(row.shown for row in rows[shown:])
        of = hidden + sum(row.shown for row in rows[:shown])
        words = f"… {hidden:,} of {of:,} characters not shown"
        yield FieldRow(text=words, value=False, field=leaf.pointer, hidden=hidden, cells=INDENT)


def _names(name: str, room: int, field: str, *, cells: int = 0) -> Iterator[FieldRow]:
    """The rows of a name that has a line of its own."""
    for line in wrap_exact(f"{name}:", room):
        yield FieldRow(text=line, must_read=True, field=field, cells=cells)


def _value_rows(
    text: str, room: int, field: str, label: str = "", *, unread: int = 0, cells: int = INDENT
) -> Iterator[FieldRow]:
    """The lines of a value. Those with its first characters have to be read: `BEGINNING` of them, and
    `unread` that stand before the value."""
    left = BEGINNING + unread
    lines = text.split("\n")
    for at, part in enumerate(lines):
        ends = at < len(lines) - 1
        for line in wrap_exact(part + NEWLINE if ends else part, room):
            yield FieldRow(
                label=label, text=line, must_read=left > 0, field=field, shown=len(line), cells=cells
            )
            label, left = "", left - len(line)


def _leaves(value: Json, path: tuple[str | int, ...]) -> Iterator[_Leaf]:
    """The values without named parts, in the order of the input."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) and item for item in value):
        for at, item in enumerate(value):
            yield from _leaves(item, (*path, at))
    else:
        yield _Leaf(path=path, text=_drawn(value))


def _drawn(value: Json) -> str:
    """A value as text: a text without quotes, where it cannot be taken for anything else."""
    if isinstance(value, _Mask):
        return _visible(value)
    if not isinstance(value, str):
        return _visible(_spelled(value))
    # Of a short text the line breaks are seen best as escapes; a long one is read line by line.
    broken = "\n" in value
    if broken and len(value) > SHORT:
        return "\n".join(strict_text(line) for line in value.split("\n"))
    plain = not broken and value == value.strip() and value and not _OTHER_JSON.fullmatch(value)
    return strict_text(value) if plain else _visible(_spelled(value))


def _key(name: str | int) -> str:
    if isinstance(name, int):
        return str(name)
    return name if _PLAIN_KEY.fullmatch(name) else _visible(_spelled(name))


def _size(value: Json) -> str:
    if isinstance(value, str):
        lines = value.count("\n") + 1
        return f"{len(value):,} characters" + (f" in {lines:,} lines" if lines > 1 else "")
    size = f"{len(canonical_json(value)):,} bytes"
    if isinstance(value, dict):
        return f"{len(value):,} {'field' if len(value) == 1 else 'fields'}, {size}"
    return (
        f"{len(value):,} {'item' if len(value) == 1 else 'items'}, {size}"
        if isinstance(value, list)
        else size
    )


def _shown_value(request: ApprovalRequest, *, reveal: bool) -> Json:
    """The input with its masks; with `reveal`, the input itself. Raises ValueError and RecursionError where
    the masked input is not JSON."""
    if reveal:
        return request.subject.input
    value: Json = json.loads(request.input_json)
    for pointer in request.masked:
        value = _masked(value, pointer, request.subject.input)
    return value


def input_segments(text: str) -> list[str]:
    """The text cut after each escaped newline, so that a script is drawn line by line. Joined, the parts are
    the text again."""
    return _AFTER_NEWLINE.findall(text) or [""]


def field_beginnings(text: str) -> list[tuple[int, int]]:
    """The part of each field, at any depth, that a person has to see: its name and the first characters of
    its value. `text` is what `input_lines` gives; the parts are pairs of first index and the one after the
    last."""
    found: list[tuple[int, int]] = []
    before: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        # Outside strings a colon stands only between a name and its value.
        if token[0] == ":" and before is not None and before[0].startswith('"'):
            found.append((before.start(), min(len(text), token.end() + BEGINNING)))
        before = token
    return found


def input_size(request: ApprovalRequest, *, folded: int = 0) -> str:
    """The size of the input in words: its fields, the bytes of its canonical JSON, and what is not shown of
    it. `folded` is the number of characters in folded values."""
    given = request.subject.input
    fields = f"{len(given):,} {'field' if len(given) == 1 else 'fields'}"
    parts = [fields, f"{len(canonical_json(given)):,} bytes"]
    if folded:
        parts.append(f"{folded:,} characters folded, f unfolds")
    if request.masked:
        parts.append(f"{len(request.masked)} masked, v reveals")
    return ", ".join(parts) + ("" if len(parts) > 2 else ", all shown")


def _spelled(value: Json) -> str:
    """The value as canonical JSON, but with letters instead of `\\uXXXX`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _visible(text: str) -> str:
    """The text with `strict_text` applied between JSON's escapes."""
    # Not to the whole text: the `n` of an escaped newline would count as a letter of the word after it.
    return "".join(strict_text(part) for part in _ESCAPE.split(text))


def _masked(value: Json, pointer: str, real: Json) -> Json:
    """A copy of `value` in which the field at `pointer` is replaced by a mask with length and digest of the
    real value."""
    return _replace(value, pointer_keys(pointer), real)


def _replace(value: Json, tokens: list[str], real: Json) -> Json:
    if not tokens:
        return _mask_of(real)
    head, *rest = tokens
    if isinstance(value, dict) and isinstance(real, dict) and head in value and head in real:
        return {**value, head: _replace(value[head], rest, real[head])}
    if isinstance(value, list) and isinstance(real, list) and head.isdecimal():
        at = int(head)
        if at < min(len(value), len(real)):
            return [*value[:at], _replace(value[at], rest, real[at]), *value[at + 1 :]]
    return value


class _Mask(str):
    """A text that stands for a masked value. It is drawn without quotes, which no text of an input is that
    looks like it."""

    __slots__ = ()


def _mask_of(real: Json) -> _Mask:
    length = len(real) if isinstance(real, str) else len(canonical_json(real))
    return _Mask(f"{MASK} ({length} characters, sha256 {digest(real)[:MASK_DIGEST_SHOWN]})")
