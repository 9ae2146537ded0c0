"""The rules that a JSON-RPC message has to keep before the SDK sees it, the same over every transport.

The SDK reads a request whose id has a wrong type as a notification, which is never answered, and repeats
unknown names in full.
"""

from __future__ import annotations

from flycore.model.json import Json

MAX_ID_CHARS = 200
MAX_METHOD_CHARS = 200
MAX_NAME_CHARS = 1_000
"""Characters of the name of a tool, and of whatever else a method names."""
BAD_ID = f"an id must be an integer, or a string of at most {MAX_ID_CHARS} characters"


def envelope_fault(value: Json) -> str:
    """Return why the message is not handed on; empty where it is. Whatever the SDK itself refuses is left to
    it."""
    if not isinstance(value, dict):
        return ""
    if "id" in value and not _is_id(value["id"]) and "method" in value:
        return BAD_ID
    method, params = value.get("method"), value.get("params")
    if isinstance(method, str) and len(method) > MAX_METHOD_CHARS:
        return f"a method has at most {MAX_METHOD_CHARS} characters"
    if isinstance(params, dict):
        for key in ("name", "uri", "cursor"):
            named = params.get(key)
            if isinstance(named, str) and len(named) > MAX_NAME_CHARS:
                return f"{key} has at most {MAX_NAME_CHARS:,} characters"
    return ""


def _is_id(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)
