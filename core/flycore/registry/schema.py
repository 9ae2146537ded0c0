"""The JSON Schema of the registry file, and its violations as messages for a person."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flycore.model.enums import Source
from flycore.model.json import JsonObject, pointer_join
from flycore.model.json_pieces import weight
from flycore.model.large_values import LARGE_VALUES
from flycore.registry.loader_environment import refused_pattern
from flycore.registry.names import BUILTIN_PREFIXES, PLANS, SECRET_NAME_PATTERN, is_builtin

if TYPE_CHECKING:
    import jsonschema_rs

SCHEMA_FILE = "external.tools.schema.json"
MANIFEST_SCHEMA_FILE = "tool.schema.json"
MOST_ERRORS = 100
"""Violations of one entry or manifest that are reported."""
_COPIED_CHARACTERS = 1_024
"""Characters of a string that cost as much as one part more."""
_SHARED = (
    *("version", "approval", "exampleCalls", "secretTypes", "exec", "httpExec", "commandExec", "pythonExec"),
    *("folder", "format", "timeout", "schema", "path", "name", "tool"),
)
"""What a manifest has in common with the registry."""


@cache
def _schema_text(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def registry_schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of `external.tools.jsonc`, each time as a new copy."""
    schema: JsonObject = json.loads(_schema_text(SCHEMA_FILE))
    return schema


def manifest_schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of a tool manifest, each time as a new copy.

    Its definition `manifest` is what is checked first. What stands beside it, for editors, refuses more: what
    the checks of a manifest report, with messages of their own.
    """
    schema: Any = json.loads(_schema_text(MANIFEST_SCHEMA_FILE))
    registry: Any = registry_schema()["$defs"]
    schema["$defs"] |= {name: registry[name] for name in _SHARED}
    made: JsonObject = schema
    return made


@cache
def manifest_validator() -> jsonschema_rs.Draft202012Validator:
    """Return the validator of a tool manifest before its further checks. It is built once."""
    return _definition_validator("manifest", manifest_schema())


@cache
def entry_validator() -> jsonschema_rs.Draft202012Validator:
    """Return the validator of one entry. It is built once."""
    return _definition_validator("sidecar", registry_schema())


def _definition_validator(name: str, schema: JsonObject) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}, retriever=refuse_retrieval
    )


@lru_cache(maxsize=8)
def strict_validator(known: frozenset[str], source: Source) -> jsonschema_rs.Draft202012Validator:
    """Return a validator that is stricter than the schema: it also refuses what `checks` may report.

    For an entry that it accepts, only the checks that no schema can express remain. In doubt it refuses, and
    `checks` decides.
    """
    import jsonschema_rs

    definitions: Any = registry_schema()["$defs"]
    sidecar, tool = definitions["sidecar"], definitions["tool"]
    properties = sidecar["properties"]
    permissions = properties["permissions"]
    closed = (sidecar, tool, properties["probe"], permissions, permissions["properties"]["fs"])
    for node in (*closed, properties["limits"], definitions["delegate"]):
        node["additionalProperties"] = False
    harmless = {"allOf": [{"$ref": "#/$defs/name"}, {"not": {"pattern": SECRET_NAME_PATTERN}}]}
    properties["env"]["propertyNames"] = harmless
    handed_on = {"allOf": [harmless, {"not": {"pattern": refused_pattern()}}]}
    properties["passEnv"]["items"] = permissions["properties"]["secrets"]["items"] = handed_on
    own = "app" if source is Source.PROJECT else "config"
    properties["cwd"] = {
        "enum": [own, "project", "workspace", "empty"]
        if own == "app"
        else [own, "workspace", "empty", "data"]
    }
    sidecar["required"] = ["tools"]
    properties["tools"] |= {"minItems": 1, "uniqueItems": True}
    for kind in ("mcp", "executable", "http", "command", "python"):
        properties["kind"]["enum"].remove(kind)
    for key in ("url", "headers", "onCancel", "sampling", "exec"):
        del properties[key]
    permissions["properties"]["secrets"]["type"] = "array"
    # The kernel's own tools are known, and no entry may offer one.
    offered = sorted(name for name in known - PLANS if not is_builtin(name))
    tool |= {"if": {"type": "string"}, "then": {"enum": offered}}
    own_names = [*map(re.escape, BUILTIN_PREFIXES), *(f"{re.escape(name)}$" for name in sorted(PLANS))]
    tool["properties"]["name"]["not"] = {"pattern": f"^(?:{'|'.join(own_names)})"}
    of_objects = {"properties": {"type": {"const": "object"}}}
    tool["properties"]["inputSchema"] = {"allOf": [{"$ref": "#/$defs/schema"}, of_objects]}
    definitions["schema"] = {"type": "object", "$ref": "https://json-schema.org/draft/2020-12/schema"}
    return jsonschema_rs.Draft202012Validator(
        {"$ref": "#/$defs/sidecar", "$defs": definitions}, retriever=refuse_retrieval
    )


def refuse_retrieval(uri: str) -> JsonObject:
    """Raise ValueError for a `$ref` to a file or the network, which is never followed."""
    raise ValueError("references outside the schema are not followed")


@cache
def _whole_schema() -> JsonObject:
    """The schema of the registry, with the definition of a manifest."""
    schema: Any = registry_schema()
    schema["$defs"] |= manifest_schema()["$defs"]
    whole: JsonObject = schema
    return whole


def known_keys_at(path: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that an object may have, given the place of its schema below `$defs`."""
    return frozenset(_node(("$defs", *path)).get("properties", {}))


