"""A JSON Schema for reading: each field with its type, whether it must be there, and what it means. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from flycore.model.json import Json
from flytui.console.paint import StyledLine, StyledText, Tone, span, text_lines, wrap, wrapped
from flytui.console.words import json_text

MAX_SCHEMA_DEPTH = 6
"""Levels of fields in fields that are drawn; what lies deeper is given as JSON."""
_STEP = 2
_LIMITS = (
    ("minimum", "≥ {}"),
    ("exclusiveMinimum", "> {}"),
    ("maximum", "≤ {}"),
    ("exclusiveMaximum", "< {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "like {}"),
    ("format", "{}"),
)
_DRAWN = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "default",
        "description",
        "title",
        "examples",
        "$schema",
        *(key for key, _ in _LIMITS),
    )
)
"""Keywords that have words of their own; a schema with others is given whole, as JSON."""


def schema_lines(schema: Json, width: int) -> list[StyledLine]:
    """The fields of an object, indented by depth; any other schema as JSON, so that nothing is left out."""
    if not isinstance(schema, dict) or not schema:
        return []
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        return _json_block(schema, width, 1)
    rows = list(_field_lines(schema, width, 1))
    if others := {key: value for key, value in schema.items() if key not in _DRAWN}:
        rows += _json_block(others, width, 1)
    if schema.get("additionalProperties") is False:
        rows += wrap((StyledText("   "), span("no other fields", Tone.DIM)), width, 3)
    return rows


def _field_lines(schema: Mapping[str, Json], width: int, depth: int) -> Iterator[StyledLine]:
    properties, required = schema.get("properties"), schema.get("required")
    musts = required if isinstance(required, list) else []
    for name, field in properties.items() if isinstance(properties, dict) else ():
        yield from _one_field_lines(name, field, name in musts, width, depth)


def _one_field_lines(name: str, field: Json, must: bool, width: int, depth: int) -> Iterator[StyledLine]:
    margin = 1 + _STEP * depth
    if not isinstance(field, dict):
        yield from wrap(
            (StyledText(" " * margin), span(name, Tone.STRONG), span(f"  {field}")), width, margin + 2
        )
        return
    marks = (StyledText("  required", Tone.ACCENT),) if must else ()
    facts = " · ".join(_limit_words(field))
    head = (StyledText(" " * margin), span(name, Tone.STRONG), span(f"  {_type(field)}"), *marks)
    yield from wrap((*head, span(f"  {facts}" if facts else "", Tone.DIM)), width, margin + 2)
    if isinstance(text := field.get("description"), str) and text:
        yield from wrap((StyledText(" " * (margin + 2)), span(text, Tone.DIM)), width, margin + 2)
    inner = field.get("items") if isinstance(field.get("items"), dict) else field
    if isinstance(inner, dict) and inner.get("properties"):
        if depth < MAX_SCHEMA_DEPTH:
            yield from _field_lines(inner, width, depth + 1)
        else:
            yield from _json_block(inner, width, margin + 2)
    if others := {key: value for key, value in field.items() if key not in _DRAWN}:
        yield from _json_block(others, width, margin + 2)


def _type(field: Mapping[str, Json]) -> str:
    kind = field.get("type", "any")
    words = " or ".join(str(item) for item in kind) if isinstance(kind, list) else str(kind)
    items = field.get("items")
    if words == "array" and isinstance(items, dict):
        return f"array of {_type(items)}"
    return words


def _limit_words(field: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(choices := field.get("enum"), list):
        yield f"one of {', '.join(_plain(choice) for choice in choices)}"
    if "const" in field:
        yield f"always {_plain(field['const'])}"
    for key, words in _LIMITS:
        if key in field:
            yield words.format(_plain(field[key]))
    if "default" in field:
        yield f"default {_plain(field['default'])}"
    if isinstance(items := field.get("items"), dict):
        yield from _limit_words({key: value for key, value in items.items() if key != "default"})


def _plain(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _json_block(value: Json, width: int, margin: int) -> list[StyledLine]:
    return wrapped(text_lines(json_text(value), margin=margin), width, margin + 2)
