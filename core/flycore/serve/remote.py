"""What a token may do. Who comes over TCP is an agent: it reads what is its own and calls, nothing else."""

from __future__ import annotations

from flycore.model.call import Caller
from flycore.serve.tokens import TCP_DOOR

TAKEN = frozenset(
    (
        *("client.hello", "ping", "gateway.status.get", "capability.catalog.get", "tool.schema.get"),
        *("event.subscribe", "event.unsubscribe", "tool.call", "tool.cancel", "tool.metrics.get"),
        *("ask.list", "ask.detail.get", "history.list", "history.detail.get", "call.picture.get"),
        *("lease.list", "block.list", "question.list", "trust.list", "rule.list"),
        *("sidecar.probe", "panic"),
    )
)
"""Every message that is taken over TCP. Whatever is not named here is for the Unix socket alone."""
ONLY_LOCAL = "only a program of this user, over the Unix socket, may do that"


def comes_in_by_token(caller: Caller) -> bool:
    """Whether the caller is known by a token and not by its process."""
    return caller.door == TCP_DOOR


def is_taken(kind: str, caller: Caller) -> bool:
    """Whether a message of that type is taken from that caller at all."""
    return kind in TAKEN or not comes_in_by_token(caller)
