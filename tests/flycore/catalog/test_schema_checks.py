"""Checking inputs: all violations, filled defaults, nothing retrieved, nothing leaked, and an oracle."""

from __future__ import annotations

import json
import resource
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry

from flycore.catalog import check_process
from flycore.catalog.builtin import KNOWN
from flycore.catalog.schemas import (
    accepts,
    check_input,
    check_output,
    check_schema,
    fill_defaults,
    input_needs_process,
    needs_process,
)
from flycore.model.json import Json, JsonObject
from kits.suites import examples
from kits.tables import each_row

CLOSED: JsonObject = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 3},
        "b": {"type": "string", "maxLength": 2},
        "c": {"type": "object", "properties": {"d": {"default": 7}}},
        "e~/f": {"type": "boolean"},
    },
    "required": ["z"],
    "additionalProperties": False,
}


def test_every_violation_with_its_pointer() -> None:
    _, found = check_input(CLOSED, {"a": 1, "b": "abc", "e~/f": 1, "q": 0})
    assert sorted(violation.pointer for violation in found) == ["", "", "/a", "/b", "/e~0~1f"]
    text = " ".join(violation.message for violation in found)
    assert '"z" is a required property' in text
    assert "'q' was unexpected" in text


def test_good_input_has_none() -> None:
    schema = {**CLOSED, "required": []}
    assert check_input(schema, {"a": 3}) == ({"a": 3}, ())


@each_row(
    ("schema", "value", "filled"),
    [
        ({"properties": {"a": {"default": 1}}}, {}, {"a": 1}),
        ({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"properties": {"b": {"default": 2}}}}}, {"a": {}}, {"a": {"b": 2}}),
        ({"properties": {"a": {"properties": {"b": {"default": 2}}}}}, {}, {}),
        ({"properties": {"a": {"default": {}, "properties": {"b": {"default": 2}}}}}, {}, {"a": {}}),
        ({"items": {"properties": {"a": {"default": 1}}}}, [{}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ({"properties": {"a": True, "b": False}}, {"a": 1}, {"a": 1}),
        ({"properties": 3}, {"a": 1}, {"a": 1}),
        (True, {"a": 1}, {"a": 1}),
    ],
)
def test_defaults(schema: Json, value: Json, filled: Json) -> None:
    before = json.dumps(value)
    assert fill_defaults(schema, value) == filled
    assert json.dumps(value) == before


def test_default_is_part_of_what_is_checked() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "integer", "default": "no"}}}
    assert [violation.pointer for violation in check_input(schema, {})[1]] == ["/a"]


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://127.0.0.1:9/x", "other.json", "//host/x"])
def test_nothing_is_retrieved(address: str) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": address}}}
    assert check_schema(schema)
    _, found = check_input(schema, {"a": 1})
    assert found
    assert "root:" not in found[0].message


def test_local_reference_works() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "null"}},
    }
    assert check_schema(schema) == ()
    assert check_input(schema, {"a": None})[1] == ()
    assert check_input(schema, {"a": 1})[1]


@each_row(
    "schema",
    [
        {"type": "objekt"},
        {"pattern": "("},
        {"pattern": "(?=x)y"},
        {"properties": []},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": "https://nowhere.example/schema"},
        {"required": "a"},
    ],
)
def test_schema_that_cannot_be_used(schema: JsonObject) -> None:
    assert len(check_schema(schema)) == 1
    assert check_input(schema, {})[1]
    assert not accepts(schema, {})


def test_pattern_in_linear_time() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert check_input(schema, {"a": "a" * 50_000 + "b"})[1]


@each_row(
    "rule", [{"type": "integer"}, {"maxLength": 3}, {"pattern": "^x$"}, {"enum": [1]}, {"const": 1}, False]
)
def test_message_holds_a_short_piece_only(rule: Json) -> None:
    secret = "s3cret" * 10_000
    _, found = check_input({"properties": {"a": rule}}, {"a": secret})
    assert found
    assert all(len(violation.message) <= 300 for violation in found)
    assert all(secret[:60] not in violation.message for violation in found)


def test_control_characters_are_escaped_in_messages() -> None:
    _, found = check_input({"properties": {"a": {"type": "integer"}}}, {"a": "\x1b[2J\u202e"})
    assert found[0].message.isprintable()


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"a": float("nan")}, {"a": float("inf")}])
def test_what_is_no_json_is_refused(value: JsonObject) -> None:
    assert check_input({"type": "object"}, value)[1]


