"""The bound of the work of a check: it grows where the work grows, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from flycore.catalog.builtin import KNOWN
from flycore.model.schema_cost import UNBOUNDED, CostlySchemaError, SchemaCost, depth_of, part_at
from kits.tables import each_row

SELF = {"$ref": "#"}
LIST = {"type": "array", "items": SELF}


@each_row(
    "schema",
    [
        {"anyOf": [{"type": "string"}, LIST, LIST]},
        {"oneOf": [LIST, LIST]},
        {"allOf": [LIST, LIST]},
        {"items": SELF, "contains": SELF},
        {"items": SELF, "not": LIST},
        {"if": LIST, "then": LIST},
        {"additionalProperties": SELF, "patternProperties": {"^a": SELF}},
        {"properties": {"a": SELF}, "dependentSchemas": {"a": {"properties": {"a": SELF}}}},
        {"properties": {"a": SELF}, "unevaluatedProperties": SELF},
        {"prefixItems": [SELF], "contains": SELF},
        {"properties": {"a": True}, "additionalProperties": {"allOf": [SELF, SELF]}},
        {
            "$dynamicAnchor": "n",
            "allOf": [{"items": {"$dynamicRef": "#n"}}] * 2,
        },
        {"$id": "https://example.org/n", "allOf": [{"items": {"$ref": "https://example.org/n"}}] * 2},
    ],
)
def test_two_ways_back_double_the_visits_of_each_level(schema: dict[str, Any]) -> None:
    cost = SchemaCost(schema)
    assert cost.visits(20) >= 2**20
    assert cost.visits(64) >= UNBOUNDED
    assert cost.visits(1) < 100


@each_row(
    "schema",
    [
        {"properties": {"left": SELF, "right": SELF}, "additionalProperties": False},
        {"properties": {"left": SELF}, "additionalProperties": SELF},
        {"prefixItems": [SELF, SELF], "items": SELF},
        {"anyOf": [{"type": "string"}, LIST, {"type": "object", "additionalProperties": SELF}]},
        {
            "oneOf": [
                {"properties": {"and": LIST}},
                {"properties": {"or": LIST}},
                {"properties": {"no": SELF}},
            ]
        },
        {"properties": {"children": {"items": SELF}, "name": {"type": "string"}}, "required": ["name"]},
    ],
)
def test_one_way_back_adds_the_same_visits_on_each_level(schema: dict[str, Any]) -> None:
    cost = SchemaCost(schema)
    step = cost.visits(42) - cost.visits(40)
    assert cost.visits(62) - cost.visits(60) == step
    assert cost.visits(62) < 2_000


def test_without_recursion_the_depth_of_the_value_does_not_matter() -> None:
    for capability in KNOWN.values():
        cost = SchemaCost(capability.input_schema)
        assert cost.visits(8) == cost.visits(64) < 1_000


@each_row(
    "schema",
    [
        SELF,
        {"anyOf": [SELF, {"type": "string"}]},
        {"not": SELF},
        {"items": {"$id": "https://example.org/other", "items": SELF}},
        {"items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
        {"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n", "items": SELF}}, "$ref": "#n"},
    ],
)
def test_what_no_bound_is_known_of_is_unbounded(schema: dict[str, Any]) -> None:
    assert SchemaCost(schema).visits(0) == UNBOUNDED


def test_each_unevaluated_keyword_multiplies_what_lies_in_it() -> None:
    schema: dict[str, Any] = {"properties": {"b": True}}
    for _ in range(20):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "string"}}
    assert SchemaCost(schema).visits(1) > 2**20


def test_a_chain_of_references_without_end_is_refused() -> None:
    chain = {f"d{number}": {"items": {"$ref": f"#/$defs/d{number + 1}"}} for number in range(5_000)}
    with pytest.raises(CostlySchemaError):
        SchemaCost({"$ref": "#/$defs/d0", "$defs": chain})
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(5_000)}
    with pytest.raises(CostlySchemaError):
        SchemaCost({"$ref": "#/$defs/d0", "$defs": chain})


def test_the_depth_of_a_value() -> None:
    assert depth_of(1) == 0
    assert depth_of({"a": [1], "b": {}}) == 2
    assert depth_of([[[]], 1, {"a": {"b": [[1]]}}]) == 5


def test_a_part_by_its_pointer() -> None:
    root = {"a": [{"b/c": 1}]}
    assert part_at(root, "/a/0/b~1c") == 1
    assert part_at(root, "") is root
    assert part_at(root, "/a/1") is None
