"""What is read of the text that an executable prints for `--schema`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flycore.catalog.schemas import check_input
from flycore.discovery.tool_schema import LONGEST_TIMEOUT_MS, MOST_TOOLS, SchemaFault, read_schema
from flycore.model.durations import duration_ms
from flycore.model.enums import Envelope
from kits.tables import each_row


def read(value: Any) -> Any:
    return read_schema(json.dumps(value).encode())


def test_parameters_become_a_json_schema() -> None:
    (tool,) = read(
        {
            "name": "search",
            "description": "Search.",
            "parameters": {
                "query": {"type": "string", "description": "words", "required": True},
                "count": {"type": "integer", "required": False, "default": 10},
                "type": {"type": "string", "enum": ["a", "b"], "default": None},
            },
        }
    ).tools
    assert tool.envelope is Envelope.PARAMETERS
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words"},
            "count": {"type": "integer", "default": 10},
            "type": {"type": "string", "enum": ["a", "b"]},
        },
        "required": ["query"],
    }
    filled, faults = check_input(tool.input_schema, {"query": "x"})
    assert (filled, faults) == ({"query": "x", "count": 10}, ())


@pytest.mark.parametrize("parameters", [{}, None])
def test_a_tool_without_parameters_takes_an_object(parameters: Any) -> None:
    (tool,) = read({"name": "fortune", "description": "x", "parameters": parameters}).tools
    assert tool.input_schema == {"type": "object", "properties": {}}
    assert tool.envelope is Envelope.PARAMETERS


def test_a_whole_schema_under_parameters_is_taken_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    (tool,) = read({"name": "x", "parameters": schema}).tools
    assert tool.input_schema == schema


def test_the_other_form_keeps_its_schemas_and_facts() -> None:
    (tool,) = read(
        {
            "name": "ping",
            "version": "1.0.0",
            "description": "Ping.",
            "tags": ["network", 3, "probe"],
            "input_schema": {"type": "object", "required": ["host"]},
            "output_schema": {"type": "object"},
            "timeout": "5m",
        }
    ).tools
    assert tool.envelope is Envelope.OBJECT
    assert (tool.version, tool.tags, tool.timeout_ms) == ("1.0.0", ("network", "probe"), 300_000)
    assert tool.input_schema == {"type": "object", "required": ["host"]}
    (bare,) = read({"name": "ping", "version": 2, "description": "no input schema"}).tools
    assert (bare.envelope, bare.input_schema, bare.version) == (Envelope.OBJECT, {}, "2")


def test_an_array_is_several_tools_and_a_bad_one_harms_no_other() -> None:
    good = {"name": "a", "parameters": {}}
    listing = read([good, {"name": "b", "parameters": {"x": {"type": "any"}}}, {**good}, 7])
    assert [tool.name for tool in listing.tools] == ["a"]
    assert [refused.name for refused in listing.refused] == ["b", "a", "tool 4"]
    many = read([{"name": f"t{number}", "parameters": {}} for number in range(MOST_TOOLS + 1)])
    assert len(many.tools) == MOST_TOOLS
    assert many.more


@each_row(
    "text",
    [
        b"",
        b"hello",
        b"[]",
        b"{}",
        b"null",
        b'{"name": "x", "parameters": [1]}',
        b'{"name": "x", "parameters": {"a": 1}}',
        b'{"name": "x", "parameters": {"a": {}}}',
        b'{"name": "x", "input_schema": []}',
        b'{"name": "../x", "parameters": {}}',
        b'{"name": "x", "parameters": {}, "timeout": "soon"}',
        b'{"name": "x", "name": "y", "parameters": {}}',
        b"[" * 100_000,
        b'{"name": "x", "parameters": {}} {"name": "y"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_schema_is_a_fault(text: bytes) -> None:
    with pytest.raises(SchemaFault):
        read_schema(text)


@each_row(
    ("value", "milliseconds"),
    [("30s", 30_000), ("5m", 300_000), ("250ms", 250), ("1.5s", 1_500), (2, 2_000), (0.5, 500)],
)
def test_durations(value: Any, milliseconds: int) -> None:
    assert duration_ms(value, LONGEST_TIMEOUT_MS) == milliseconds


@each_row("value", ["", "-1s", "0s", "11m", "2h", "1e3s", 0, -1, 601, True, None, [1], "５s"])
def test_what_is_no_duration(value: Any) -> None:
    assert duration_ms(value, LONGEST_TIMEOUT_MS) is None
