"""What the functions interfaces of models take as the schema of a tool, and the checker of these rules.

A rule is here because at least one interface refuses a request, or a client leaves a tool out, where a listed
schema breaks it. `flycore.server.mcp.client_schema` makes schemas that keep all of them; the checker does not
use that code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from flycore.catalog.schemas import MANY_SCHEMAS, NAMED_SCHEMAS, ONE_SCHEMA, ONE_SCHEMA_OR_BOOLEAN
from flycore.model.json import Json, JsonObject, canonical_json, pointer_join

MAX_NAME_CHARS = 48
"""Characters of a listed name. Clients put a prefix such as `mcp__flytui__` before it, and the interfaces
take 64 in all."""
MAX_DEPTH = 10
"""Schemas within schemas. OpenAI names this limit for strict schemas."""
MAX_BYTES = 32_768
"""Size of one listed schema, as canonical JSON."""
MAX_PROPERTIES = 1_000
"""Members of one object."""
ROOT_COMBINATORS = frozenset(
    {
        "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const",
        "dependentSchemas", "dependentRequired",
    }
)  # fmt: skip
"""What a listed schema does not have at its root."""
KNOWN_FORMATS = frozenset(("date-time",))
"""Formats of texts that every interface takes. Gemini refuses a request with any other one."""
SCHEMA_MAPS = NAMED_SCHEMAS | {"definitions"}
"""Keywords whose value is an object of schemas by name. Drafts before 2020-12 call `$defs` so."""
BASE_KEYWORDS = frozenset(
    ("$id", "$schema", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$vocabulary")
)
"""Keywords that change what a reference leads to."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect that MCP reads a schema in. A schema may name it at its root, and no other one."""
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_CHARS - 1}}}")
PROPERTY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LOOKAROUND = re.compile(r"\(\?<?[=!]")
_OPENAI_SCHEMAS = "https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas"
_ANTHROPIC_TOOLS = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use"
_ANTHROPIC_SCHEMAS = "https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes"
_GEMINI_SCHEMA = "https://ai.google.dev/api/caching#Schema"
_GEMINI_TOOLS = "https://ai.google.dev/api/caching#FunctionDeclaration"
_THREADS = "https://github.com/"
"""Threads quote what an interface answers. Some of what they refuse stands on no page of their own."""


class ClientRule(NamedTuple):
    """One rule, in a sentence about the schema, with the pages of the interfaces that it comes from."""

    id: str
    text: str
    sources: tuple[str, ...]


class ClientFault(NamedTuple):
    """A place of a listed tool that breaks a rule. `pointer` is a JSON pointer into the schema."""

    rule: str
    pointer: str


RULES = (
    ClientRule(
        "name",
        f"a name has 1 to {MAX_NAME_CHARS} characters: letters of ASCII, digits, _ and -, and begins with no"
        " digit or -",
        (
            _ANTHROPIC_TOOLS,
            _GEMINI_TOOLS,
            f"{_THREADS}ravitemer/mcphub.nvim/pull/243",
            f"{_THREADS}mrexodia/ida-pro-mcp/issues/129",
        ),
    ),
    ClientRule(
        "root-type", "the root has the type object", (_ANTHROPIC_TOOLS, f"{_THREADS}vercel/ai/issues/1485")
    ),
    ClientRule(
        "root-combinator",
        "the root has no anyOf, oneOf, allOf, not, if, enum, const or dependent schemas",
        (
            _ANTHROPIC_SCHEMAS,
            f"{_THREADS}anthropics/claude-code/issues/5319",
            f"{_THREADS}nspady/google-calendar-mcp/issues/39",
            f"{_THREADS}goruck/home-generative-agent/pull/545",
        ),
    ),
    ClientRule(
        "boolean-schema",
        "no schema is a bare true or false",
        (_GEMINI_SCHEMA, f"{_THREADS}zed-industries/zed/pull/47578"),
    ),
    ClientRule(
        "reference",
        "a reference leads to a place in the same schema; no part names a base, or another dialect than MCP",
        (_OPENAI_SCHEMAS, f"{_THREADS}anthropics/claude-code/issues/63673"),
    ),
    ClientRule("pattern", "no pattern looks ahead or behind", (f"{_THREADS}vercel/ai/pull/21037",)),
    ClientRule(
        "format",
        "the format of a text is one that all interfaces know",
        (_GEMINI_SCHEMA, f"{_THREADS}google-gemini/gemini-cli/issues/3178"),
    ),
    ClientRule(
        "enum",
        "an enum has only texts, none of them empty; there is no const",
        (
            _GEMINI_SCHEMA,
            f"{_THREADS}microsoft/azure-devops-mcp/issues/145",
            f"{_THREADS}zed-industries/zed/issues/44875",
        ),
    ),
    ClientRule(
        "items",
        "an array says what its items are",
        (_GEMINI_SCHEMA, f"{_THREADS}streamnative/streamnative-mcp-server/issues/26"),
    ),
    ClientRule(
        "property-name",
        "the name of a property has 1 to 64 characters: letters of ASCII, digits, _, - and the dot",
        (_ANTHROPIC_SCHEMAS, f"{_THREADS}beautyfree/appstore-connect-mcp/issues/2"),
    ),
    ClientRule("required", "what is required is among the properties", (_GEMINI_SCHEMA,)),
    ClientRule(
        "size",
        f"at most {MAX_DEPTH} schemas lie within each other, an object has at most {MAX_PROPERTIES:,}"
        f" properties, and the whole has at most {MAX_BYTES // 1024} KiB",
        (_OPENAI_SCHEMAS,),
    ),
)
"""Every rule. `docs/mcp.md` explains them."""