def test_very_many_violations_are_listed_in_part() -> None:
    schema: JsonObject = {"properties": {"a": {"items": {"type": "integer"}}}}
    found = check_input(schema, {"a": [str(number) for number in range(1000)]})[1]
    assert len(found) == 101
    assert found[-1].message == "and more: only the first 100 are listed"


def _contains(count: int) -> JsonObject:
    return {"properties": {"a": {"allOf": [{"contains": {"const": number}} for number in range(count)]}}}


MANY: Json = [0] * 60_000


def test_large_value_is_checked_in_a_process_of_its_own() -> None:
    schema: JsonObject = {"properties": {"a": {"items": {"type": "integer"}}}}
    assert needs_process(schema, {"a": MANY})
    assert not needs_process(schema, {"a": [0] * 1000})
    assert check_input(schema, {"a": MANY})[1] == ()
    assert accepts(schema, {"a": MANY})
    found = check_input(schema, {"a": ["x", *[0] * 60_000]})[1]
    assert [(item.pointer, item.message) for item in found] == [("/a/0", '"x" is not of type "integer"')]
    assert not accepts(schema, {"a": ["x", *[0] * 60_000]})


def test_hostile_schema_makes_a_small_value_costly() -> None:
    schema: JsonObject = {"items": {"allOf": [{"type": "integer"}] * 2000}}
    assert needs_process(schema, [0] * 200)
    assert not needs_process(schema, [0] * 20)


@pytest.mark.parametrize("schema", [_contains(100), {"properties": {"a": {"items": {"type": "string"}}}}])
def test_violations_without_number_do_not_cost_this_process_its_memory(schema: JsonObject) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = check_input(schema, {"a": MANY})[1]
    assert found
    assert len(found) <= 101
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_check_that_takes_too_long_is_a_violation() -> None:
    inner: JsonObject = {"allOf": [{"type": "integer"}] * 2000}
    schema: JsonObject = {"properties": {"a": {"items": {"allOf": [inner] * 20}}}}
    found = check_input(schema, {"a": [0] * 200_000})[1]
    assert [item.message for item in found] == ["it could not be checked within 2 seconds: send less at once"]


def test_depth_is_no_crash() -> None:
    deep: Json = 1
    for _ in range(64):
        deep = [deep]
    assert check_input({"type": "object"}, {"a": deep})[1] == ()


def test_output() -> None:
    assert check_output({}, {"a": 1}) == ()
    assert check_output({"required": ["b"]}, {"a": 1})[0].message == '"b" is a required property'


