"""Equal values become one object, and values that only Python takes for equal do not."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.json import Json, JsonObject
from flycore.model.shared_values import SharedValues, with_shared_tools
from kits.tables import each_row


def schema_of(value: str) -> JsonObject:
    found: JsonObject = msgspec.json.decode(value)
    return found


def test_equal_schemas_and_texts_are_one_object() -> None:
    shared, text = SharedValues(), '{"type": "object", "properties": {"q": {"type": "string"}}}'
    first, second = schema_of(text), schema_of(text)
    assert first is not second
    assert shared.json(first) is first
    assert shared.json(second) is first
    assert shared.json({}) is shared.json({})
    one, other = "".join(("Finds ", "things.")), "".join(("Finds ", "things."))
    assert shared.text(one) is shared.text(other) is one
    assert shared.optional(None) is None


@each_row(
    ("one", "other"),
    [
        ('{"default": 1}', '{"default": true}'),
        ('{"default": 1}', '{"default": 1.0}'),
        ('{"default": 0.0}', '{"default": -0.0}'),
        ('{"default": ""}', '{"default": null}'),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('{"properties": {"a": {}, "b": {}}}', '{"properties": {"b": {}, "a": {}}}'),
    ],
)
def test_what_a_person_would_see_differently_stays_apart(one: str, other: str) -> None:
    shared, first, second = SharedValues(), schema_of(one), schema_of(other)
    assert shared.json(first) is first
    assert shared.json(second) is second


def test_a_value_that_is_too_deep_stays_as_it_is() -> None:
    shared, deep = SharedValues(), schema_of('{"a": 1}')
    for _ in range(5_000):
        deep = {"not": deep}
    assert shared.json(deep) is deep


@pytest.mark.parametrize("entry", [None, [], {"tools": None}, {"tools": ["web.search", 5, {"name": 5}]}])
def test_an_entry_of_any_shape_comes_back_as_it_was(entry: Json) -> None:
    assert with_shared_tools(entry, SharedValues()) is entry


def test_the_tools_of_an_entry_share_what_is_equal_and_keep_what_is_not() -> None:
    text = (
        '{"tools": [{"name": "a.one", "description": "x y", "inputSchema": {"type": "object"}},'
        ' {"name": "a.two", "description": "x y", "inputSchema": {"type": "object"}},'
        ' {"name": "a.two", "description": "z", "inputSchema": {"type": "array"}}]}'
    )
    entry = with_shared_tools(schema_of(text), SharedValues())
    assert entry == schema_of(text)
    first, second, third = entry["tools"]
    assert first["inputSchema"] is second["inputSchema"] is not third["inputSchema"]
    assert first["description"] is second["description"]