def client_faults(name: str, schema: JsonObject) -> tuple[ClientFault, ...]:
    """Return every place where a listed tool breaks a rule."""
    return tuple(_faults(name, schema))


def _faults(name: str, schema: JsonObject) -> Iterator[ClientFault]:
    if _NAME.fullmatch(name) is None:
        yield ClientFault("name", "")
    if schema.get("type") != "object":
        yield ClientFault("root-type", "")
    if ROOT_COMBINATORS & schema.keys():
        yield ClientFault("root-combinator", "")
    if len(canonical_json(schema)) > MAX_BYTES:
        yield ClientFault("size", "")
    waiting: list[tuple[str, Json, int]] = [("", schema, 0)]
    while waiting:
        pointer, part, depth = waiting.pop()
        if not isinstance(part, dict):
            yield ClientFault("boolean-schema", pointer)
            continue
        if depth > MAX_DEPTH:
            yield ClientFault("size", pointer)
            continue
        yield from (ClientFault(rule, pointer) for rule in _broken(part, schema))
        waiting += ((below, value, depth + 1) for below, value in _schemas_below(pointer, part))


def _broken(part: JsonObject, root: JsonObject) -> Iterator[str]:
    """Yield each rule that one schema breaks by itself."""
    reference, pattern, shape = part.get("$ref"), part.get("pattern"), part.get("format")
    based = BASE_KEYWORDS & part.keys()
    if part is root and part.get("$schema") == DIALECT:
        based -= {"$schema"}
    if based or ("$ref" in part and not leads_inside(reference, root)):
        yield "reference"
    patterns = (pattern, *mapping(part.get("patternProperties")))
    if any(isinstance(one, str) and LOOKAROUND.search(one) for one in patterns):
        yield "pattern"
    if shape is not None and shape not in KNOWN_FORMATS:
        yield "format"
    if "const" in part or ("enum" in part and not is_plain_enum(part["enum"])):
        yield "enum"
    if takes(part, "array") and "items" not in part:
        yield "items"
    properties = mapping(part.get("properties"))
    if len(properties) > MAX_PROPERTIES:
        yield "size"
    if not all(PROPERTY_NAME.fullmatch(name) for name in properties):
        yield "property-name"
    required = part.get("required")
    if isinstance(required, list) and not all(name in properties for name in required):
        yield "required"


def _schemas_below(pointer: str, part: JsonObject) -> Iterator[tuple[str, Json]]:
    for key, value in part.items():
        here = pointer_join(pointer, key)
        if key in ONE_SCHEMA or (key in ONE_SCHEMA_OR_BOOLEAN and not isinstance(value, bool)):
            yield here, value
        elif key in MANY_SCHEMAS and isinstance(value, list):
            yield from ((pointer_join(here, str(number)), item) for number, item in enumerate(value))
        elif key in SCHEMA_MAPS:
            yield from ((pointer_join(here, name), item) for name, item in mapping(value).items())


def leads_inside(reference: Json, root: Json) -> bool:
    """Return whether the reference is a pointer to a schema in `root`."""
    if reference == "#":
        return True
    if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
        return False
    place = root
    for step in reference.removeprefix("#/").split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isascii() and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return False
    return isinstance(place, dict)


def is_plain_enum(values: Json) -> bool:
    """Return whether there are values, and all of them are texts that are not empty."""
    # Gemini's field for them holds texts only: it refuses a request where one is a number.
    return isinstance(values, list) and bool(values) and all(isinstance(one, str) and one for one in values)


def takes(part: JsonObject, kind: str) -> bool:
    """Return whether the schema names this type."""
    named = part.get("type")
    return kind in named if isinstance(named, list) else named == kind


def mapping(value: Json) -> JsonObject:
    """Return the value where it is an object, and an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}
