"""JSON as every part of flytui reads, writes and points into it.

`read_strict` reads one document and nothing that two readers could understand differently: UTF-8 without a
byte order mark, no NaN or infinities, no lone surrogates, no duplicate keys, bounded depth and digits. It is
linear in the length of the text, whatever the text is. `canonical_json` writes equal values as equal text,
so that equal inputs have equal digests. Pointers are those of RFC 6901.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

from flycore.model.json_pieces import encode, without_strings

if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:
    Json = Any  # msgspec decodes no recursive alias; what comes in has been read strictly before

JsonObject = dict[str, Json]
"""A JSON object; `Json` is whatever JSON can hold."""

MASK = "•••"
"""Stands in a text for a value that is not shown."""
MASK_ESCAPED = r"\u2022\u2022\u2022"
"""How canonical JSON spells `MASK`."""
MAX_DEPTH = 64
MAX_DIGITS = 20
MAX_VALUES = 100_000
"""Values in one document. Each takes up to a hundred times its text in memory, and time in every step."""
MAX_CONTAINERS = 20_000
"""Objects and arrays in one document, which cost the most."""
MAX_MESSAGE_VALUES = 50_000
"""Values in one message of MCP. The SDK reads it in one go, on the event loop."""

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_NOT_COUNTED = bytes(byte for byte in range(256) if byte not in b",[{")

_ascii = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_unicode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def canonical_json(value: object) -> str:
    """Return the value as JSON with sorted keys, no spaces and only ASCII.

    Raises ValueError for NaN, infinities and lone surrogates, TypeError for what JSON cannot hold.
    """
    text = encode(_ascii, value)
    # A lone surrogate is written as `\ud…`, and so is each half of a valid pair. UTF-8 refuses only the lone
    # one.
    if "\\ud" in text:
        encode(_unicode, value).encode("utf-8")
    return text


def indented_json(value: object) -> str:
    """Return the value as JSON for people and programs: only ASCII, indented by two spaces."""
    import msgspec

    # As `json.dumps(value, indent=2)`, whose encoder of indented text is many times as slow.
    return msgspec.json.format(json.dumps(value), indent=2)


def digest(value: object) -> str:
    """Return the SHA-256 of the value's canonical JSON, 64 hex digits."""
    return text_digest(canonical_json(value))


def text_digest(canonical: str) -> str:
    """Return the digest of a value whose canonical JSON is known already."""
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def escape_key(key: str | int) -> str:
    """Return a key or array index as it is written between the slashes of a pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def unescape_key(token: str) -> str:
    """Return the key that `escape_key` wrote."""
    # In this order: `~01` stands for `~1`, not for a slash.
    return token.replace("~1", "/").replace("~0", "~")


def pointer_join(parent: str, key: str | int) -> str:
    """Return the pointer one key deeper."""
    return f"{parent}/{escape_key(key)}"


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys from the root to the value of the pointer; none for the root itself."""
    return [unescape_key(token) for token in pointer.split("/")[1:]]


class StrictJsonError(ValueError):
    """The bytes are not one strict JSON document. `reason` says why, without a full stop."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def read_strict(
    data: bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_digits: int = MAX_DIGITS,
    max_values: int = MAX_VALUES,
    max_containers: int = MAX_CONTAINERS,
) -> Json:
    """Return the document in `data`. Raises StrictJsonError, and no other exception."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise StrictJsonError("starts with a byte order mark")
    # Counted once: to look through a large document takes as long as to read it.
    containers = _containers(data)
    _check_counts(data, containers, max_values, max_containers)
    _check_depth(data, containers, max_depth)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise StrictJsonError(f"is not UTF-8 at byte {fault.start}") from None
    try:
        value = cast(Json, _decoder(max_digits).decode(text))
    except json.JSONDecodeError as fault:
        raise StrictJsonError(
            f"is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}"
        ) from None
    if _SURROGATE_ESCAPE.search(data):
        _check_surrogates(value)
    return value


def check_counts(data: bytes, max_values: int = MAX_VALUES, max_containers: int = MAX_CONTAINERS) -> None:
    """Raise StrictJsonError for a document of more values, or more objects and arrays. Nothing is decoded."""
    _check_counts(data, _containers(data), max_values, max_containers)


def _containers(data: bytes) -> int:
    """How many brackets open in the document, those in strings as well."""
    return data.count(b"[") + data.count(b"{")


def _check_counts(data: bytes, containers: int, max_values: int, max_containers: int) -> None:
    if containers <= max_containers and data.count(b",") + containers < max_values:
        return
    # Strings may hold those characters, too. They are removed only where that decides.
    left = without_strings(data).translate(None, _NOT_COUNTED)
    containers = _containers(left)
    if containers > max_containers:
        raise StrictJsonError(f"holds more than {max_containers:,} objects and arrays")
    # A value stands after each comma, and at most one more at the beginning of each object and array.
    if left.count(b",") + containers >= max_values:
        raise StrictJsonError(f"holds more than {max_values:,} values")


def may_hold_more(text: str, max_values: int) -> bool:
    """Return whether a text of JSON with comments may hold more values. Commas in comments count as well."""
    if text.count(",") + text.count("[") + text.count("{") < max_values:
        return False
    left = without_strings(text.encode("utf-8", "surrogatepass"))
    return sum(map(left.count, (b",", b"[", b"{"))) >= max_values


def _check_depth(data: bytes, containers: int, limit: int) -> None:
    """Raise StrictJsonError for a document that is nested deeper than `limit`."""
    # This comes before the parser, which recurses and would overflow the stack. With strings removed and both
    # kinds of brackets made equal, each removal of all empty pairs lowers the depth by exactly one. What is
    # left after `limit` rounds is deeper than that, or not balanced and so not JSON.
    if containers <= limit:
        return
    left = without_strings(data).translate(_ONE_BRACKET, _NOT_BRACKETS)
    for _ in range(limit):
        shorter = left.replace(b"[]", b"")
        if len(shorter) == len(left):
            break
        left = shorter
    if left:
        raise StrictJsonError(f"is nested deeper than {limit} levels, or its brackets do not match")


def _check_surrogates(value: Json) -> None:
    try:
        encode(_unicode, value).encode("utf-8")
    except UnicodeEncodeError:
        raise StrictJsonError("holds half of a surrogate pair") from None


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
                raise StrictJsonError(f"has the key {json.dumps(key[:80])} twice in one object")
            seen.add(key)
    return value


def _integer(max_digits: int) -> Callable[[str], int]:
    def read(literal: str) -> int:
        if len(literal) - literal.startswith("-") > max_digits:
            raise StrictJsonError(f"holds an integer of more than {max_digits} digits")
        return int(literal)

    return read


def _number(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise StrictJsonError("holds a number too large for a double")
    return value


def _constant(literal: str) -> NoReturn:
    raise StrictJsonError(f"holds {literal}, which JSON does not have")
