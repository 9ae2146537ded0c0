"""One spelling for every JSON value, so that equal inputs have equal digests."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:
    Json = Any  # msgspec decodes no recursive alias; what comes in has been read strictly before

MASK = "•••"
"""Stands in a value where a secret was."""

JsonObject = dict[str, Json]
"""A JSON object; `Json` is whatever JSON can hold."""

_ascii = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_unicode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: object) -> str:
    """The value as JSON with sorted keys, no spaces and only ASCII.

    Raises ValueError for NaN, infinities and lone surrogates, TypeError for what JSON cannot hold.
    """
    text = _ascii(value)
    if "\\ud" in text:  # half a surrogate pair is written so, and so is a pair
        _unicode(value).encode("utf-8")
    return text


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return text_digest(canonical_json(value))


def text_digest(canonical: str) -> str:
    """The same for a value whose canonical JSON is at hand."""
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