@cache
def known_keys() -> frozenset[str]:
    """Return the keys that an entry may have."""
    return frozenset(_node(("$defs", "sidecar"))["properties"])


@cache
def nested_keys() -> dict[str, frozenset[str]]:
    """Return the keys that may be inside `probe`, `permissions`, `limits` and `permissions/fs`."""
    properties = _node(("$defs", "sidecar", "properties"))
    found = {name: frozenset(properties[name]["properties"]) for name in ("probe", "permissions", "limits")}
    return {**found, "permissions/fs": frozenset(properties["permissions"]["properties"]["fs"]["properties"])}


@cache
def tool_keys() -> frozenset[str]:
    """Return the keys that the object of a tool may have."""
    return frozenset(_node(("$defs", "tool"))["properties"])


@cache
def upstream_tool_keys() -> frozenset[str]:
    """Return the keys that the object of a tool of an MCP server may have."""
    return frozenset(_node(("$defs", "upstreamTool"))["properties"])


def violations(entry: object) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer below the entry, message, remedy) for each violation of the schema."""
    yield from _violations(entry_validator(), entry)


def manifest_violations(manifest: object) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer, message, remedy) for each violation of the schema of a manifest."""
    yield from _violations(manifest_validator(), manifest)


def bounded_errors(
    validator: jsonschema_rs.Draft202012Validator, value: object
) -> Iterator[jsonschema_rs.ValidationError]:
    """Yield the errors of the value; of a large value only the first one."""
    import jsonschema_rs

    # The library makes all errors before it hands over the first, and each of them holds a copy of its part.
    if weight(value, LARGE_VALUES, _COPIED_CHARACTERS) < LARGE_VALUES:
        yield from islice(validator.iter_errors(value), MOST_ERRORS)
        return
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        yield error


def _violations(
    validator: jsonschema_rs.Draft202012Validator, value: object
) -> Iterator[tuple[str, str, str]]:
    for error in bounded_errors(validator, value):
        pointer = ""
        for token in error.instance_path:
            pointer = pointer_join(pointer, token)
        keyword, facts = error.kind.name, error.kind.as_dict()
        path = list(error.schema_path)
        if keyword == "propertyNames":
            below = pointer_join(pointer, str(facts["error"].instance))
            yield below, "the name has a form that is not allowed", _name_remedy(path[:-1])
        elif keyword == "required":
            missing = str(facts["property"])
            yield pointer, f"the key {missing} is missing", f'add "{missing}": {_example(path, missing)}'
        else:
            yield pointer, _problem_text(keyword, facts), _remedy(path[:-1], pointer)


def _problem_text(keyword: str, facts: dict[str, Any]) -> str:
    """Return the message of a violation."""
    # The value is left out: it may be a secret, which must not appear in a message.
    match keyword:
        case "type":
            return "must be " + " or ".join(_article(str(kind)) for kind in facts["types"])
        case "enum":
            return "must be one of " + ", ".join(json.dumps(option) for option in facts["options"])
        case "minimum" | "maximum":
            return f"must be {'at least' if keyword == 'minimum' else 'at most'} {facts['limit']}"
        case "minLength" | "minItems":
            return "must not be empty"
        case "maxLength" | "maxItems":
            return f"is longer than {facts['limit']}"
        case _:
            return "has a form that is not allowed"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"


def _remedy(path: list[str | int], pointer: str) -> str:
    """Return what to write, from the description and the example in the schema."""
    node = _node(tuple(path))
    description = str(node.get("description", "")).rstrip(".")
    examples = node.get("examples")
    if not examples:
        return description
    leaf = pointer.rsplit("/", 1)[-1]
    example = json.dumps(examples[0], ensure_ascii=False)
    written = example if leaf.isdigit() else f"{json.dumps(leaf)}: {example}"
    return f"write for example {written}" + (f" ({description})" if description else "")


def _name_remedy(path: list[str | int]) -> str:
    """Return what a name must look like, with an example."""
    node = _node(tuple(path))
    return f"choose a name such as {node['examples'][0]} ({str(node['description']).rstrip('.')})"


def _example(path: list[str | int], name: str) -> str:
    """Return an example of a missing key."""
    # `required` is beside `properties`, or in an `else` below them.
    node = _node(tuple(step for step in path[:-1] if step != "else"))
    child = node.get("properties", {}).get(name, {})
    if "$ref" in child:
        child = _node(tuple(child["$ref"].split("/")[1:]))
    examples = child.get("examples", ["…"])
    return json.dumps(examples[0], ensure_ascii=False)


def _node(path: tuple[str | int, ...]) -> dict[str, Any]:
    """Return the object of the schema at `path`. References on the way are followed."""
    node: Any = _whole_schema()
    for step in path:
        node = node.get(step, {}) if isinstance(node, dict) else {}
        if isinstance(node, dict) and "$ref" in node:
            node = _node(tuple(node["$ref"].split("/")[1:]))
    return node if isinstance(node, dict) else {}
