"""The form's pure part: any schema makes fields, any value has a place in them, and what is read out again is
what the kernel's validator is asked about."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flycore.catalog import check_process
from flycore.catalog.builtin import KNOWN
from flycore.catalog.schemas import accepts, check_input
from flycore.model.json import Json, JsonObject
from flysafe.text import safe_text
from flytui.console.forms.layout import Control, LayoutEntry, layout_entries, problems_by_entry
from flytui.console.forms.schema_fields import MAX_FIELDS, FieldKind, SchemaField, schema_fields
from flytui.console.forms.validate import FormResult, InputProblem, read_form, read_json, value_for
from flytui.console.forms.values import (
    ArrayValue,
    ChoiceValue,
    ObjectValue,
    TextValue,
    UnionValue,
    initial_value,
    value_at,
    with_item_added_or_removed,
    with_value_at,
    without_tokens,
)
from kits.payloads import PAYLOADS
from kits.recursive_schemas import DOUBLING, nested
from kits.suites import examples
from kits.tables import each_row

PLACE: JsonObject = {
    "type": "object",
    "required": ["x"],
    "properties": {"x": {"type": "integer"}, "unit": {"type": "string", "default": "px"}},
}


def form(*required: str, **properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def only(field: SchemaField) -> SchemaField:
    assert len(field.fields) == 1
    return field.fields[0]


def labels(entries: tuple[LayoutEntry, ...]) -> list[tuple[str, Control]]:
    return [(entry.label, entry.control) for entry in entries]


@each_row(
    ("schema", "kind"),
    [
        ({"type": "string"}, FieldKind.TEXT),
        ({"type": "integer"}, FieldKind.NUMBER),
        ({"type": "number"}, FieldKind.NUMBER),
        ({"type": "boolean"}, FieldKind.CHOICE),
        ({"type": "null"}, FieldKind.CHOICE),
        ({"enum": ["a", 1, None]}, FieldKind.CHOICE),
        ({"const": {"a": 1}}, FieldKind.CHOICE),
        ({"type": "array", "items": {"type": "string"}}, FieldKind.ARRAY),
        ({"type": "array"}, FieldKind.JSON),
        ({"type": "array", "prefixItems": [{}], "items": {}}, FieldKind.JSON),
        (PLACE, FieldKind.OBJECT),
        ({"type": "object"}, FieldKind.JSON),
        ({"type": "object", "additionalProperties": {"type": "string"}}, FieldKind.JSON),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, FieldKind.UNION),
        ({"oneOf": [PLACE, {"const": 1}]}, FieldKind.UNION),
        ({"type": ["string", "null"]}, FieldKind.UNION),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, FieldKind.TEXT),
        ({"$ref": "#/$defs/place"}, FieldKind.OBJECT),
        ({"$ref": "#/$defs/nowhere"}, FieldKind.JSON),
        ({"$ref": "https://example.org/schema"}, FieldKind.JSON),
        ({"$ref": "file:///etc/passwd"}, FieldKind.JSON),
        ({"$ref": "#/$defs/self"}, FieldKind.JSON),
        ({"not": {"type": "string"}}, FieldKind.JSON),
        (True, FieldKind.JSON),
        (False, FieldKind.JSON),
        ({}, FieldKind.JSON),
        ({"type": "nonsense"}, FieldKind.JSON),
        ({"type": 7, "enum": 3, "properties": []}, FieldKind.JSON),
        ("garbage", FieldKind.JSON),
        (None, FieldKind.JSON),
    ],
)
def test_a_schema_makes_its_field(schema: Json, kind: FieldKind) -> None:
    whole = {**form(it=schema), "$defs": {"place": PLACE, "self": {"$ref": "#/$defs/self"}}}
    made = schema_fields(whole)
    if "self" in json.dumps(schema):
        assert made.kind is FieldKind.JSON  # a reference to itself says nothing: no form at all
    else:
        assert only(made).kind is kind


@each_row("schema", [True, False, None, 5, "x", [], {}, {"type": "string"}, {"type": "array"}])
def test_what_describes_no_object_is_one_json_field(schema: Json) -> None:
    assert schema_fields(schema).kind is FieldKind.JSON


def test_what_a_field_says_comes_from_its_schema() -> None:
    schema = form(
        "n",
        n={"type": "integer", "title": "N", "description": "how many", "minimum": 1, "maximum": 9},
        key={"type": "string", "writeOnly": True, "pattern": "^k"},
        long={"type": "string", "maxLength": 5000},
    )
    number, key, long = schema_fields(schema).fields
    assert (number.title, number.about, number.required) == ("N", "how many", True)
    assert number.bounds == ("at least 1", "at most 9", "whole")
    assert key.secret
    assert key.bounds == ("pattern ^k",)
    assert long.long


@each_row("name", [capability.name for capability in KNOWN.values()])
def test_every_known_tool_has_a_form_that_holds_its_examples(name: str) -> None:
    capability = KNOWN[name]
    field = schema_fields(capability.input_schema)
    for example in capability.examples:
        draft = value_for(field, example)
        reading = read_form(field, draft, capability.input_schema)
        assert reading.problems == ()
        assert reading.input == check_input(capability.input_schema, example)[0]


def test_optional_empty_fields_are_left_out_and_required_ones_are_missed() -> None:
    schema = form(
        "path", "n", path={"type": "string"}, n={"type": "integer"}, note={"type": "string"}, at=PLACE
    )
    field = schema_fields(schema)
    empty = read_form(field, initial_value(field), schema)
    assert empty.input == {}
    assert [(item.pointer, item.missing) for item in empty.problems] == [("/path", True), ("/n", True)]
    filled = with_value_at(
        with_value_at(initial_value(field), ("path",), TextValue("a")), ("n",), TextValue("3")
    )
    assert read_form(field, filled, schema) == FormResult({"path": "a", "n": 3})
    placed_at = with_value_at(filled, ("at", "x"), TextValue("4"))
    assert read_form(field, placed_at, schema).input["at"] == {"x": 4, "unit": "px"}


def test_defaults_are_filled_in_as_the_kernel_will() -> None:
    inner = {"type": "object", "properties": {"deep": {"type": "integer", "default": 2}}}
    schema = form(at={"type": "object", "default": {}, "properties": {"in": {**inner, "default": {}}}})
    field = schema_fields(schema)
    reading = read_form(field, initial_value(field), schema)
    assert reading.input == {"at": {"in": {"deep": 2}}}
    assert check_input(schema, reading.input) == (reading.input, ())


def test_a_required_field_that_a_default_fills_in_is_not_missed() -> None:
    schema = form("all", all={"type": "array", "items": True, "default": []})
    field = schema_fields(schema)
    assert read_form(field, value_for(field, {}), schema) == FormResult({"all": []})


def test_a_violation_stands_at_its_field_and_others_at_the_foot() -> None:
    schema = {
        **form(tags={"type": "array", "items": {"type": "string", "minLength": 2}}, free={}, at=PLACE),
        "additionalProperties": False,
        "minProperties": 9,
    }
    field = schema_fields(schema)
    draft = value_for(field, {"tags": ["ok", "x"], "free": {"a": [1]}, "at": {"x": "no"}, "odd": 1})
    assert isinstance(draft, ObjectValue)
    entries = layout_entries(field, draft)
    at, nowhere = problems_by_entry(entries, read_form(field, draft, schema).problems)
    assert set(at) == {("tags", 1), ("at", "x")}
    assert len(nowhere) == 2
    below, _ = problems_by_entry(entries, [InputProblem("/free/a/0", "odd"), InputProblem("/at", "whole")])
    assert below[("free",)][0].message == "/a/0: odd"
    assert below[("at",)][0].message == "whole"


def test_text_that_is_no_number_is_sent_as_it_stands_for_the_validator_to_refuse() -> None:
    schema = form(n={"type": "number"})
    field = schema_fields(schema)
    for text in ("abc", "1,5", "0x10", "01", "NaN", "Infinity", "1_000", "٣"):
        reading = read_form(field, with_value_at(initial_value(field), ("n",), TextValue(text)), schema)
        assert reading.input == {"n": text}
        assert [problem.pointer for problem in reading.problems] == ["/n"]
    for text, number in (("-0.5", -0.5), (" 7 ", 7), ("1e3", 1000.0)):
        assert read_form(
            field, with_value_at(initial_value(field), ("n",), TextValue(text)), schema
        ) == FormResult({"n": number})
    assert (
        read_form(field, with_value_at(initial_value(field), ("n",), TextValue("1e999")), schema).broken
        is not None
    )


@each_row("text", ["{", "1,2", '1,"more":2', '1,"value":2', "{}}", "NaN", "", "[" * 5000])
def test_json_that_cannot_be_read_is_never_sent(text: str) -> None:
    schema = form("free", free={})
    field = schema_fields(schema)
    reading = read_form(
        field, with_value_at(initial_value(field), ("free",), TextValue(text, as_json=True)), schema
    )
    assert reading.problems
    assert reading.broken is not None or text == ""
    assert read_json(text, schema).broken is not None


def test_an_empty_item_is_no_input() -> None:
    schema = form(numbers={"type": "array", "items": {"type": "integer"}})
    field = schema_fields(schema)
    draft = with_value_at(initial_value(field), ("numbers",), ArrayValue((TextValue("1"), TextValue())))
    broken = read_form(field, draft, schema).broken
    assert broken is not None
    assert broken.pointer == "/numbers/1"


def test_items_come_and_go_where_keys_are() -> None:
    field = schema_fields(form(at={"type": "array", "items": PLACE}))
    draft = value_for(field, {"at": [{"x": 1}, {"x": 2}]})
    more = with_item_added_or_removed(field, draft, ("at", 0, "x"), True)
    assert more is not None
    items = value_at(more[0], ("at",))
    assert isinstance(items, ArrayValue)
    assert [value_at(item, ("x",)) for item in items.items] == [TextValue("1"), TextValue(), TextValue("2")]
    assert more[1] == ("at", 1)
    less = with_item_added_or_removed(field, more[0], ("at", 0), False)
    assert less is not None
    rest = value_at(less[0], ("at",))
    assert isinstance(rest, ArrayValue)
    assert [value_at(item, ("x",)) for item in rest.items] == [TextValue(), TextValue("2")]
    assert with_item_added_or_removed(field, draft, (), True) is None


def test_a_union_takes_the_branch_that_fits() -> None:
    ways: Json = {
        "oneOf": [
            {"title": "circle", **form("kind", "r", kind={"const": "circle"}, r={"type": "number"})},
            {"title": "square", **form("kind", "side", kind={"const": "square"}, side={"type": "number"})},
        ]
    }
    field = schema_fields(form("shape", shape=ways))
    draft = value_for(field, {"shape": {"kind": "square", "side": 2}})
    way = value_at(draft, ("shape",))
    assert isinstance(way, UnionValue)
    assert way.at == 1
    new = read_form(field, initial_value(field), form("shape", shape=ways))
    assert new.input == {"shape": {"kind": "circle"}}
    neither = value_for(field, {"shape": [1]})
    assert isinstance(value_at(neither, ("shape",)), TextValue)


def test_required_constants_are_chosen_and_other_choices_are_not() -> None:
    field = schema_fields(form("v", "on", v={"const": 3}, on={"type": "boolean"}))
    assert initial_value(field) == ObjectValue((("v", ChoiceValue(0)), ("on", ChoiceValue())))


def test_one_true_and_one_point_zero_are_three_values() -> None:
    field = schema_fields(form(it={"enum": [1, True, 1.0, "1"]}))
    for at, value in enumerate((1, True, 1.0, "1")):
        assert value_at(value_for(field, {"it": value}), ("it",)) == ChoiceValue(at)


def _nested(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = form(deeper=schema)
    return schema


def _doubling(levels: int) -> JsonObject:
    twice: JsonObject = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]}
        for n in range(levels)
    }
    return {**form(it={"$ref": "#/$defs/a0"}), "$defs": {**twice, f"a{levels}": {"type": "string"}}}


_TREE: JsonObject = {
    "$ref": "#/$defs/node",
    "$defs": {"node": form(**{f"n{i}": {"$ref": "#/$defs/node"} for i in range(20)})},
}


@each_row(
    "schema",
    [
        _nested(64),
        form(**{f"p{n}": {"type": "string"} for n in range(10_000)}),
        form(**{f"p{n}": _nested(6) for n in range(40)}),
        {"type": "object", "anyOf": [form(**{f"k{n}": {}}) for n in range(10_000)]},
        _doubling(64),
        _TREE,
        {"$ref": "#"},
        {**form(it={"$ref": "#/properties/it"})},
        form(it={"enum": [f"option {n}" for n in range(10_000)]}),
    ],
    ids=["deep", "wide", "broad", "branches", "doubling", "tree", "itself", "loop", "enum"],
)
def test_a_schema_beyond_all_bounds_makes_a_bounded_form(schema: Json) -> None:
    field = schema_fields(schema)
    entries = layout_entries(field, initial_value(field))
    assert len(entries) <= 2 * MAX_FIELDS
    assert max((entry.depth for entry in entries), default=0) <= 12


scalars: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
names = st.sampled_from(["a", "b", "c/d", "e~f", "", "[/nope]"])
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=8,
)
_leaf_schemas: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from(
        [
            True,
            {},
            {"type": "string"},
            {"type": "string", "minLength": 2},
            {"type": "integer", "minimum": 0},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["integer", "null"]},
            {"type": "array"},
            {"type": "object"},
        ]
    ),
    st.lists(scalars, min_size=1, max_size=4).map(lambda options: {"enum": options}),
    scalars.map(lambda value: {"const": value}),
)


def _objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(
        lambda properties, required, closed: {
            "type": "object",
            "properties": properties,
            "required": sorted(required & set(properties)),
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(names, inner, min_size=1, max_size=4),
        st.sets(names),
        st.booleans(),
    )


def _wider(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(
        _objects(inner),
        inner.map(lambda schema: {"type": "array", "items": schema}),
        st.lists(inner, min_size=1, max_size=3).map(lambda ways: {"anyOf": ways}),
        st.tuples(inner, values).map(
            lambda both: {**both[0], "default": both[1]} if isinstance(both[0], dict) else both[0]
        ),
    )


schemas = _objects(st.recursive(_leaf_schemas, _wider, max_leaves=6))
_CALM = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@_CALM
@given(schemas, st.dictionaries(names, values, max_size=4))
def test_every_value_comes_out_of_the_form_as_it_went_in(schema: JsonObject, value: JsonObject) -> None:
    field = schema_fields(schema)
    reading = read_form(field, value_for(field, value), True)
    assert reading.broken is None
    assert reading.input == value
    assert json.dumps(reading.input, sort_keys=True) == json.dumps(value, sort_keys=True)


@_CALM
@given(
    schemas.flatmap(lambda schema: st.tuples(st.just(schema), st.dictionaries(names, scalars, max_size=4)))
)
def test_whatever_fits_has_its_place_in_the_fields(both: tuple[JsonObject, JsonObject]) -> None:
    schema, value = both
    assume(accepts(schema, value))
    assert isinstance(value_for(schema_fields(schema), value), ObjectValue)


@_CALM
@given(schemas, st.dictionaries(names, values, max_size=4))
def test_what_the_form_calls_valid_the_kernel_accepts_as_it_stands(
    schema: JsonObject, value: JsonObject
) -> None:
    field = schema_fields(schema)
    for draft in (initial_value(field), value_for(field, value)):
        reading = read_form(field, draft, schema)
        if not reading.problems:
            assert check_input(schema, reading.input) == (reading.input, ())
        elif reading.broken is None:
            assert not accepts(schema, reading.input)


@settings(max_examples=examples(60), deadline=None)
@given(st.text())
def test_a_field_shows_every_text_and_gives_it_back(text: str) -> None:
    assert without_tokens(safe_text(text)) == text


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_hostile_names_values_and_words_keep_their_places(payload: str) -> None:
    rule: Json = {"type": "string", "title": payload, "description": payload, "default": payload}
    schema = {**form(**{payload: rule, "of": {"enum": [payload, "b"]}}), "title": payload}
    field = schema_fields(schema)
    reading = read_form(field, initial_value(field), schema)
    assert reading.input == {payload: payload}
    draft = value_for(field, {payload: payload, "of": payload})
    assert read_form(field, draft, schema).input == {payload: payload, "of": payload}
    assert [entry.label for entry in layout_entries(field, draft)] == [payload, "of"]


def test_what_another_field_makes_necessary_is_missed_at_its_own_place() -> None:
    schema: JsonObject = {
        **form("act", act={"enum": ["move", "drag"]}, to={"type": "integer"}),
        "allOf": [{"if": {"properties": {"act": {"const": "drag"}}}, "then": {"required": ["to"]}}],
    }
    field = schema_fields(schema)
    reading = read_form(field, with_value_at(initial_value(field), ("act",), ChoiceValue(1)), schema)
    assert reading.problems == (InputProblem("/to", "is required", missing=True),)
    assert (
        read_form(field, with_value_at(initial_value(field), ("act",), ChoiceValue(0)), schema).problems == ()
    )


def test_what_takes_long_is_not_checked_while_somebody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(check_process.subprocess, "Popen", start)
    value = {"a": nested(40)}
    assert read_json(json.dumps(value), DOUBLING) == FormResult(value)
    assert read_json(json.dumps({"a": [1]}), DOUBLING).problems
    growing: JsonObject = {"default": [{}] * 50}
    for _ in range(12):
        growing = {"default": [{}] * 50, "items": {"properties": {"a": growing}}}
    assert read_json("{}", {"type": "object", "properties": {"a": growing}}).broken is None
