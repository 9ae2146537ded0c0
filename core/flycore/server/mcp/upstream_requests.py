"""The MCP requests for resources and prompts, which are those of the MCP servers behind flytui.

A list is answered from the catalog. Each read is a call through the kernel, as that of a tool is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from flycore.catalog.mcp_capabilities import WHOLE_RESULT
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Status
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject, StrictJsonError
from flycore.model.large_values import run_aside
from flycore.runners.mcp.reads import DESCRIPTION
from flycore.server.mcp.calls import Context, ToolRequests, raise_server_error
from flycore.server.mcp.media import ReadMedia
from flycore.server.mcp.pages import UnknownCursorError, page_of
from flycore.server.mcp.results import META, blocks_of, call_result
from flycore.server.mcp.tool_list import CurrentTools
from flycore.server.mcp.upstream_lists import LIST_PAGE_SIZE, URI_START, DoorLists, mapped_uri
from flysafe.text import safe_text

MAX_SHOWN = 200
"""Characters of a name or URI that an error repeats."""

Item = TypeVar("Item")


class UpstreamRequests:
    """Answers the requests of one caller, whose calls `tools` makes."""

    def __init__(self, tools: ToolRequests, current_tools: CurrentTools, read_media: ReadMedia) -> None:
        self._tools, self._current_tools, self._read_media = tools, current_tools, read_media

    async def list_resources(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return one page of the resources. Raises MCPError."""
        lists = await self._lists()
        page, cursor = _page(lists.resources, params, lambda one: one.uri)
        return ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return one page of the templates of resources. Raises MCPError."""
        lists = await self._lists()
        page, cursor = _page(lists.templates, params, lambda one: one.uri_template)
        return ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def list_prompts(self, ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """Return one page of the prompts. Raises MCPError."""
        lists = await self._lists()
        page, cursor = _page(lists.prompts, params, lambda one: one.name)
        return ListPromptsResult(prompts=page, next_cursor=cursor)

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read one resource. Raises MCPError, also where the call did not succeed."""
        source = (await self._lists()).source(params.uri)
        if source is None:
            uri = safe_text(params.uri[:MAX_SHOWN])
            words = f"no server has the resource {uri}; resources/list has their URIs"
            raise MCPError(INVALID_PARAMS, words, {"uri": params.uri[:MAX_SHOWN]})
        entry, reader, own = source
        result = await self._run(ctx, reader, {"uri": own})
        blocks = await run_aside(True, blocks_of, result, WHOLE_RESULT, self._read_media)
        contents = [block.resource for block in blocks if isinstance(block, EmbeddedResource)]
        if len(contents) != len(blocks):
            raise MCPError(INTERNAL_ERROR, "the resource has a part that is too large to be handed on")
        if params.uri.startswith(URI_START):
            contents = [one.model_copy(update={"uri": mapped_uri(entry, one.uri)}) for one in contents]
        return ReadResourceResult(contents=contents, _meta=result.meta or None)

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Get one prompt. Raises MCPError, also where the call did not succeed."""
        asked = (await self._lists()).askers.get(params.name)
        if asked is None:
            words = (
                f"no server has the prompt {safe_text(params.name[:MAX_SHOWN])}; prompts/list has their names"
            )
            raise MCPError(INVALID_PARAMS, words)
        getter, own = asked
        arguments: JsonObject = {} if params.arguments is None else {"arguments": dict(params.arguments)}
        result = await self._run(ctx, getter, {"name": own, **arguments})
        blocks = await run_aside(True, blocks_of, result, WHOLE_RESULT, self._read_media)
        messages = [
            PromptMessage.model_validate({"role": sent.get("role"), "content": block})
            for sent, block in zip(result.content, blocks, strict=True)
        ]
        about = {key: value for key, value in result.meta.items() if key != DESCRIPTION}
        description = result.meta.get(DESCRIPTION)
        return GetPromptResult(
            description=description if isinstance(description, str) else None,
            messages=messages,
            _meta=about or None,
        )

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Complete an argument of a prompt or template. Where policy does not allow that, there is nothing to
        complete it with. Raises MCPError for a reference that no server has, and for an error of the
        server."""
        lists = await self._lists()
        ref: JsonObject
        if isinstance(params.ref, PromptReference):
            entry = lists.owners.get(params.ref.name)
            ref = {"type": "ref/prompt", "name": lists.askers.get(params.ref.name, ("", ""))[1]}
        else:
            source = lists.source(params.ref.uri)
            entry, _, own = source or (None, "", "")
            ref = {"type": "ref/resource", "uri": own}
        if entry is None:
            raise MCPError(INVALID_PARAMS, "no server has this prompt or template")
        nothing = CompleteResult(completion=Completion(values=[]))
        completer = lists.completers.get(entry)
        if completer is None:
            return nothing
        argument: JsonObject = {"name": params.argument.name, "value": params.argument.value}
        given = params.context.arguments if params.context is not None else None
        context: JsonObject = {} if given is None else {"context": {"arguments": dict(given)}}
        try:
            result = await self._tools.run(ctx, completer, {"ref": ref, "argument": argument, **context})
        except StrictJsonError as problem:
            raise MCPError(INVALID_PARAMS, f"the input {problem.reason}") from None
        except FlyError as problem:
            raise MCPError(INTERNAL_ERROR, f"no kernel answers: {problem}") from None
        raise_server_error(result)
        if result.status is not Status.SUCCESS:
            return nothing
        return CompleteResult.model_validate({"completion": result.output})

    async def _lists(self) -> DoorLists:
        try:
            return (await self._current_tools.last_known()).lists
        except FlyError as problem:
            raise MCPError(INTERNAL_ERROR, f"no kernel answers: {problem}") from None

    async def _run(self, ctx: Context, tool: str, arguments: JsonObject) -> ToolResult:
        """Make the call and return its success. Raises MCPError for any other end."""
        try:
            result = await self._tools.run(ctx, tool, arguments)
        except StrictJsonError as problem:
            raise MCPError(INVALID_PARAMS, f"the input {problem.reason}") from None
        except FlyError as problem:
            raise MCPError(INTERNAL_ERROR, f"no kernel answers: {problem}") from None
        raise_server_error(result)
        if result.status is Status.SUCCESS:
            return result
        # The words and the data are those of a tool that did not succeed: code, message, what to do, ticket.
        told = call_result(result, None, self._read_media)
        words = "\n".join(block.text for block in told.content if block.type == "text")
        about: dict[str, Any] = (told.meta or {}).get(META, {})
        invalid = result.error is not None and result.error.code == Code.INVALID_INPUT
        raise MCPError(INVALID_PARAMS if invalid else INTERNAL_ERROR, words, {META: about})


def _page(
    items: Sequence[Item], params: PaginatedRequestParams | None, key: Callable[[Item], str]
) -> tuple[list[Item], str | None]:
    try:
        return page_of(items, params.cursor if params is not None else None, LIST_PAGE_SIZE, key)
    except UnknownCursorError as problem:
        raise MCPError(INVALID_PARAMS, f"this server gave out no such cursor: {problem}") from None
