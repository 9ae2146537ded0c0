"""What the public interfaces of models refuse in the tools of a request, with the answers that they give.

Each rule names pages that show it: the interface's documentation, or a thread that quotes the error. It also
names the rule of `flycore.server.mcp.client_rules` that keeps flytui's own listing from breaking it; a test
compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

import jsonschema_rs

from kits.model_protocols import OfferedTool

Found = Iterator[tuple[str, str]]
"""Pairs of what is appended to the place of the tool, and the message."""


class ToolFault(NamedTuple):
    """The first fault of a request, in the interface's own words."""

    place: str
    message: str


class InterfaceRule(NamedTuple):
    """One rule of an interface."""

    interface: str
    rule: str
    """The id of the rule of `client_rules`; `fields` is left to the programs."""
    find: Callable[[OfferedTool], Found]
    sources: tuple[str, ...]


def first_fault(interface: str, tools: Iterable[OfferedTool]) -> ToolFault | None:
    """The first reason for which the interface refuses a request with these tools."""
    for tool in tools:
        for rule in INTERFACE_RULES:
            if rule.interface == interface:
                for suffix, message in rule.find(tool):
                    return ToolFault(f"{tool.place}{suffix}", message)
    return None


_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "if", "then", "else", "contains", "propertyNames")


