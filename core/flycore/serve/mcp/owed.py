"""Which requests of one client over standard input wait for their answers: so many, and each id once."""

from __future__ import annotations

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

MAX_PENDING = 128
"""Requests that a client may have under way, answers it has not read yet among them."""


class PendingRequests:
    """The requests that have come and are not answered. One that its client cancels is never answered."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add_or_refuse(self, message: JSONRPCMessage) -> JSONRPCError | None:
        """Why a message that has come is not taken; None where it is. Where its id is in use the refusal has
        none: it would be taken for the other's answer."""
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard(str((message.params or {}).get("requestId")))
        if not isinstance(message, JSONRPCRequest):
            return None
        if str(message.id) in self._ids:
            error = ErrorData(code=INVALID_REQUEST, message="that id is in use")
            return JSONRPCError(jsonrpc="2.0", id=None, error=error)
        if len(self._ids) >= MAX_PENDING:
            error = ErrorData(code=INTERNAL_ERROR, message=f"{MAX_PENDING} requests wait for their answers")
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        self._ids.add(str(message.id))
        return None

    def remove(self, message: JSONRPCMessage) -> None:
        """A message has been written."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(str(message.id))
