"""The process for checks: it ends by its limits, and what it has found out before counts."""

from __future__ import annotations

import pytest

from flycore.catalog.check_process import check_in_process, fits_in_process
from flycore.catalog.schemas import accepts, check_input, check_needs_process, fits, needs_process
from flycore.model.json import Json, JsonObject
from kits.recursive_schemas import DOUBLING, nested, without_end

NODE: JsonObject = {"$ref": "#/$defs/n"}
LIST: JsonObject = {"type": "array", "items": NODE}


@pytest.mark.parametrize("depth", [20, 60])
def test_an_explanation_that_fills_the_memory_is_given_up_and_the_place_is_told(depth: int) -> None:
    value: JsonObject = {"a": nested(depth, 1)}
    assert check_needs_process(DOUBLING, value)
    (found,) = check_input(DOUBLING, value)[1]
    assert found.pointer == "/a"
    assert found.message.startswith("does not fit; why could not be found out")
    assert not accepts(DOUBLING, value)
    assert check_input(DOUBLING, {"a": nested(depth, "x")})[1] == ()


def test_a_check_without_end_is_a_violation_and_decides_nothing() -> None:
    schema = without_end()
    assert needs_process(schema, {"a": "x"})
    (found,) = check_input(schema, {"a": "x"})[1]
    assert found.message == "it could not be checked within 2 seconds: send less at once"
    assert fits(schema, {"a": "x"}) is None
    assert not accepts(schema, {"a": "x"})


@pytest.mark.parametrize(
    ("schema", "value", "place"),
    [
        ({"properties": {"a/b": {"items": NODE}}}, {"a/b": ["x", nested(20, 1)]}, "/a~1b/1"),
        ({"properties": {"a": {"additionalProperties": NODE}}}, {"a": {"x y%": nested(20, 1)}}, "/a/x y%"),
        ({"properties": {"a": {"prefixItems": [True, NODE]}}}, {"a": [1, nested(20, 1)]}, "/a/1"),
        ({"$ref": "#/$defs/whole"}, {"a": nested(20, 1)}, "/a"),
        ({"$id": "https://example.org/s", "properties": {"a": NODE}}, {"a": nested(20, 1)}, "/a"),
        ({"anyOf": [{"properties": {"a": NODE}}]}, {"a": nested(20, 1)}, ""),
    ],
)
def test_the_place_is_found_on_the_way_through_plain_keywords(
    schema: JsonObject, value: JsonObject, place: str
) -> None:
    node: Json = {"anyOf": [{"type": "string"}, LIST, LIST]}
    definitions: Json = {"n": node, "whole": {"properties": {"a": NODE}}}
    (found,) = check_in_process({**schema, "$defs": definitions}, value)
    assert found.pointer == place
    assert found.message.startswith("does not fit")


def test_what_can_be_explained_is_explained_in_the_process_as_well() -> None:
    schema: JsonObject = {"properties": {"a": {"items": {"type": "integer"}}}}
    found = check_in_process(schema, {"a": [1, "x", "y"]})
    assert [(item.pointer, item.message) for item in found] == [
        ("/a/1", '"x" is not of type "integer"'),
        ("/a/2", '"y" is not of type "integer"'),
    ]
    assert fits_in_process(schema, {"a": [1]}) is True
    assert fits_in_process(schema, {"a": ["x"]}) is False
