"""The form's pure part: any schema makes fields, any value has a place in them, and what is read out again is
what the kernel's validator is asked about."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flycore.catalog.known import KNOWN
from flycore.catalog.schemas import accepts, check_input
from flycore.model.canonical import Json, JsonObject
from flysafe.text import safe_text
from flytui.console.form.drafts import Group, Items, Leaf, Pick, Way, at_path, fresh, plain_of, put
from flytui.console.form.entries import Control, Entry, entries_of, placed
from flytui.console.form.fields import MOST_FIELDS, Field, Kind, fields_of
from flytui.console.form.items import changed_items
from flytui.console.form.reading import Problem, Reading, draft_for, read_form, read_json
from kits.payloads import PAYLOADS

PLACE: JsonObject = {
    "type": "object",
    "required": ["x"],
    "properties": {"x": {"type": "integer"}, "unit": {"type": "string", "default": "px"}},
}


def form(*required: str, **properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def only(field: Field) -> Field:
    assert len(field.fields) == 1
    return field.fields[0]


def labels(entries: tuple[Entry, ...]) -> list[tuple[str, Control]]:
    return [(entry.label, entry.control) for entry in entries]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, Kind.TEXT),
        ({"type": "integer"}, Kind.NUMBER),
        ({"type": "number"}, Kind.NUMBER),
        ({"type": "boolean"}, Kind.CHOICE),
        ({"type": "null"}, Kind.CHOICE),
        ({"enum": ["a", 1, None]}, Kind.CHOICE),
        ({"const": {"a": 1}}, Kind.CHOICE),
        ({"type": "array", "items": {"type": "string"}}, Kind.ARRAY),
        ({"type": "array"}, Kind.JSON),
        ({"type": "array", "prefixItems": [{}], "items": {}}, Kind.JSON),
        (PLACE, Kind.OBJECT),
        ({"type": "object"}, Kind.JSON),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Kind.JSON),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, Kind.UNION),
        ({"oneOf": [PLACE, {"const": 1}]}, Kind.UNION),
        ({"type": ["string", "null"]}, Kind.UNION),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, Kind.TEXT),
        ({"$ref": "#/$defs/place"}, Kind.OBJECT),
        ({"$ref": "#/$defs/nowhere"}, Kind.JSON),
        ({"$ref": "https://example.org/schema"}, Kind.JSON),
        ({"$ref": "file:///etc/passwd"}, Kind.JSON),
        ({"$ref": "#/$defs/self"}, Kind.JSON),
        ({"not": {"type": "string"}}, Kind.JSON),
        (True, Kind.JSON),
        (False, Kind.JSON),
        ({}, Kind.JSON),
        ({"type": "nonsense"}, Kind.JSON),
        ({"type": 7, "enum": 3, "properties": []}, Kind.JSON),
        ("garbage", Kind.JSON),
        (None, Kind.JSON),
    ],
)
def test_a_schema_makes_its_field(schema: Json, kind: Kind) -> None:
    whole = {**form(it=schema), "$defs": {"place": PLACE, "self": {"$ref": "#/$defs/self"}}}
    made = fields_of(whole)
    if "self" in json.dumps(schema):
        assert made.kind is Kind.JSON  # a reference to itself says nothing: no form at all
    else:
        assert only(made).kind is kind


@pytest.mark.parametrize("schema", [True, False, None, 5, "x", [], {}, {"type": "string"}, {"type": "array"}])
def test_what_describes_no_object_is_one_json_field(schema: Json) -> None:
    assert fields_of(schema).kind is Kind.JSON


def test_what_a_field_says_comes_from_its_schema() -> None:
    schema = form(
        "n",
        n={"type": "integer", "title": "N", "description": "how many", "minimum": 1, "maximum": 9},
        key={"type": "string", "writeOnly": True, "pattern": "^k"},
        long={"type": "string", "maxLength": 5000},
    )
    number, key, long = fields_of(schema).fields
    assert (number.title, number.about, number.required) == ("N", "how many", True)
    assert number.bounds == ("at least 1", "at most 9", "whole")
    assert key.secret
    assert key.bounds == ("pattern ^k",)
    assert long.long


@pytest.mark.parametrize("name", [capability.name for capability in KNOWN.values()])
def test_every_known_tool_has_a_form_that_holds_its_examples(name: str) -> None:
    capability = KNOWN[name]
    field = fields_of(capability.input_schema)
    for example in capability.examples:
        draft = draft_for(field, example)
        reading = read_form(field, draft, capability.input_schema)
        assert reading.problems == ()
        assert reading.input == check_input(capability.input_schema, example)[0]


def test_optional_empty_fields_are_left_out_and_required_ones_are_missed() -> None:
    schema = form(
        "path", "n", path={"type": "string"}, n={"type": "integer"}, note={"type": "string"}, at=PLACE
    )
    field = fields_of(schema)
    empty = read_form(field, fresh(field), schema)
    assert empty.input == {}
    assert [(item.pointer, item.missing) for item in empty.problems] == [("/path", True), ("/n", True)]
    filled = put(put(fresh(field), ("path",), Leaf("a")), ("n",), Leaf("3"))
    assert read_form(field, filled, schema) == Reading({"path": "a", "n": 3})
    placed_at = put(filled, ("at", "x"), Leaf("4"))
    assert read_form(field, placed_at, schema).input["at"] == {"x": 4, "unit": "px"}


def test_defaults_are_filled_in_as_the_kernel_will() -> None:
    inner = {"type": "object", "properties": {"deep": {"type": "integer", "default": 2}}}
    schema = form(at={"type": "object", "default": {}, "properties": {"in": {**inner, "default": {}}}})
    field = fields_of(schema)
    reading = read_form(field, fresh(field), schema)
    assert reading.input == {"at": {"in": {"deep": 2}}}
    assert check_input(schema, reading.input) == (reading.input, ())


def test_a_required_field_that_a_default_fills_in_is_not_missed() -> None:
    schema = form("all", all={"type": "array", "items": True, "default": []})
    field = fields_of(schema)
    assert read_form(field, draft_for(field, {}), schema) == Reading({"all": []})


def test_a_violation_stands_at_its_field_and_others_at_the_foot() -> None:
    schema = {
        **form(tags={"type": "array", "items": {"type": "string", "minLength": 2}}, free={}, at=PLACE),
        "additionalProperties": False,
        "minProperties": 9,
    }
    field = fields_of(schema)
    draft = draft_for(field, {"tags": ["ok", "x"], "free": {"a": [1]}, "at": {"x": "no"}, "odd": 1})
    assert isinstance(draft, Group)
    entries = entries_of(field, draft)
    at, nowhere = placed(entries, read_form(field, draft, schema).problems)
    assert set(at) == {("tags", 1), ("at", "x")}
    assert len(nowhere) == 2
    below, _ = placed(entries, [Problem("/free/a/0", "odd"), Problem("/at", "whole")])
    assert below[("free",)][0].message == "/a/0: odd"
    assert below[("at",)][0].message == "whole"


def test_text_that_is_no_number_is_sent_as_it_stands_for_the_validator_to_refuse() -> None:
    schema = form(n={"type": "number"})
    field = fields_of(schema)
    for text in ("abc", "1,5", "0x10", "01", "NaN", "Infinity", "1_000", "٣"):
        reading = read_form(field, put(fresh(field), ("n",), Leaf(text)), schema)
        assert reading.input == {"n": text}
        assert [problem.pointer for problem in reading.problems] == ["/n"]
    for text, number in (("-0.5", -0.5), (" 7 ", 7), ("1e3", 1000.0)):
        assert read_form(field, put(fresh(field), ("n",), Leaf(text)), schema) == Reading({"n": number})
    assert read_form(field, put(fresh(field), ("n",), Leaf("1e999")), schema).broken is not None


@pytest.mark.parametrize("text", ["{", "1,2", '1,"more":2', '1,"value":2', "{}}", "NaN", "", "[" * 5000])
def test_json_that_cannot_be_read_is_never_sent(text: str) -> None:
    schema = form("free", free={})
    field = fields_of(schema)
    reading = read_form(field, put(fresh(field), ("free",), Leaf(text, as_json=True)), schema)
    assert reading.problems
    assert reading.broken is not None or text == ""
    assert read_json(text, schema).broken is not None


def test_an_empty_item_is_no_input() -> None:
    schema = form(numbers={"type": "array", "items": {"type": "integer"}})
    field = fields_of(schema)
    draft = put(fresh(field), ("numbers",), Items((Leaf("1"), Leaf())))
    broken = read_form(field, draft, schema).broken
    assert broken is not None
    assert broken.pointer == "/numbers/1"


def test_items_come_and_go_where_keys_are() -> None:
    field = fields_of(form(at={"type": "array", "items": PLACE}))
    draft = draft_for(field, {"at": [{"x": 1}, {"x": 2}]})
    more = changed_items(field, draft, ("at", 0, "x"), True)
    assert more is not None
    items = at_path(more[0], ("at",))
    assert isinstance(items, Items)
    assert [at_path(item, ("x",)) for item in items.items] == [Leaf("1"), Leaf(), Leaf("2")]
    assert more[1] == ("at", 1)
    less = changed_items(field, more[0], ("at", 0), False)
    assert less is not None
    rest = at_path(less[0], ("at",))
    assert isinstance(rest, Items)
    assert [at_path(item, ("x",)) for item in rest.items] == [Leaf(), Leaf("2")]
    assert changed_items(field, draft, (), True) is None


def test_a_union_takes_the_branch_that_fits() -> None:
    ways: Json = {
        "oneOf": [
            {"title": "circle", **form("kind", "r", kind={"const": "circle"}, r={"type": "number"})},
            {"title": "square", **form("kind", "side", kind={"const": "square"}, side={"type": "number"})},
        ]
    }
    field = fields_of(form("shape", shape=ways))
    draft = draft_for(field, {"shape": {"kind": "square", "side": 2}})
    way = at_path(draft, ("shape",))
    assert isinstance(way, Way)
    assert way.at == 1
    new = read_form(field, fresh(field), form("shape", shape=ways))
    assert new.input == {"shape": {"kind": "circle"}}
    neither = draft_for(field, {"shape": [1]})
    assert isinstance(at_path(neither, ("shape",)), Leaf)


def test_required_constants_are_chosen_and_other_choices_are_not() -> None:
    field = fields_of(form("v", "on", v={"const": 3}, on={"type": "boolean"}))
    assert fresh(field) == Group((("v", Pick(0)), ("on", Pick())))


def test_one_true_and_one_point_zero_are_three_values() -> None:
    field = fields_of(form(it={"enum": [1, True, 1.0, "1"]}))
    for at, value in enumerate((1, True, 1.0, "1")):
        assert at_path(draft_for(field, {"it": value}), ("it",)) == Pick(at)


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


@pytest.mark.parametrize(
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
    field = fields_of(schema)
    entries = entries_of(field, fresh(field))
    assert len(entries) <= 2 * MOST_FIELDS
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
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@_CALM
@given(schemas, st.dictionaries(names, values, max_size=4))
def test_every_value_comes_out_of_the_form_as_it_went_in(schema: JsonObject, value: JsonObject) -> None:
    field = fields_of(schema)
    reading = read_form(field, draft_for(field, value), True)
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
    assert isinstance(draft_for(fields_of(schema), value), Group)


@_CALM
@given(schemas, st.dictionaries(names, values, max_size=4))
def test_what_the_form_calls_valid_the_kernel_accepts_as_it_stands(
    schema: JsonObject, value: JsonObject
) -> None:
    field = fields_of(schema)
    for draft in (fresh(field), draft_for(field, value)):
        reading = read_form(field, draft, schema)
        if not reading.problems:
            assert check_input(schema, reading.input) == (reading.input, ())
        elif reading.broken is None:
            assert not accepts(schema, reading.input)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_a_field_shows_every_text_and_gives_it_back(text: str) -> None:
    assert plain_of(safe_text(text)) == text


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_hostile_names_values_and_words_keep_their_places(payload: str) -> None:
    rule: Json = {"type": "string", "title": payload, "description": payload, "default": payload}
    schema = {**form(**{payload: rule, "of": {"enum": [payload, "b"]}}), "title": payload}
    field = fields_of(schema)
    reading = read_form(field, fresh(field), schema)
    assert reading.input == {payload: payload}
    draft = draft_for(field, {payload: payload, "of": payload})
    assert read_form(field, draft, schema).input == {payload: payload, "of": payload}
    assert [entry.label for entry in entries_of(field, draft)] == [payload, "of"]


def test_what_another_field_makes_necessary_is_missed_at_its_own_place() -> None:
    schema: JsonObject = {
        **form("act", act={"enum": ["move", "drag"]}, to={"type": "integer"}),
        "allOf": [{"if": {"properties": {"act": {"const": "drag"}}}, "then": {"required": ["to"]}}],
    }
    field = fields_of(schema)
    reading = read_form(field, put(fresh(field), ("act",), Pick(1)), schema)
    assert reading.problems == (Problem("/to", "is required", missing=True),)
    assert read_form(field, put(fresh(field), ("act",), Pick(0)), schema).problems == ()
