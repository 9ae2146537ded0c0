"""Lists an MCP server's tools, page by page within limits, and reads each as a definition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from flycore.catalog.schemas import check_schema
from flycore.model.json import JsonObject, canonical_json
from flycore.model.upstream import McpToolList, ToolDefinition, UnreadableTool

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import Tool, ToolAnnotations

MOST_TOOLS = 500
MOST_PAGES = 50
MOST_BYTES = 1_048_576
"""The size of all definitions together, as canonical JSON."""
MOST_DEFINITION = 131_072
"""The size of one definition, as canonical JSON."""
_DIALECTS = (
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
"""Dialects that servers name by habit. Their schemas are read as draft 2020-12, whose rules they have to
follow."""


async def list_tools(session: ClientSession) -> McpToolList:
    """The tools that the server offers. Raises what the SDK raises for an answer that does not follow the
    protocol."""
    from mcp_types import PaginatedRequestParams

    found: list[Tool] = []
    cursor: str | None = None
    more = f"it has more than {MOST_PAGES} pages of tools"
    for _ in range(MOST_PAGES):
        params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
        page = await session.list_tools(params=params)
        found += page.tools
        cursor = page.next_cursor
        if len(found) > MOST_TOOLS:
            more = f"it offers more than {MOST_TOOLS} tools"
            break
        if cursor is None:
            more = ""
            break
    # Checking hundreds of schemas of any shape takes long: in a worker thread, so that the event loop goes
    # on.
    return await anyio.to_thread.run_sync(partial(read_tools, found[:MOST_TOOLS], more))


def read_tools(tools: list[Tool], more: str) -> McpToolList:
    """The tools as definitions, with the reason for each one that cannot be used. `more` says why the list is
    incomplete; empty where it is complete."""
    definitions: dict[str, ToolDefinition] = {}
    refused: list[UnreadableTool] = []
    size = 0
    for tool in tools:
        definition = _definition(tool)
        why, bytes_ = definition_fault(definition)
        if tool.name in definitions:
            why = "is offered twice"
        if why:
            refused.append(UnreadableTool(name=tool.name[:256], why=why))
        elif (size := size + bytes_) > MOST_BYTES:
            return McpToolList(
                tools=tuple(definitions.values()),
                refused=tuple(refused),
                more=f"its definitions are more than {MOST_BYTES} bytes",
            )
        else:
            definitions[tool.name] = definition
    return McpToolList(tools=tuple(definitions.values()), refused=tuple(refused), more=more)


def _definition(tool: Tool) -> ToolDefinition:
    hints = tool.annotations
    return ToolDefinition(
        name=tool.name,
        title=tool.title or (hints.title if hints is not None else None) or "",
        description=tool.description or tool.title or "",
        input_schema=plain_schema(tool.input_schema),
        output_schema=plain_schema(tool.output_schema or {}),
        destructive=hints is not None and hints.destructive_hint is True,
        hints=_hints_of(hints) if hints is not None else {},
    )


def _hints_of(annotations: ToolAnnotations) -> dict[str, bool]:
    said = annotations.model_dump(by_alias=True, exclude_none=True)
    return {name: value for name, value in sorted(said.items()) if isinstance(value, bool)}


def plain_schema(schema: JsonObject) -> JsonObject:
    """The schema without the name of a dialect that programs give by habit."""
    return {key: value for key, value in schema.items() if key != "$schema" or value not in _DIALECTS}


def definition_fault(definition: ToolDefinition) -> tuple[str, int]:
    """The reason why the tool cannot be used, empty where it can, and the definition's size in bytes."""
    try:
        size = len(canonical_json([definition.name, definition.shown]))
    except (ValueError, TypeError, RecursionError):
        return "has a definition that is not valid JSON, or is nested too deeply", 0
    if size > MOST_DEFINITION:
        return f"has a definition of more than {MOST_DEFINITION} bytes", size
    if definition.input_schema.get("type", "object") != "object":
        return "takes something other than an object", size
    return next(_unusable(definition), ""), size


def _unusable(definition: ToolDefinition) -> Iterator[str]:
    for what, schema in (("input", definition.input_schema), ("output", definition.output_schema)):
        for fault in check_schema(schema) if schema else ():
            yield f"has an {what} schema that cannot be used: {fault}"
