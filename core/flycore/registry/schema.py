"""The JSON Schema of the registry file, and what its violations say to a person."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from flycore.model.enums import Source
from flycore.model.json import JsonObject, pointer_join
from flycore.registry.names import BUILTIN_PREFIXES, SECRET_NAME_PATTERN

if TYPE_CHECKING:
    import jsonschema_rs

SCHEMA_FILE = "external.tools.schema.json"


@cache
def _schema_text() -> str:
    return resources.files("flycore.registry").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def registry_schema() -> JsonObject:
    """The JSON Schema (2020-12) of `external.tools.jsonc`; a new copy each time."""
    schema: JsonObject = json.loads(_schema_text())
    return schema


@cache
def entry_validator() -> jsonschema_rs.Draft202012Validator:
    """Validates one sidecar's entry; built once."""
    import jsonschema_rs

    schema = registry_schema()
    return jsonschema_rs.Draft202012Validator(
        {"$ref": "#/$defs/sidecar", "$defs": schema["$defs"]}, retriever=refuse_retrieval
    )


@lru_cache(maxsize=8)
def strict_validator(known: frozenset[str], source: Source) -> jsonschema_rs.Draft202012Validator:
    """Stricter than the schema: also refuses what `checks` may report, so that of an entry it accepts only
    what no schema can say is left to look at. In doubt it refuses, and `checks` decides."""
    import jsonschema_rs

    definitions: Any = registry_schema()["$defs"]
    sidecar, tool = definitions["sidecar"], definitions["tool"]
    properties = sidecar["properties"]
    permissions = properties["permissions"]
    closed = (sidecar, tool, properties["probe"], permissions, permissions["properties"]["fs"])
    for node in (*closed, properties["limits"], definitions["delegate"]):
        node["additionalProperties"] = False
    harmless = {"allOf": [{"$ref": "#/$defs/name"}, {"not": {"pattern": SECRET_NAME_PATTERN}}]}
    properties["passEnv"]["items"] = properties["env"]["propertyNames"] = harmless
    own = "app" if source is Source.PROJECT else "config"
    properties["cwd"] = {"enum": [own, "project", "workspace"] if own == "app" else [own, "workspace"]}
    sidecar["required"] = ["tools"]
    properties["tools"] |= {"minItems": 1, "uniqueItems": True}
    properties["kind"]["enum"].remove("mcp")
    del properties["url"], properties["headers"]
    tool |= {"if": {"type": "string"}, "then": {"enum": sorted(known)}}
    tool["properties"]["name"]["not"] = {"pattern": f"^(?:{'|'.join(map(re.escape, BUILTIN_PREFIXES))})"}
    of_objects = {"properties": {"type": {"const": "object"}}}
    tool["properties"]["inputSchema"] = {"allOf": [{"$ref": "#/$defs/schema"}, of_objects]}
    definitions["schema"] = {"type": "object", "$ref": "https://json-schema.org/draft/2020-12/schema"}
    return jsonschema_rs.Draft202012Validator(
        {"$ref": "#/$defs/sidecar", "$defs": definitions}, retriever=refuse_retrieval
    )


def refuse_retrieval(uri: str) -> JsonObject:
    """A schema's `$ref` to a file or the net is never followed."""
    raise ValueError("references outside the schema are not followed")


@cache
def known_keys() -> frozenset[str]:
    """The keys an entry may have."""
    return frozenset(_node(("$defs", "sidecar"))["properties"])


@cache
def nested_keys() -> dict[str, frozenset[str]]:
    """The keys known below those keys of an entry whose objects have a fixed form."""
    properties = _node(("$defs", "sidecar", "properties"))
    found = {name: frozenset(properties[name]["properties"]) for name in ("probe", "permissions", "limits")}
    return {**found, "permissions/fs": frozenset(properties["permissions"]["properties"]["fs"]["properties"])}


@cache
def tool_keys() -> frozenset[str]:
    """The keys a tool's object may have."""
    return frozenset(_node(("$defs", "tool"))["properties"])


@cache
def upstream_tool_keys() -> frozenset[str]:
    """The keys an object about an MCP server's tool may have."""
    return frozenset(_node(("$defs", "upstreamTool"))["properties"])


def violations(entry: object) -> Iterator[tuple[str, str, str]]:
    """(pointer below the entry, what is wrong, what to write instead) of each schema violation."""
    for error in entry_validator().iter_errors(entry):
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
    """What is wrong, without the value: a file may hold what should not be repeated."""
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
    """What to write, from the schema's own description and example."""
    node = _node(tuple(path))
    said = str(node.get("description", "")).rstrip(".")
    examples = node.get("examples")
    if not examples:
        return said
    leaf = pointer.rsplit("/", 1)[-1]
    example = json.dumps(examples[0], ensure_ascii=False)
    written = example if leaf.isdigit() else f"{json.dumps(leaf)}: {example}"
    return f"write for example {written}" + (f" ({said})" if said else "")


def _name_remedy(path: list[str | int]) -> str:
    """What a name must look like."""
    node = _node(tuple(path))
    return f"choose a name such as {node['examples'][0]} ({str(node['description']).rstrip('.')})"


def _example(path: list[str | int], name: str) -> str:
    """An example of a missing key; `required` stands beside `properties`, or in an `else` below them."""
    node = _node(tuple(step for step in path[:-1] if step != "else"))
    child = node.get("properties", {}).get(name, {})
    if "$ref" in child:
        child = _node(tuple(child["$ref"].split("/")[1:]))
    examples = child.get("examples", ["…"])
    return json.dumps(examples[0], ensure_ascii=False)


def _node(path: tuple[str | int, ...]) -> dict[str, Any]:
    """The schema object at `path`; references on the way are followed."""
    root = registry_schema()
    node: Any = root
    for step in path:
        node = node.get(step, {}) if isinstance(node, dict) else {}
        if isinstance(node, dict) and "$ref" in node:
            node = _node(tuple(node["$ref"].split("/")[1:]))
    return node if isinstance(node, dict) else {}
