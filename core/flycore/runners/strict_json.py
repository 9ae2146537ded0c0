"""JSON as this protocol reads it: one document, and nothing that two readers could understand differently.

UTF-8 without BOM, no NaN or infinities, no lone surrogates, no duplicate keys, bounded depth and digits.
Linear in the length of the text, whatever the text is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn, cast

from flycore.model.canonical import Json, JsonObject

MAX_DEPTH = 64
MAX_DIGITS = 20

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")


class NotStrict(ValueError):
    """The bytes are not one strict JSON document; `reason` is a sentence without a full stop."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def read_strict(data: bytes, *, max_depth: int = MAX_DEPTH, max_digits: int = MAX_DIGITS) -> Json:
    """The document in `data`. Raises NotStrict, and nothing else."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotStrict("starts with a byte order mark")
    _check_depth(data, max_depth)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise NotStrict(f"is not UTF-8 at byte {fault.start}") from None
    try:
        value = cast(Json, _decoder(max_digits).decode(text))
    except json.JSONDecodeError as fault:
        raise NotStrict(f"is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}") from None
    if _SURROGATE_ESCAPE.search(data):
        _check_surrogates(value)
    return value


def _check_depth(data: bytes, limit: int) -> None:
    """Refuse deep nesting before the parser, which recurses, sees it.

    With strings taken out and every bracket spelled alike, removing all empty pairs lowers the depth by
    exactly one: what is left after `limit` rounds is deeper, or not balanced and no JSON either way.
    """
    if data.count(b"[") + data.count(b"{") <= limit:
        return
    left = _STRING.sub(b"", data).translate(_ONE_BRACKET, _NOT_BRACKETS)
    for _ in range(limit):
        shorter = left.replace(b"[]", b"")
        if len(shorter) == len(left):
            break
        left = shorter
    if left:
        raise NotStrict(f"is nested deeper than {limit} levels, or its brackets do not match")


def _check_surrogates(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotStrict("holds half of a surrogate pair") from None


@lru_cache(maxsize=8)
def _decoder(max_digits: int) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=_integer(max_digits),
        parse_float=_number,
        parse_constant=_constant,
    )


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotStrict(f"has the key {json.dumps(key[:80])} twice in one object")
            seen.add(key)
    return value


def _integer(max_digits: int) -> Callable[[str], int]:
    def read(literal: str) -> int:
        if len(literal) - literal.startswith("-") > max_digits:
            raise NotStrict(f"holds an integer of more than {max_digits} digits")
        return int(literal)

    return read


def _number(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise NotStrict("holds a number too large for a double")
    return value


def _constant(literal: str) -> NoReturn:
    raise NotStrict(f"holds {literal}, which JSON does not have")
