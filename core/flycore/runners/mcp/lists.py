"""Lists what an MCP server offers beside its tools: resources, templates, and prompts.

A server that lists some gets a definition for the request by which they are read, so that a person trusts
that request like a tool. The lists themselves are not trusted: they change while a server works.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from flycore.model.json import JsonObject, canonical_json
from flycore.model.upstream import COMPLETE, GET_PROMPT, READ_RESOURCE, McpLists, McpToolList, ToolDefinition
from flycore.runners.mcp.tools import MOST_PAGES, list_tools

if TYPE_CHECKING:
    from mcp import Client

MOST_LISTED = 500
"""Entries of one list."""
MOST_LISTED_BYTES = 131_072
"""The size of one list, as canonical JSON."""
MOST_ITEM_BYTES = 8_192
LIST_S = 10.0
"""How long one list may take. The tools of a server do not wait longer for it."""
_TEXT: JsonObject = {"type": "string"}
REQUESTS = {
    READ_RESOURCE: ToolDefinition(
        name=READ_RESOURCE,
        request=READ_RESOURCE,
        description="Reads a resource of the server by its URI.",
        input_schema={
            "type": "object",
            "properties": {"uri": {**_TEXT, "minLength": 1, "maxLength": 8_192}},
            "required": ["uri"],
            "additionalProperties": False,
        },
    ),
    GET_PROMPT: ToolDefinition(
        name=GET_PROMPT,
        request=GET_PROMPT,
        description="Gets the messages of a prompt of the server.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {**_TEXT, "minLength": 1, "maxLength": 1_024},
                "arguments": {"type": "object", "additionalProperties": _TEXT},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
    COMPLETE: ToolDefinition(
        name=COMPLETE,
        request=COMPLETE,
        description="Completes an argument of a prompt or of a template of resources.",
        input_schema={
            "type": "object",
            "properties": {
                "ref": {
                    "type": "object",
                    "properties": {
                        "type": {"enum": ["ref/prompt", "ref/resource"]},
                        "name": {**_TEXT, "minLength": 1, "maxLength": 1_024},
                        "uri": {**_TEXT, "minLength": 1, "maxLength": 8_192},
                    },
                    "required": ["type"],
                    "additionalProperties": False,
                },
                "argument": {
                    "type": "object",
                    "properties": {"name": _TEXT, "value": {**_TEXT, "maxLength": 8_192}},
                    "required": ["name", "value"],
                    "additionalProperties": False,
                },
                "context": {
                    "type": "object",
                    "properties": {"arguments": {"type": "object", "additionalProperties": _TEXT}},
                    "additionalProperties": False,
                },
            },
            "required": ["ref", "argument"],
            "additionalProperties": False,
        },
    ),
}

Fetch = Callable[..., Awaitable[Any]]


async def list_offers(client: Client) -> McpToolList:
    """The tools that the server offers, what else it lists, and a definition for each request that reads it.
    Raises what the SDK raises for a list of tools that does not follow the protocol."""
    listing = await list_tools(client.session)
    lists = await _lists(client)
    completes = client.server_capabilities.completions is not None and (lists.templates or lists.prompts)
    asked = {
        READ_RESOURCE: lists.resources or lists.templates,
        GET_PROMPT: lists.prompts,
        COMPLETE: completes,
    }
    # A tool that has the name of a request keeps it, and the request is not offered.
    names = {tool.name for tool in listing.tools} | {tool.name for tool in listing.refused}
    requests = [REQUESTS[name] for name, some in asked.items() if some and name not in names]
    return msgspec.structs.replace(listing, tools=(*listing.tools, *requests), lists=lists)


async def _lists(client: Client) -> McpLists:
    session, said = client.session, client.server_capabilities
    more: list[str] = []
    resources = templates = prompts = tuple[JsonObject, ...]()
    if said.resources is not None:
        resources = await _list(session.list_resources, "resources", "uri", more)
        templates = await _list(session.list_resource_templates, "resource_templates", "uriTemplate", more)
    if said.prompts is not None:
        prompts = await _list(session.list_prompts, "prompts", "name", more)
    return McpLists(resources=resources, templates=templates, prompts=prompts, more="; ".join(more))


async def _list(fetch: Fetch, field: str, key: str, more: list[str]) -> tuple[JsonObject, ...]:
    """The entries of all pages, within limits; `key` tells them apart. Adds to `more` why some are left out.
    A server that does not answer, or not as the protocol has it, has none."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams
    from pydantic import ValidationError

    found: dict[str, JsonObject] = {}
    size, cursor = 0, None
    words = field.replace("_", " ")
    try:
        with anyio.fail_after(LIST_S):
            for _ in range(MOST_PAGES):
                page = await fetch(params=None if cursor is None else PaginatedRequestParams(cursor=cursor))
                for item in getattr(page, field):
                    sent: JsonObject = item.model_dump(mode="json", by_alias=True, exclude_none=True)
                    bytes_ = _size(sent)
                    fits = bytes_ <= MOST_ITEM_BYTES and size + bytes_ <= MOST_LISTED_BYTES
                    if len(found) >= MOST_LISTED or not fits:
                        more.append(f"some of its {words} are left out")
                        return tuple(found.values())
                    if str(sent[key]) not in found:
                        found[str(sent[key])] = sent
                        size += bytes_
                cursor = page.next_cursor
                if cursor is None:
                    return tuple(found.values())
        more.append(f"it has more than {MOST_PAGES} pages of {words}")
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            more.append(f"it does not list its {words}")
    except (TimeoutError, ValidationError, RuntimeError):
        more.append(f"it does not list its {words}")
    return tuple(found.values())


def _size(sent: JsonObject) -> int:
    try:
        return len(canonical_json(sent))
    except (ValueError, TypeError, RecursionError):
        return MOST_ITEM_BYTES + 1
