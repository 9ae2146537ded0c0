"""Schemas as clients take them mean what they meant."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flycore.catalog.builtin import KNOWN
from flycore.server.mcp.client_rules import ROOT_COMBINATORS
from flycore.server.mcp.schema_compat import (
    LONGEST_TEXT,
    listed_input,
    listed_output_schema,
    rule_text,
    without_boolean_schemas,
)
from kits.kernel import ECHO, Root, kernel_of, tool
from kits.mcp_clients import NEW, about, client_of
from kits.tables import each_row

SOME: list[Any] = [{}, 1, "x", [], [1], {"a": 1}, {"a": 1, "b": 2}, {"a": {"c": None}}]


@each_row(
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


def test_no_known_tool_is_listed_with_a_combinator_at_its_root() -> None:
    for known in KNOWN.values():
        for listed in (listed_input(known.input_schema).schema, listed_output_schema(known.output_schema)):
            assert not ROOT_COMBINATORS & set(listed), known.name
        combined = ROOT_COMBINATORS & set(known.input_schema)
        told = rule_text(known.input_schema)
        assert bool(told) is bool(combined), known.name
        assert "JSON Schema" not in told, f"{known.name}: a rule without words"


@each_row(
    ("schema", "words"),
    [
        ({"properties": {"a": {}}}, ""),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, "Needs a or b with c."),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "Needs exactly one of: a or b."),
        (
            {"if": {"properties": {"a": {"const": "x"}}, "required": ["a"]}, "then": {"required": ["b"]}},
            'If a is "x": needs b.',
        ),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"b": False}}, "else": {"required": ["c"]}},
            "If a is given: takes no b. If not (a is given): needs c.",
        ),
        (
            {"not": {"required": ["a"]}},
            'The input has to match this JSON Schema as well: {"not": {"required":',
        ),
        ({"allOf": [{"minProperties": 2}]}, 'as well: {"minProperties": 2}'),
        ({"anyOf": [{"required": ["a"], "properties": {"a": {"type": "string"}}}]}, "as well: "),
    ],
)
def test_the_description_says_what_the_listed_schema_leaves_out(schema: dict[str, Any], words: str) -> None:
    told = rule_text(schema)
    assert words in told
    assert bool(told) is bool(words)


def test_properties_that_only_an_alternative_names_are_listed() -> None:
    one, other = {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}}, {"required": ["b"]}
    third = {"properties": {"b": {"type": "integer"}, "c": {"type": "integer"}, "d": False}}
    listed = listed_input(
        {"properties": {"a": {"minLength": 1}}, "anyOf": [one, {"allOf": [other, third]}]}
    ).schema
    assert listed == {
        "type": "object",
        "properties": {"a": {"minLength": 1}, "b": {}, "c": {}},
    }


def test_the_rules_of_a_hostile_schema_are_told_within_a_limit() -> None:
    many: dict[str, Any] = {"allOf": [{"minProperties": number} for number in range(5_000)]}
    assert len(rule_text(many)) < LONGEST_TEXT + 200
    assert len(rule_text({"not": {"const": "x" * 100_000}})) < 200


@pytest.mark.anyio
async def test_the_kernel_checks_what_the_listed_schema_leaves_out(tmp_path: Path) -> None:
    root = Root(tmp_path)
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    root.sidecar("echo", ECHO, tool("echo.free", inputSchema=schema))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel, client_of(root, kernel, NEW) as client:
        listed = {one.name: one for one in (await client.list_tools()).tools}["echo_free"]
        assert set(listed.input_schema) == {"type", "properties"}
        assert (listed.description or "").endswith("Needs a or b.")
        refused = await client.call_tool("echo_free", {})
        assert about(refused)["error"]["code"] == "invalid-input"
        assert not (await client.call_tool("echo_free", {"b": ""})).is_error
