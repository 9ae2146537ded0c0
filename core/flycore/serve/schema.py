"""The JSON Schema of what a client sends, and of how a call answers it. Made of the shapes that are read."""

from __future__ import annotations

from typing import Any

import msgspec

from flycore.model.call import Progress, ToolResult
from flycore.model.canonical import JsonObject
from flycore.serve import messages as m
from flycore.serve.reading import READS

PAYLOADS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(READS, m.Nothing),
    "client.hello": m.Hello,
    "ping": m.Nothing,
    "gateway.status.get": m.Nothing,
    "capability.catalog.get": m.CatalogGet,
    "event.subscribe": m.Subscribe,
    "event.unsubscribe": m.Subscribe,
    "tool.call": m.ToolCall,
    "tool.cancel": m.ToolCancel,
    "ask.list": m.Nothing,
    "ask.detail.get": m.AskGet,
    "call.picture.get": m.PictureGet,
    "trust.revoke": m.Nothing,
    "panic": m.Nothing,
    "sidecar.probe": m.SidecarProbe,
    "kernel.yield": m.Nothing,
    "tool.progress": Progress,
    "tool.result": ToolResult,
}
"""Payload by type of message. `ask.decide` has none: no shape of it is ever taken."""


def protocol_schema() -> JsonObject:
    """One message: an envelope whose type says what its payload is."""
    shapes = list(dict.fromkeys((m.Envelope, *PAYLOADS.values())))
    references, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    of = dict(zip(shapes, references, strict=True))
    messages: list[Any] = [
        {"properties": {"type": {"const": kind}, "payload": of[shape]}} for kind, shape in PAYLOADS.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": m.PROTOCOL,
        "allOf": [of[m.Envelope], {"oneOf": messages}],
        "$defs": definitions,
    }
