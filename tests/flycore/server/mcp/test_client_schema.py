"""Every tool has a schema that all models' interfaces take, and that refuses nothing that the tool takes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from flycore.catalog.builtin import KNOWN, agent_actions
from flycore.catalog.schemas import check_input, check_schema
from flycore.server.mcp.client_rules import (
    MAX_BYTES,
    MAX_NAME_CHARS,
    RULES,
    ClientFault,
    client_faults,
)
from flycore.server.mcp.client_schema import client_schema
from flycore.server.mcp.names import ALIASES, Names, mcp_spelling
from flycore.server.mcp.schema_compat import listed_input
from kits.suites import examples
from kits.tables import each_row

NESTED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    NESTED = {"type": "object", "properties": {"in": NESTED, "list": {"type": "array"}}}


def test_our_own_tools_keep_every_rule() -> None:
    listed = {mcp_spelling(name): listed_input(known.input_schema).schema for name, known in KNOWN.items()}
    listed |= {name: listed_input(known.input_schema).schema for name, known in agent_actions().items()}
    listed = {name.replace(".", "_"): schema for name, schema in listed.items()}
    listed |= {tool.name: tool.input_schema for tool in ALIASES}
    assert {name: faults for name in listed if (faults := client_faults(name, listed[name]))} == {}


def test_every_word_of_a_program_is_a_text() -> None:
    schema = KNOWN["process.run"].input_schema
    assert check_input(schema, {"argv": ["git", ""]})[1] == ()
    for wrong in ([], [5], [None, "x"], ["git", 5]):
        assert check_input(schema, {"argv": wrong})[1]


BREAKING: list[tuple[str, dict[str, Any]]] = [
    ("root-combinator", {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}}),
    ("boolean-schema", {"properties": {"a": True}}),
    ("reference", {"properties": {"a": {"$ref": "#/$defs/none"}}}),
    ("reference", {"$schema": "https://example.org/dialect"}),
    ("pattern", {"properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}),
    ("pattern", {"patternProperties": {"(?<=a)b": {"type": "string"}}}),
    ("format", {"properties": {"a": {"type": "string", "format": "uri"}}}),
    ("enum", {"properties": {"a": {"enum": ["x", 1, None]}}}),
    ("enum", {"properties": {"a": {"const": "x"}}}),
    ("enum", {"properties": {"a": {"type": "integer", "enum": [1, 2]}}}),
    ("enum", {"properties": {"a": {"const": 1}}}),
    ("items", {"properties": {"a": {"type": "array"}}}),
    ("items", {"properties": {"a": {"type": ["array", "null"]}}}),
    ("property-name", {"properties": {"$filter": {"type": "string"}}, "additionalProperties": False}),
    ("required", {"required": ["a"]}),
    ("size", NESTED),
    ("size", {"properties": {f"p{number}": {"description": "x" * 90} for number in range(2_000)}}),
]


@each_row(("rule", "schema"), BREAKING, ids=lambda value: value if isinstance(value, str) else "")
def test_a_schema_that_breaks_a_rule_is_found_and_listed_without_it(
    rule: str, schema: dict[str, Any]
) -> None:
    whole = {"type": "object", **schema}
    assert rule in {fault.rule for fault in client_faults("tool", whole)}
    assert client_faults("tool", listed_input(whole).schema) == ()


def test_the_table_of_rules_is_what_the_checker_reports() -> None:
    reported = {fault.rule for _, schema in BREAKING for fault in client_faults("a.b", schema)}
    assert reported == {rule.id for rule in RULES}
    assert all(rule.sources and all(page.startswith("https://") for page in rule.sources) for rule in RULES)


def test_a_name_begins_as_every_interface_takes_it() -> None:
    spelled = [mcp_spelling(name) for name in ("3d.render", "-x", "_x", "file.hash", "ß.x")]
    assert spelled == ["_3d_render", "_-x", "_x", "file_hash", "__x"]
    assert [client_faults(name, {"type": "object"}) for name in spelled] == [()] * len(spelled)
    assert [fault.rule for fault in client_faults("3d_render", {"type": "object"})] == ["name"]


_TEXT = {"type": "string", "description": "a text"}


@each_row(
    ("schema", "listed"),
    [
        ({"anyOf": [True, {"properties": {"b": _TEXT}}]}, {"description": "a text"}),
        ({"anyOf": [{}, {"properties": {"b": _TEXT}}]}, {"description": "a text"}),
        ({"anyOf": [False, {"properties": {"b": _TEXT}}]}, _TEXT),
        ({"anyOf": [{"required": ["a"]}, {"properties": {"b": _TEXT}}]}, {"description": "a text"}),
        ({"oneOf": [{"properties": {"b": _TEXT}}, {"properties": {"b": False}}]}, _TEXT),
        ({"allOf": [{"properties": {"b": _TEXT}}, {"required": ["a"]}]}, _TEXT),
        ({"if": {"required": ["a"]}, "then": {"properties": {"b": _TEXT}}}, {"description": "a text"}),
    ],
)
def test_a_property_of_one_alternative_is_listed_without_what_only_that_asks(
    schema: dict[str, Any], listed: dict[str, Any]
) -> None:
    assert listed_input({"type": "object", **schema}).schema["properties"]["b"] == listed


def test_what_is_left_out_is_told_in_words() -> None:
    listed = client_schema(
        {
            "type": "object",
            "properties": {
                "mail": {"type": "string", "format": "email", "description": "Whom to write to."},
                "when": {"type": "string", "format": "date-time"},
                "id": {"type": "string", "pattern": "^(?!0)"},
                "mode": {"enum": ["a", 1]},
                "odd name": {"type": "string"},
            },
            "required": ["odd name", "mail"],
            "additionalProperties": False,
        }
    )
    properties = listed.schema["properties"]
    assert properties["mail"] == {"type": "string", "description": "Whom to write to. Format: email."}
    assert properties["when"] == {"type": "string", "format": "date-time"}
    assert properties["id"]["description"] == "Matches the pattern ^(?!0)"
    assert properties["mode"]["description"] == 'One of: "a", 1.'
    assert listed.schema["required"] == ["mail"]
    assert "additionalProperties" not in listed.schema
    assert listed.words == ("Also takes: odd name.",)


def test_a_reference_into_what_was_left_out_is_dropped_with_it() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "allOf": [{"properties": {"x": {"type": "string"}}}],
        "properties": {
            "gone": {"$ref": "#/allOf/0/properties/x"},
            "kept": {"$ref": "#/$defs/tree"},
            "$ref": {"type": "string"},
        },
        "$defs": {"tree": {"type": "object", "properties": {"below": {"$ref": "#/$defs/tree"}}}},
    }
    listed = listed_input(schema).schema
    assert listed["properties"]["gone"] == {}
    assert listed["properties"]["kept"] == {"$ref": "#/$defs/tree"}
    assert client_faults("tool", listed) == ()


@each_row(
    "schema",
    [
        {"not": {"properties": {"a": {"pattern": "^(?!x)"}}, "required": ["a"]}},
        {"if": {"properties": {"a": {"format": "email"}}}, "then": {"required": ["b"]}},
        {
            "oneOf": [
                {"properties": {"a": {"pattern": "^(?=x)"}}},
                {"properties": {"a": {"pattern": "^(?=y)"}}},
            ]
        },
        {"not": {"required": ["$c"]}},
        {"properties": {"a": {"type": "array", "contains": {"pattern": "(?!x)"}, "maxContains": 0}}},
    ],
)
def test_leaving_out_a_constraint_never_refuses_more(schema: dict[str, Any]) -> None:
    within = {"type": "object", "properties": {"in": schema}}
    listed = Draft202012Validator(listed_input(within).schema)
    whole = Draft202012Validator(within)
    for value in ({}, {"a": "x"}, {"a": "y"}, {"a": ["x"]}, {"a": 1, "b": 2}, {"$c": 1}):
        assert listed.is_valid({"in": value}) or not whole.is_valid({"in": value})


_NAMES = st.sampled_from(["a", "b", "$c", "an odd name"])
_LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        True,
        False,
        {},
        {"type": "string"},
        {"type": "string", "pattern": "^(?!x)"},
        {"type": "string", "format": "uri"},
        {"type": "array"},
        {"enum": ["x", 1]},
        {"enum": ["x", "y"]},
        {"const": 1},
        {"$ref": "#/$defs/d"},
        {"$ref": "#/$defs/none"},
    ]
)
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda below: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(_NAMES, below, max_size=3)}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(_NAMES, below, max_size=2), "additionalProperties": below}
        ),
        st.fixed_dictionaries({"required": st.lists(_NAMES, max_size=2, unique=True)}),
        st.fixed_dictionaries({"anyOf": st.lists(below, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"oneOf": st.lists(below, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"not": below}),
        st.fixed_dictionaries({"if": below, "then": below, "else": below}),
        st.fixed_dictionaries({"items": below, "type": st.just("array")}),
        st.fixed_dictionaries(
            {"patternProperties": st.dictionaries(st.sampled_from(["^a", "(?!a)b"]), below)}
        ),
    ),
    max_leaves=8,
)
_VALUES: list[Any] = [{}, {"a": "x"}, {"a": 1, "b": "y"}, {"a": []}, {"a": ["x", 1]}, {"$c": 1}]
_VALUES += [{"a": {"b": {"$c": "x"}}}, {"an odd name": "x", "b": {"a": 1}}, {"a": {"a": "x", "b": []}}]


@settings(max_examples=examples(150), deadline=None)
@given(below=_SCHEMAS, root=_SCHEMAS)
def test_any_schema_is_listed_within_the_rules_and_takes_what_the_tool_takes(below: Any, root: Any) -> None:
    schema = {"type": "object", "properties": {"a": below}, "$defs": {"d": {"type": ["string", "integer"]}}}
    if isinstance(root, dict):
        schema = {**root, **schema}
    listed = listed_input(schema)
    assert client_faults("tool", listed.schema) == ()
    assert listed.schema != {"type": "object"}
    assert check_schema(listed.schema) == ()
    text = json.dumps(schema)
    if "#/$defs/none" in text:
        return  # which no value fits, and the kernel refuses
    whole, shown = Draft202012Validator(schema), Draft202012Validator(listed.schema)
    for value in _VALUES:
        assert shown.is_valid(value) or not whole.is_valid(value), value


def test_a_hostile_schema_is_listed_within_the_limit_of_size() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"enum": ["x" * 50] * 50} for n in range(900)}}
    listed = listed_input(wide)
    assert len(json.dumps(listed.schema)) <= MAX_BYTES * 2
    assert client_faults("tool", listed.schema) == ()
    assert listed.words


def test_a_long_name_is_cut_to_48_characters_with_a_digest() -> None:
    tools = [f"server.{'x' * 60}{end}" for end in ("a", "b")]
    names = Names(tools)
    assert sorted(map(len, names.tool_of)) == [MAX_NAME_CHARS, MAX_NAME_CHARS]
    assert MAX_NAME_CHARS == 48
    assert all(client_faults(name, {"type": "object"}) == () for name in names.tool_of)
    assert client_faults("x" * 49, {"type": "object"}) == (ClientFault("name", ""),)
