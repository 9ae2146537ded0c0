"""The messages of `flyflor.ws.v1`: one envelope, one payload shape per type, nothing unknown accepted."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

import msgspec

from flycore.model.base import Value
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject

PROTOCOL = "flyflor.ws.v1"
EVENT_PROTOCOL = "flyflor.event.v1"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message a client may send."""


class ErrorCode(StrEnum):
    """Codes of an `error` message."""

    INVALID_ENVELOPE = "invalid-envelope"
    INVALID_PAYLOAD = "invalid-payload"
    UNAUTHORIZED = "unauthorized"
    UNSUPPORTED_MESSAGE = "unsupported-message"
    INTERNAL = "internal"


class Envelope(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every message is wrapped in."""

    protocol: str
    id: str
    type: str
    at: float
    """Unix time, seconds, as the sender's clock has it."""
    request_id: str | None = None
    """The sender's own mark, such as a trace's id: not interpreted, and given back with every answer."""
    correlation_id: str | None = None
    """The `id` of the message this one answers."""
    payload: JsonObject = msgspec.field(default_factory=dict)


class Nothing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of a message that carries none."""


class Hello(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`client.hello`. What a client says of itself is shown as unverified and matched by nothing."""

    client: str = ""
    viewer: bool = False
    """A viewer reads and does not call."""
    version: str = ""
    """Version of flytui, where the client is a part of it; a console has to be of the kernel's."""


class CatalogGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`capability.catalog.get`; `detail` adds the whole catalog value under `catalog`."""

    detail: bool = False


class Subscribe(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`event.subscribe` and `event.unsubscribe`; nothing named means everything."""

    classes: tuple[EventClass, ...] = ()
    types: tuple[str, ...] = ()


class ToolCall(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.call`. There is no field that approves anything; one that tries is refused."""

    tool: str
    input: JsonObject = msgspec.field(default_factory=dict)
    timeout_ms: int | None = None
    say: str = ""
    """What the call is for, in the caller's words; shown as unverified."""
    wait_approver_ms: int = 0
    """How long to wait for a console to open when a person is needed and none is there."""
    inline_wait_ms: int | None = None
    """How long to wait for a person before the call ends `pending`; None: what the settings say."""


class ToolCancel(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.cancel`, by the call's id or by the id of the `tool.call` message."""

    call_id: str = ""
    request_id: str = ""


class PictureGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`call.picture.get`: the artifact of that index, from 0, of a call that has ended."""

    call_id: str
    index: int = 0


class AskGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.detail.get`."""

    id: str


class CallGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`history.detail.get`: one call, running or ended."""

    call_id: str


class SchemaGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tool.schema.get`."""

    tool: str


class SidecarProbe(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.probe`: ask a sidecar again whether it is well."""

    sidecar: str


class TokenAdd(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.add`: let a client in. The token itself stays with who made it."""

    name: str
    digest: str
    """SHA-256 of the token, hexadecimal."""


class TokenRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token.revoke`: let it in no longer."""

    name: str


def envelope(
    kind: str, payload: Any, *, message_id: str, answers: Envelope | None = None, protocol: str = PROTOCOL
) -> str:
    """A message as text, ASCII only, ready to send; as one that answers another it says which."""
    body: dict[str, object] = {
        "protocol": protocol,
        "id": message_id,
        "type": kind,
        "at": round(time.time(), 6),
        "payload": msgspec.to_builtins(payload),
    }
    if answers is not None:
        body["correlationId"] = answers.id
        if answers.request_id is not None:
            body["requestId"] = answers.request_id
    return msgspec.json.encode(body).decode("utf-8")


def event_payload(event: Event) -> JsonObject:
    """An event as `event.publish` carries it."""
    return {"class": event.cls.value, "type": event.type, "at": event.at, "payload": event.payload}
