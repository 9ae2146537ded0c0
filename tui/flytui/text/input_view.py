"""The input of a request as a card shows it: canonical JSON with unescaped letters and every character
visible."""

from __future__ import annotations

import json
import re

from flycore.model.approval import ApprovalRequest
from flycore.model.json import MASK, Json, canonical_json, digest, pointer_keys
from flysafe.text import strict_text

_ESCAPE = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))", re.DOTALL)
_AFTER_NEWLINE = re.compile(r"((?:\\[^n]|[^\\])*?\\n|.+)", re.DOTALL)
MASK_DIGEST_SHOWN = 8
BEGINNING = 24
"""How many characters of a field's value are its beginning, which has to be read before an approval."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^"{}\[\],:]+', re.DOTALL)


def input_lines(request: ApprovalRequest, *, reveal: bool = False) -> str:
    """The input as one line. JSON's escapes stay as they are, letters beyond ASCII are drawn as letters, and
    deceptive characters become visible tokens. Two different inputs give two different lines.

    A masked field is drawn as `•••` with its length and the beginning of its digest, unless `reveal` is set.
    """
    if reveal:
        return _visible(_spelled(request.subject.input))
    try:
        value: Json = json.loads(request.input_json)
    except (ValueError, RecursionError):
        return _visible(request.input_json)
    for pointer in request.masked:
        value = _masked(value, pointer, request.subject.input)
    return _visible(_spelled(value))


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


def input_size(request: ApprovalRequest, lines: int) -> str:
    """The size of the input in words: bytes of the canonical JSON, lines as drawn, masked fields."""
    size = len(canonical_json(request.subject.input))
    text = f"{size} bytes in {lines} {'line' if lines == 1 else 'lines'}, all shown"
    hidden = len(request.masked)
    return text if not hidden else f"{text} but {hidden} masked, v reveals"


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


def _mask_of(real: Json) -> str:
    length = len(real) if isinstance(real, str) else len(canonical_json(real))
    return f"{MASK} ({length} characters, sha256 {digest(real)[:MASK_DIGEST_SHOWN]})"