def subschemas(
    schema: Any, path: tuple[str, ...] = (), known: Container[str] = (*_MAPS, *_LISTS, *_SINGLE)
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each schema below these keywords of a schema, whatever it is, with the steps that lead to it."""
    yield path, schema
    for key, value in schema.items() if isinstance(schema, dict) else ():
        if key not in known:
            continue
        if key in _MAPS:
            for name, part in value.items():
                yield from subschemas(part, (*path, key, name), known)
        elif key in _LISTS:
            for number, part in enumerate(value):
                yield from subschemas(part, (*path, key, str(number)), known)
        elif key in _SINGLE:
            yield from subschemas(value, (*path, key), known)


def _types(schema: dict[str, Any]) -> list[str]:
    named = schema.get("type", [])
    return [one.lower() for one in ([named] if isinstance(named, str) else named)]


# --- Anthropic


def _anthropic_name(tool: OfferedTool) -> Found:
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.full_name):
        yield ".name", "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"


def _anthropic_type(tool: OfferedTool) -> Found:
    if not isinstance(tool.schema, dict) or tool.schema.get("type") != "object":
        yield ".input_schema.type", "Input should be 'object'"


def _anthropic_combinators(tool: OfferedTool) -> Found:
    if {"oneOf", "allOf", "anyOf"} & tool.schema.keys():
        yield ".input_schema", "input_schema does not support oneOf, allOf, or anyOf at the top level"


def _anthropic_properties(tool: OfferedTool) -> Found:
    for name in tool.schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield ".input_schema.properties", "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"


def _anthropic_dialect(tool: OfferedTool) -> Found:
    try:
        jsonschema_rs.Draft202012Validator({**tool.schema, "$schema": DIALECT})
    except (jsonschema_rs.ValidationError, ValueError):
        yield ".input_schema", f"JSON schema is invalid. It must match JSON Schema draft 2020-12 ({DIALECT})."


DIALECT = "https://json-schema.org/draft/2020-12/schema"


# --- OpenAI


def _openai_name(tool: OfferedTool) -> Found:
    for part, name in (("name", tool.name), ("namespace", tool.namespace or "x")):
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
            why = "string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'."
            yield f".{part}", f"Invalid '{tool.place}.{part}': {why}"
    if len(tool.full_name) > 64:
        why = f"string too long. Expected a string with maximum length 64, but got {len(tool.full_name)}."
        yield ".name", f"Invalid '{tool.place}.name': {why}"


def _openai_type(tool: OfferedTool) -> Found:
    # A function without parameters has an empty list of them.
    if tool.schema is not None and tool.schema.get("type") != "object":
        kind = tool.schema.get("type")
        why = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        yield ".parameters", f"Invalid schema for function '{tool.name}': {why}"


def _openai_combinators(tool: OfferedTool) -> Found:
    if {"oneOf", "anyOf", "allOf", "enum", "const", "not"} & (tool.schema or {}).keys():
        why = (
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the"
        )
        yield ".parameters", f"Invalid schema for function '{tool.name}': {why} top level."


def _openai_booleans(tool: OfferedTool) -> Found:
    for path, part in subschemas(tool.schema or {}):
        if isinstance(part, bool):
            why = f"In context={path}, {part} is not of type 'object'."
            yield ".parameters", f"Invalid schema for function '{tool.name}': {why}"


def _openai_items(tool: OfferedTool) -> Found:
    for path, part in subschemas(tool.schema or {}):
        if isinstance(part, dict) and "array" in _types(part) and not {"items", "prefixItems"} & part.keys():
            why = f"In context={path}, array schema missing items."
            yield ".parameters", f"Invalid schema for function '{tool.name}': {why}"


def _openai_patterns(tool: OfferedTool) -> Found:
    for path, part in subschemas(tool.schema or {}):
        if isinstance(part, dict) and re.search(r"\(\?<?[=!]", str(part.get("pattern", ""))):
            at = ".".join(("$", *path, "pattern"))
            yield ".parameters", f"Invalid JSON schema: regex lookaround is not supported. Found at {at}."


# --- Gemini. `parameters` is a message of a protocol with fields of its own, `parametersJsonSchema` is not.

SCHEMA_FIELDS = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties",
        "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf",
        "propertyOrdering", "default", "items", "minimum", "maximum",
    }
)  # fmt: skip


def _gemini_name(tool: OfferedTool) -> Found:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", tool.full_name):
        why = (
            "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z,"
        )
        yield (
            ".name",
            f"{why} 0-9), underscores (_), dots (.), colons (:), or dashes (-), maximum length of 64.",
        )


def _gemini_parts(tool: OfferedTool) -> Iterator[tuple[str, Any]]:
    if tool.place.endswith(".parameters"):
        for path, part in subschemas(tool.schema or {}, known=SCHEMA_FIELDS):
            yield "".join(f"[{step}]" if number % 2 else f".{step}" for number, step in enumerate(path)), part


def _gemini_booleans(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        if isinstance(part, bool):
            yield (
                at,
                f"Invalid value (type.googleapis.com/google.ai.generativelanguage.v1beta.Schema), {part}",
            )


def _gemini_fields(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        for name in sorted((part if isinstance(part, dict) else {}).keys() - SCHEMA_FIELDS):
            yield at, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'


def _gemini_formats(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        is_text = isinstance(part, dict) and "string" in _types(part)
        if is_text and part.get("format", "enum") not in ("enum", "date-time"):
            yield f"{at}.format", "only 'enum' and 'date-time' are supported for STRING type"


def _gemini_enums(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        if isinstance(part, dict) and "enum" in part:
            if not all(isinstance(one, str) for one in part["enum"]):
                yield f"{at}.enum", f"Invalid value (TYPE_STRING), {part['enum']}"
            elif not all(part["enum"]):
                yield f"{at}.enum[0]", "cannot be empty"
            elif _types(part) != ["string"]:
                yield f"{at}.enum", "only allowed for STRING type"


def _gemini_items(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        if isinstance(part, dict) and "array" in _types(part) and "items" not in part:
            yield f"{at}.items", "missing field."


def _gemini_required(tool: OfferedTool) -> Found:
    for at, part in _gemini_parts(tool):
        if isinstance(part, dict):
            for number, name in enumerate(part.get("required", ())):
                if name not in part.get("properties", {}):
                    yield f"{at}.required[{number}]", "property is not defined"


_ISSUES = "https://github.com/"
_GEMINI = "https://ai.google.dev/api/caching#"
INTERFACE_RULES = (
    InterfaceRule(
        "anthropic",
        "name",
        _anthropic_name,
        (
            "https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use",
            f"{_ISSUES}modelcontextprotocol/typescript-sdk/issues/413",
        ),
    ),
    InterfaceRule(
        "anthropic", "root-type", _anthropic_type, ("https://platform.claude.com/docs/en/api/messages",)
    ),
    InterfaceRule(
        "anthropic",
        "root-combinator",
        _anthropic_combinators,
        (f"{_ISSUES}anthropics/claude-code/issues/5319",),
    ),
    InterfaceRule(
        "anthropic",
        "property-name",
        _anthropic_properties,
        (f"{_ISSUES}beautyfree/appstore-connect-mcp/issues/2", f"{_ISSUES}twilio-labs/mcp/issues/58"),
    ),
    InterfaceRule(
        "anthropic", "reference", _anthropic_dialect, (f"{_ISSUES}anthropics/claude-code/issues/63673",)
    ),
    InterfaceRule(
        "openai",
        "name",
        _openai_name,
        (f"{_ISSUES}Vortiago/mcp-azure-devops/pull/30", f"{_ISSUES}ravitemer/mcphub.nvim/pull/243"),
    ),
    InterfaceRule("openai", "root-type", _openai_type, (f"{_ISSUES}vercel/ai/issues/1485",)),
    InterfaceRule(
        "openai",
        "root-combinator",
        _openai_combinators,
        (
            f"{_ISSUES}nspady/google-calendar-mcp/issues/39",
            f"{_ISSUES}goruck/home-generative-agent/pull/545",
        ),
    ),
    InterfaceRule("openai", "boolean-schema", _openai_booleans, (f"{_ISSUES}zed-industries/zed/pull/47578",)),
    InterfaceRule(
        "openai", "items", _openai_items, (f"{_ISSUES}streamnative/streamnative-mcp-server/issues/26",)
    ),
    InterfaceRule(
        "openai",
        "pattern",
        _openai_patterns,
        (f"{_ISSUES}vercel/ai/pull/21037", f"{_ISSUES}anomalyco/opencode/issues/32073"),
    ),
    InterfaceRule(
        "gemini",
        "name",
        _gemini_name,
        (f"{_GEMINI}FunctionDeclaration", f"{_ISSUES}mrexodia/ida-pro-mcp/issues/129"),
    ),
    InterfaceRule("gemini", "boolean-schema", _gemini_booleans, (f"{_GEMINI}Schema",)),
    InterfaceRule(
        "gemini",
        "enum",
        _gemini_enums,
        (
            f"{_ISSUES}microsoft/azure-devops-mcp/issues/145",
            f"{_ISSUES}decolua/9router/pull/380",
        ),
    ),
    InterfaceRule(
        "gemini", "fields", _gemini_fields, (f"{_GEMINI}Schema", f"{_ISSUES}zed-industries/zed/issues/44875")
    ),
    InterfaceRule("gemini", "format", _gemini_formats, (f"{_ISSUES}google-gemini/gemini-cli/issues/3178",)),
    InterfaceRule("gemini", "items", _gemini_items, (f"{_GEMINI}Schema",)),
    InterfaceRule("gemini", "required", _gemini_required, (f"{_GEMINI}Schema",)),
)
"""Every rule that the endpoint enforces."""
