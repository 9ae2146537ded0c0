"""The JSON Schemas of every message, both ways. Made of the shapes that are read and sent."""

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
"""What a client sends: payload by type of message."""
CATALOG = "capability.catalog.snapshot"
EVENT = "event.publish"
_OF_CATALOG = "Catalog."
"""Goes before the names of the catalog document's own definitions."""


def protocol_schema() -> JsonObject:
    """Any one message: what a client may send, or what the kernel sends."""
    shapes = list(
        dict.fromkeys(
            (m.Envelope, *PAYLOADS.values(), *ANSWERS.values(), *(shape for _, shape in EVENTS.values()))
        )
    )
    references, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    of = dict(zip(shapes, references, strict=True))
    document, further = _catalog_document()
    answers: dict[str, Json] = {kind: of[shape] for kind, shape in ANSWERS.items()}
    answers[CATALOG] = {"oneOf": [answers[CATALOG], document]}
    told = {kind: (cls.value, of[shape]) for kind, (cls, shape) in EVENTS.items()}
    asked: dict[str, Json] = {kind: of[shape] for kind, shape in PAYLOADS.items()}
    return {
        "$schema": DIALECT,
        "title": m.PROTOCOL,
        "oneOf": [{"$ref": "#/$defs/ClientMessage"}, {"$ref": "#/$defs/ServerMessage"}],
        "$defs": {
            "ClientMessage": _in_envelope(_messages(asked, m.PROTOCOL)),
            "ServerMessage": _in_envelope([*_messages(answers, m.PROTOCOL), _event_message(told)]),
            **definitions,
            **further,
        },
    }


def _in_envelope(messages: list[Json]) -> JsonObject:
    return {"allOf": [{"$ref": "#/$defs/Envelope"}, {"oneOf": messages}]}


def _messages(payloads: Mapping[str, Json], protocol: str) -> list[Json]:
    return [_message(kind, payload, protocol) for kind, payload in payloads.items()]


def _message(kind: str, payload: Json, protocol: str) -> JsonObject:
    return {"properties": {"protocol": {"const": protocol}, "type": {"const": kind}, "payload": payload}}


def _event_message(told: Mapping[str, tuple[str, Json]]) -> JsonObject:
    """`event.publish`, whose payload says what happened, and to what."""
    happenings: list[Json] = [
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
        for kind, (cls, payload) in told.items()
    ]
    return _message(EVENT, {"type": "object", "oneOf": happenings}, m.EVENT_PROTOCOL)


def _catalog_document() -> tuple[JsonObject, JsonObject]:
    """The catalog document, and the definitions that it refers to."""
    schema: Any = _with_catalog_refs(catalog_schema())
    further = {_OF_CATALOG + name: shape for name, shape in schema["$defs"].items()}
    kept = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "$defs", "title")}
    return kept, further


def _with_catalog_refs(node: Json) -> Json:
    """The same schema, its references to its own definitions under their new names."""
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
