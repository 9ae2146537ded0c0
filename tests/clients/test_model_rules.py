"""What the interfaces of models refuse is what flytui's own table of rules keeps its listing from."""

from __future__ import annotations

from typing import Any

import pytest

from flycore.catalog.builtin import KNOWN
from flycore.server.mcp.client_rules import RULES, client_faults
from flycore.server.mcp.names import ALIASES, mcp_spelling
from flycore.server.mcp.schema_compat import listed_input
from kits.model_protocols import CHAT, GEMINI, MESSAGES, RESPONSES, ModelProtocol
from kits.model_rules import INTERFACE_RULES, first_fault

PREFIX = "mcp__flytui__"
BROKEN: list[tuple[str, str, dict[str, Any]]] = [
    ("name", "a.b", {"type": "object"}),
    ("name", "a" * 65, {"type": "object"}),
    ("name", "-a", {"type": "object"}),
    ("root-type", "tool", {}),
    ("root-combinator", "tool", {"type": "object", "anyOf": [{}]}),
    ("boolean-schema", "tool", {"type": "object", "properties": {"a": True}}),
    ("pattern", "tool", {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?!x)"}}}),
    ("format", "tool", {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}),
    ("enum", "tool", {"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}),
    ("enum", "tool", {"type": "object", "properties": {"a": {"type": "string", "enum": [""]}}}),
    ("items", "tool", {"type": "object", "properties": {"a": {"type": "array"}}}),
    ("property-name", "tool", {"type": "object", "properties": {"$a": {"type": "string"}}}),
    ("required", "tool", {"type": "object", "properties": {}, "required": ["a"]}),
]
FORMS: dict[str, tuple[ModelProtocol, Any]] = {
    "messages": (
        MESSAGES,
        lambda name, schema: {"messages": [], "tools": [{"name": name, "input_schema": schema}]},
    ),
    "responses": (
        RESPONSES,
        lambda name, schema: {
            "input": [],
            "tools": [{"type": "function", "name": name, "parameters": schema, "strict": False}],
        },
    ),
    "chat": (
        CHAT,
        lambda name, schema: {
            "messages": [],
            "tools": [{"type": "function", "function": {"name": name, "parameters": schema}}],
        },
    ),
    "gemini": (
        GEMINI,
        lambda name, schema: {"tools": [{"functionDeclarations": [{"name": name, "parameters": schema}]}]},
    ),
    "gemini-json": (
        GEMINI,
        lambda name, schema: {
            "tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]
        },
    ),
}


def fault_of(form: str, name: str, schema: dict[str, Any]) -> str:
    """What the interface refuses of a request with this tool; empty for nothing."""
    protocol, request = FORMS[form]
    fault = first_fault(protocol.interface, protocol.read("", request(name, schema)).tools)
    return "" if fault is None else f"{fault.place}: {fault.message}"


@pytest.mark.parametrize(("rule", "name", "schema"), BROKEN)
def test_what_an_interface_refuses_breaks_a_rule_of_the_product(
    rule: str, name: str, schema: dict[str, Any]
) -> None:
    refused = [form for form in FORMS if fault_of(form, name, schema)]
    assert refused, "no interface refuses it"
    assert rule in {fault.rule for fault in client_faults(name, schema)}


def test_every_rule_of_an_interface_is_one_of_the_product_and_has_a_source() -> None:
    known = {rule.id for rule in RULES}
    assert {rule.rule for rule in INTERFACE_RULES} <= known | {"fields"}
    assert {rule.rule for rule in INTERFACE_RULES} - {"fields", "reference"} == {one[0] for one in BROKEN}
    for rule in INTERFACE_RULES:
        assert rule.sources
        assert all(page.startswith("https://") for page in rule.sources)


@pytest.mark.parametrize("form", FORMS)
def test_no_interface_refuses_a_tool_as_flytui_lists_it(form: str) -> None:
    listed = {mcp_spelling(name): listed_input(tool.input_schema).schema for name, tool in KNOWN.items()}
    listed |= {tool.name: tool.input_schema for tool in ALIASES}
    refused = {name: fault_of(form, f"{PREFIX}{name}", schema) for name, schema in listed.items()}
    # The old field of Gemini knows few keywords. Programs that use it leave out the others themselves.
    others = {name: why for name, why in refused.items() if why and "Unknown name" not in why}
    assert others == {}
    if form != "gemini":
        assert not any(refused.values())


def test_a_refusal_has_the_form_of_the_interface() -> None:
    asked = {form: protocol.refusal("no", "tools.0") for form, (protocol, _) in FORMS.items()}
    assert asked["messages"]["error"] == {"type": "invalid_request_error", "message": "tools.0: no"}
    assert asked["chat"]["error"]["type"] == asked["responses"]["error"]["type"] == "invalid_request_error"
    assert (asked["gemini"]["error"]["code"], asked["gemini"]["error"]["status"]) == (400, "INVALID_ARGUMENT")
