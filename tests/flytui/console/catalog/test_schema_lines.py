"""A schema for reading leaves out nothing that a caller has to know."""

from __future__ import annotations

import pytest

from flycore.model.json import Json
from flytui.console.catalog.details import schema_lines
from flytui.text.lines import text_of, width_of
from kits.tables import each_row

SCHEMA: Json = {
    "type": "object",
    "required": ["path"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "description": "Which file\x1b[2J.", "minLength": 1},
        "algorithm": {"enum": ["sha256", "sha1"], "default": "sha256"},
        "count": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 9},
        "areas": {
            "type": "array",
            "items": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}},
        },
        "names": {"type": "array", "items": {"type": "string", "enum": ["[bold]a", "b"]}},
        "odd": {"oneOf": [{"type": "string"}, {"const": 4}]},
        "anything": True,
    },
}


def drawn(schema: Json, width: int = 100) -> str:
    return "\n".join(text_of(row) for row in schema_lines(schema, width))


@each_row(
    "words",
    [
        "path  string  required  at least 1",
        "Which file⟦U+001B⟧[2J.",
        "one of sha256, sha1 · default sha256",
        "integer or null  ≥ 1 · < 9",
        "areas  array of object",
        "x  number  required",
        "one of [bold]a, b",
        '"oneOf"',
        "anything",
        "no other fields",
    ],
)
def test_every_field_says_what_it_takes(words: str) -> None:
    assert words in drawn(SCHEMA)


def test_a_schema_without_fields_is_given_as_json() -> None:
    assert '"$ref": "#/$defs/a"' in drawn({"$ref": "#/$defs/a"})
    assert drawn({}) == ""


def test_fields_in_fields_come_to_an_end() -> None:
    deep: Json = {"type": "string"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    assert '"properties"' in drawn(deep)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert all(width_of(row) <= width for row in schema_lines(SCHEMA, width))
