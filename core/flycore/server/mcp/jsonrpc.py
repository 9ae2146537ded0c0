"""Incoming JSON-RPC messages, over every transport: how one is read, the rules that it has to keep before the
SDK sees it, and the error that answers one that is refused.

The SDK reads a request whose id has a wrong type as a notification, which is never answered, and repeats
unknown names in full.
"""

from __future__ import annotations

from flycore.model.json import MAX_MESSAGE_VALUES, Json, JsonObject, StrictJsonError, read_strict

PARSE_ERROR = -32_700
INVALID_REQUEST = -32_600
"""Codes of JSON-RPC. The SDK's own take long to import, and the HTTP server's checks do not need it."""
MAX_ID_CHARS = 200
MAX_METHOD_CHARS = 200
MAX_NAME_CHARS = 1_000
"""Characters of the name of a tool, and of whatever else a method names."""
BAD_ID = f"an id must be an integer, or a string of at most {MAX_ID_CHARS} characters"
ID_IN_USE = "this id is in use"


class MessageRefused(ValueError):
    """The message is not handed on. `code` is that of JSON-RPC, `reason` a text for its sender."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)

    @property
    def answer(self) -> JsonObject:
        """The error that answers the message. It has no id: with one, it could look like the answer to
        another request."""
        return {"jsonrpc": "2.0", "id": None, "error": {"code": self.code, "message": self.reason}}


def read_message(data: bytes, what: str) -> Json:
    """Return the message in `data`, which errors name `what`. Whatever the SDK itself refuses is left to it.

    Raises MessageRefused where it is no strict JSON, which two programs could read differently, or does not
    keep the rules.
    """
    try:
        message = read_strict(data, max_values=MAX_MESSAGE_VALUES)
    except StrictJsonError as fault:
        raise MessageRefused(PARSE_ERROR, f"{what} {fault.reason}") from None
    if isinstance(message, dict):
        _check_envelope(message)
    return message


def _check_envelope(message: JsonObject) -> None:
    if "id" in message and not _is_id(message["id"]) and "method" in message:
        raise MessageRefused(INVALID_REQUEST, BAD_ID)
    method, params = message.get("method"), message.get("params")
    if isinstance(method, str) and len(method) > MAX_METHOD_CHARS:
        raise MessageRefused(INVALID_REQUEST, f"a method has at most {MAX_METHOD_CHARS} characters")
    if isinstance(params, dict):
        for key in ("name", "uri", "cursor"):
            named = params.get(key)
            if isinstance(named, str) and len(named) > MAX_NAME_CHARS:
                raise MessageRefused(INVALID_REQUEST, f"{key} has at most {MAX_NAME_CHARS:,} characters")


def _is_id(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)
