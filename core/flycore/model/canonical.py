"""One spelling for every JSON value, so that equal inputs have equal digests."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:
    Json = Any  # msgspec decodes no recursive alias; what comes in has been read strictly before

JsonObject = dict[str, Json]
"""A JSON object; `Json` is whatever JSON can hold."""


def canonical_json(value: object) -> str:
    """The value as JSON with sorted keys, no spaces and only ASCII.

    Raises ValueError for NaN, infinities and lone surrogates, TypeError for what JSON cannot hold.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
