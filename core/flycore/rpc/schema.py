"""The JSON Schemas of every message in both directions, made from the classes that the kernel uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from flycore.catalog.document import catalog_schema
from flycore.model.json import Json, JsonObject
from flycore.rpc import messages as m
from flycore.rpc.events import EVENTS
from flycore.rpc.methods import ANSWERS, METHODS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PAYLOADS = {method.message: method.payload for method in METHODS}
"""The payload of every type of message that a client may send."""
CATALOG = "capability.catalog.snapshot"
EVENT = "event.publish"
_OF_CATALOG = "Catalog."
"""Prefix for the names of the definitions of the catalog document."""


def protocol_schema() -> JsonObject:
    """Return the schema of any one message, of a client or of the kernel."""
    event_shapes = (shape for _, shape in EVENTS.values())
    shapes = list(dict.fromkeys((m.Envelope, *PAYLOADS.values(), *ANSWERS.values(), *event_shapes)))
    references, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    of = dict(zip(shapes, references, strict=True))
    document, catalog_definitions = _catalog_document()
    answers: dict[str, Json] = {kind: of[shape] for kind, shape in ANSWERS.items()}
    answers[CATALOG] = {"oneOf": [answers[CATALOG], document]}
    events = {kind: (cls.value, of[shape]) for kind, (cls, shape) in EVENTS.items()}
    requests: dict[str, Json] = {kind: of[shape] for kind, shape in PAYLOADS.items()}
    return {
        "$schema": DIALECT,
        "title": m.PROTOCOL,
        "oneOf": [{"$ref": "#/$defs/ClientMessage"}, {"$ref": "#/$defs/ServerMessage"}],
        "$defs": {
            "ClientMessage": _in_envelope(_messages(requests, m.PROTOCOL)),
            "ServerMessage": _in_envelope([*_messages(answers, m.PROTOCOL), _event_message(events)]),
            **definitions,
            **catalog_definitions,
        },
    }


def _in_envelope(messages: list[Json]) -> JsonObject:
    return {"allOf": [{"$ref": "#/$defs/Envelope"}, {"oneOf": messages}]}


def _messages(payloads: Mapping[str, Json], protocol: str) -> list[Json]:
    return [_message(kind, payload, protocol) for kind, payload in payloads.items()]


def _message(kind: str, payload: Json, protocol: str) -> JsonObject:
    return {"properties": {"protocol": {"const": protocol}, "type": {"const": kind}, "payload": payload}}


def _event_message(events: Mapping[str, tuple[str, Json]]) -> JsonObject:
    """Return the schema of `event.publish` with every type of event."""
    payloads: list[Json] = [
        {
            "properties": {
                "class": {"const": cls},
                "type": {"const": kind},
                "at": {"type": "number"},
                "payload": payload,
            },
            "required": ["class", "type", "at", "payload"],
            "additionalProperties": False,
        }
        for kind, (cls, payload) in events.items()
    ]
    return _message(EVENT, {"type": "object", "oneOf": payloads}, m.EVENT_PROTOCOL)


def _catalog_document() -> tuple[JsonObject, JsonObject]:
    """Return the schema of the catalog document, and the definitions that it refers to."""
    # Both documents have definitions, and some of them the same names. So those of the catalog get a prefix.
    schema: Any = _with_catalog_refs(catalog_schema())
    definitions = {_OF_CATALOG + name: shape for name, shape in schema["$defs"].items()}
    document = {
        key: value for key, value in schema.items() if key not in ("$schema", "$id", "$defs", "title")
    }
    return document, definitions


def _with_catalog_refs(node: Json) -> Json:
    """Return the schema with the prefix in each reference to one of its definitions."""
    if isinstance(node, list):
        return [_with_catalog_refs(item) for item in node]
    if not isinstance(node, dict):
        return node
    return dict(_catalog_ref_items(node))


def _catalog_ref_items(node: JsonObject) -> Iterator[tuple[str, Json]]:
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str):
            yield key, value.replace("#/$defs/", f"#/$defs/{_OF_CATALOG}")
        else:
            yield key, _with_catalog_refs(value)
