"""Reads what an executable prints when it is asked with `--schema`: one tool, or an array of several.

Two forms of a tool are known by their keys. With `parameters`, each parameter has a type, and the tool
answers with `success`. With `input_schema` and `output_schema`, both are JSON Schemas, and the tool answers
with any object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flycore.model.durations import duration_ms
from flycore.model.enums import Envelope
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.model.upstream import McpToolList, ToolDefinition, UnreadableTool

MOST_TOOLS = 100
MOST_PARAMETERS = 200
MOST_TAGS = 64
LONGEST_TAG = 64
LONGEST_TIMEOUT_MS = 600_000
"""The longest time limit that a program may give itself."""
LONGEST_VERSION = 64
LONGEST_DESCRIPTION = 8_192
TYPES = ("string", "integer", "number", "boolean", "array", "object")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PASSED_ON = (
    "enum",
    "items",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "properties",
)
"""Keys of a parameter that mean in JSON Schema what they mean in it."""


class SchemaFault(ValueError):
    """What a tool says of itself cannot be used. The text is a sentence without its subject."""


def read_schema(stdout: bytes) -> McpToolList:
    """Return the tools in what the executable printed. Raises SchemaFault where there is none."""
    if not stdout.strip():
        raise SchemaFault("printed nothing")
    try:
        document = read_strict(stdout)
    except StrictJsonError as fault:
        raise SchemaFault(f"printed something that {fault.reason}") from None
    listed = document if isinstance(document, list) else [document]
    if not listed:
        raise SchemaFault("printed an array without a tool")
    tools: dict[str, ToolDefinition] = {}
    refused: list[UnreadableTool] = []
    for number, value in enumerate(listed[:MOST_TOOLS], 1):
        try:
            tool = read_tool(value)
        except SchemaFault as fault:
            name = value.get("name") if isinstance(value, dict) else None
            shown = name[:128] if isinstance(name, str) and name else f"tool {number}"
            refused.append(UnreadableTool(name=shown, why=str(fault)))
            continue
        if tool.name in tools:
            refused.append(UnreadableTool(name=tool.name, why="is described twice"))
            continue
        tools[tool.name] = tool
    if not tools:
        raise SchemaFault(f"describes no tool that can be used: it {refused[0].why}")
    more = f"it describes more than {MOST_TOOLS} tools" if len(listed) > MOST_TOOLS else ""
    return McpToolList(tools=tuple(tools.values()), refused=tuple(refused), more=more)


def read_tool(value: Json) -> ToolDefinition:
    """Return the definition of one tool. Raises SchemaFault."""
    if not isinstance(value, dict):
        raise SchemaFault("is not an object")
    name = value.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise SchemaFault("has no name of 1 to 64 of A-Z a-z 0-9 . _ -")
    if "parameters" in value and "input_schema" not in value:
        envelope, input_schema = Envelope.PARAMETERS, _of_parameters(value["parameters"])
    else:
        envelope, input_schema = Envelope.OBJECT, _schema(value, "input_schema")
    timeout = value.get("timeout")
    timeout_ms = 0 if timeout is None else duration_ms(timeout, LONGEST_TIMEOUT_MS)
    if timeout_ms is None:
        raise SchemaFault("has a timeout that is not a duration such as 30s or 5m, of at most 10m")
    version = value.get("version", "")
    tags = value.get("tags")
    return ToolDefinition(
        name=name,
        description=_text(value, "description")[:LONGEST_DESCRIPTION],
        input_schema=input_schema,
        output_schema=_schema(value, "output_schema"),
        envelope=envelope,
        version=str(version)[:LONGEST_VERSION] if isinstance(version, str | int | float) else "",
        tags=tuple(tag[:LONGEST_TAG] for tag in tags[:MOST_TAGS] if isinstance(tag, str))
        if isinstance(tags, list)
        else (),
        timeout_ms=timeout_ms,
    )


def _of_parameters(parameters: Json) -> JsonObject:
    """Return the parameters as a JSON Schema of the input. Raises SchemaFault."""
    if parameters is None:
        return {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise SchemaFault("has parameters that are not an object")
    # Some programs write a whole JSON Schema there. A parameter of the name `type` is an object, no text.
    if parameters.get("type") == "object" and isinstance(parameters.get("properties", {}), dict):
        return parameters
    if len(parameters) > MOST_PARAMETERS:
        raise SchemaFault(f"has more than {MOST_PARAMETERS} parameters")
    required: list[Json] = []
    properties: JsonObject = {}
    for name, said in parameters.items():
        if not isinstance(said, dict):
            raise SchemaFault(f"has a parameter {_quoted(name)} that is not an object")
        if said.get("required", False) is True:
            required.append(name)
        properties[name] = _of_parameter(name, said)
    schema: JsonObject = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _of_parameter(name: str, said: Mapping[str, Json]) -> JsonObject:
    kind = said.get("type")
    if kind not in TYPES:
        raise SchemaFault(f"has a parameter {_quoted(name)} whose type is none of {', '.join(TYPES)}")
    schema: JsonObject = {"type": kind}
    if isinstance(said.get("description"), str):
        schema["description"] = said["description"]
    # Null stands for no default, as in programs that print every key.
    if said.get("default") is not None:
        schema["default"] = said["default"]
    return {**schema, **{key: said[key] for key in _PASSED_ON if key in said}}


def _schema(value: Mapping[str, Json], key: str) -> JsonObject:
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SchemaFault(f"has an {key} that is not an object")
    return found


def _text(value: Mapping[str, Json], key: str) -> str:
    found = value.get(key, "")
    return found if isinstance(found, str) else ""


def _quoted(name: str) -> str:
    return f"“{name[:64]}”"
