"""Schemas as clients take them mean what they meant."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flycore.catalog.builtin import KNOWN
from flycore.server.mcp.tool_list import without_boolean_schemas

SOME: list[Any] = [{}, 1, "x", [], [1], {"a": 1}, {"a": 1, "b": 2}, {"a": {"c": None}}]


@pytest.mark.parametrize(
    ("schema", "becomes"),
    [
        ({"properties": {"a": False, "b": True}}, {"properties": {"a": {"not": {}}, "b": {}}}),
        (
            {"allOf": [{"if": {"required": ["a"]}, "then": {"properties": {"b": False}}}]},
            {"allOf": [{"if": {"required": ["a"]}, "then": {"properties": {"b": {"not": {}}}}}]},
        ),
        ({"anyOf": [True, False]}, {"anyOf": [{}, {"not": {}}]}),
        ({"type": "array", "items": False}, {"type": "array", "items": {"not": {}}}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"properties": {"if": {"default": False}}}, {"properties": {"if": {"default": False}}}),
        ({"const": False, "enum": [True, False]}, {"const": False, "enum": [True, False]}),
    ],
)
def test_a_boolean_in_the_place_of_a_schema_becomes_one(
    schema: dict[str, Any], becomes: dict[str, Any]
) -> None:
    assert without_boolean_schemas(schema) == becomes
    before, after = Draft202012Validator(schema), Draft202012Validator(becomes)
    assert [before.is_valid(value) for value in SOME] == [after.is_valid(value) for value in SOME]


def test_every_known_tool_has_a_portable_schema_that_is_no_other() -> None:
    for known, value in itertools.product(KNOWN.values(), SOME):
        made = without_boolean_schemas(known.input_schema)
        assert without_boolean_schemas(made) == made
        again = Draft202012Validator(made).is_valid(value)
        assert again == Draft202012Validator(known.input_schema).is_valid(value), known.name