def _values() -> st.SearchStrategy[Any]:
    words = st.sampled_from(
        ["", "a", "type", "key", "click", "json", "GET", "https://example.org/", "ctrl+s", "x" * 70]
    )
    scalar = st.none() | st.booleans() | st.integers(-5, 70_000) | words
    return st.recursive(scalar, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_agrees_with_the_oracle(data: st.DataObject) -> None:
    capability = data.draw(st.sampled_from(list(KNOWN.values())))
    names = st.sampled_from([*capability.input_schema["properties"], "stranger"])
    base = dict(data.draw(st.sampled_from(capability.examples)))
    value = base | data.draw(st.dictionaries(names, _values(), max_size=3))
    for name in data.draw(st.lists(st.sampled_from(sorted(value)), max_size=1)) if value else ():
        del value[name]
    filled, found = check_input(capability.input_schema, value)
    registry: Registry[Any] = Registry()
    oracle = jsonschema.Draft202012Validator(capability.input_schema, registry=registry)
    assert (not found) == oracle.is_valid(filled)


def _doubling(levels: int, way: str) -> JsonObject:
    def twice(n: int) -> JsonObject:
        to = f"#/$defs/a{n}" if way == "pointer" else f"#a{n}"
        return {"$anchor": f"a{n - 1}", "allOf": [{"$ref": to}, {"$ref": to}]}

    chain: JsonObject = {f"a{n}": twice(n + 1) for n in range(levels)}
    last: JsonObject = {"$anchor": f"a{levels}", "type": "string"}
    return {"properties": {"it": {"$ref": "#/$defs/a0"}}, "$defs": {**chain, f"a{levels}": last}}


@pytest.mark.parametrize("way", ["pointer", "anchor"])
def test_references_that_double_their_work_make_a_schema_unusable(way: str) -> None:
    assert check_schema(_doubling(4, way)) == ()
    assert check_schema(_doubling(64, way)) != ()
    assert check_input(_doubling(64, way), {"it": 1})[1] != ()


def test_references_in_a_ring_and_large_plain_schemas_stay_usable() -> None:
    ring: JsonObject = {"properties": {"next": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}}
    assert check_schema(ring) == ()
    wide: JsonObject = {"properties": {f"p{n}": {"enum": list(range(20))} for n in range(20_000)}}
    assert check_schema(wide) == ()


def patterned(count: int, pattern: str) -> JsonObject:
    """A schema of that many patterns, each another."""
    fields: JsonObject = {f"p{number}": {"pattern": f"{pattern}{number}"} for number in range(count)}
    return {"type": "object", "properties": fields}


def test_patterns_that_take_long_to_make_are_refused() -> None:
    """Nothing else goes on while one is made, and each may take ten megabytes."""
    assert check_schema(patterned(64, "^[a-z]{1,64}-")) == ()
    assert "64 patterns" in check_schema(patterned(65, "a"))[0]
    assert "64 patterns" in check_schema({"patternProperties": dict.fromkeys(map(str, range(65)), True)})[0]
    assert check_schema(patterned(1, "^[\\p{L}\\p{N} .-]{0,300}"))


def test_schemas_with_patterns_are_still_checked_once_many_were_seen() -> None:
    schemas = [patterned(60, f"^{letter}") for letter in "abcdefghijklmnopqrstuvwxyz"]
    for _ in range(2):
        for schema, letter in zip(schemas, "abcdefghijklmnopqrstuvwxyz", strict=True):
            assert check_input(schema, {"p7": f"{letter}7"})[1] == ()
            assert check_input(schema, {"p7": f"-{letter}7"})[1]


def test_an_ordinary_call_starts_no_process_whether_it_fits_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(check_process.subprocess, "Popen", start)
    for name, capability in KNOWN.items():
        assert check_schema(capability.input_schema) == ()
        for example in capability.examples:
            wrong: JsonObject = {key: {"x": [1.5]} for key in list(example)[:2]}
            faulty: JsonObject = {**example, **wrong, "stranger": 0}
            for value in (example, faulty, {}):
                assert not input_needs_process(capability.input_schema, value), (name, value)
                check_input(capability.input_schema, value)


JSON_VALUE: JsonObject = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/value"}},
    "$defs": {
        "value": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/value"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}},
            ]
        }
    },
}


def test_ordinary_recursion_is_checked_here() -> None:
    deep: Json = {"x": ["y", 1.5, None]}
    for _ in range(15):
        deep = [{"b": deep, "c": "d"}]
    assert input_needs_process(JSON_VALUE, {"a": deep})  # until its validator is built
    assert check_schema(JSON_VALUE) == ()
    assert not input_needs_process(JSON_VALUE, {"a": deep})
    assert check_input(JSON_VALUE, {"a": deep})[1] == ()


def test_a_check_that_may_stay_here_leaves_a_costly_explanation_to_the_process() -> None:
    schema: JsonObject = {"properties": {"a": {"items": {"required": ["b"]}}}}
    assert not needs_process(schema, {"a": [{}] * 4_000})
    assert input_needs_process(schema, {"a": [{}] * 4_000})
    assert not input_needs_process(schema, {"a": [{"b": 1}] * 1_200})
    assert len(check_input(schema, {"a": [{}] * 4_000})[1]) == 101


def test_defaults_do_not_make_a_small_input_large() -> None:
    items: JsonObject = {"properties": {"b": {"default": "x" * 50_000}}}
    schema: JsonObject = {"properties": {"a": {"items": items}}}
    value: JsonObject = {"a": [{}] * 1_000}
    assert input_needs_process(schema, value)
    assert [item.message for item in check_input(schema, value)[1]] == [
        "the defaults of the schema make it too large"
    ]
    filled, found = check_input(schema, {"a": [{}]})
    assert (filled, found) == ({"a": [{"b": "x" * 50_000}]}, ())
