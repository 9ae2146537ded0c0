"""The envelope of `flyflor.ws.v1` as plain values: what every program needs that sends a message."""

from __future__ import annotations

import time

PROTOCOL = "flyflor.ws.v1"
EVENT_PROTOCOL = "flyflor.event.v1"
MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Largest message that is accepted from a kernel: a catalog of 10,000 tools with schemas fits."""
HELLO_SECONDS = 10.0
"""How long a kernel may take to send its first message."""
BACKLOG = 1000
"""Messages or events that wait for a slow reader in a client; further ones are dropped."""


def message_body(kind: str, payload: object, message_id: str, protocol: str = PROTOCOL) -> dict[str, object]:
    """Return a message as an object, ready to be written as JSON."""
    return {
        "protocol": protocol,
        "id": message_id,
        "type": kind,
        "at": round(time.time(), 6),
        "payload": payload,
    }


def hello_payload(client: str, *, viewer: bool, version: str) -> dict[str, object]:
    """Return the payload of `client.hello`. A viewer must have the version of the kernel."""
    hello: dict[str, object] = {"client": client, "viewer": viewer}
    return {**hello, "version": version} if viewer else hello


def call_payload(
    tool: str,
    input: object,
    *,
    timeout_ms: int | None = None,
    purpose: str = "",
    wait_approver_ms: int = 0,
    inline_wait_ms: int | None = None,
    observe: bool = False,
    samples: bool = False,
) -> dict[str, object]:
    """Return the payload of `tool.call`."""
    return {
        "tool": tool,
        "input": input,
        "timeoutMs": timeout_ms,
        "say": purpose,
        "waitApproverMs": wait_approver_ms,
        "inlineWaitMs": inline_wait_ms,
        **({"observe": True} if observe else {}),
        **({"samples": True} if samples else {}),
    }
