"""`tools/list` and `tools/call`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from flycore.model.call import ToolResult
from flycore.model.enums import Code
from flycore.model.errors import ConnectionLost, FlyError
from flycore.model.json import JsonObject, StrictJsonError, canonical_json, read_strict
from flycore.model.suggest import nearest
from flycore.rpc.methods import Client
from flycore.server.mcp import names as aliases
from flycore.server.mcp.images import ReadImage
from flycore.server.mcp.progress import report_progress
from flycore.server.mcp.results import call_result, text_result, tool_error
from flycore.server.mcp.tool_list import CurrentTools, ToolList, UnknownCursorError
from flysafe.text import safe_text

DISCONNECTED = "flytui.gone"
"""Key of an HTTP request's scope: an event that is set when whoever sent it has left."""
MAX_NAME_CHARS = 200
NO_KERNEL = "no-kernel"
_NO_KERNEL_HINT = "nothing has run; the kernel is looked for again with the next call"

Context = ServerRequestContext[dict[str, Any], Any]


class ToolRequests:
    """What one caller asks for. Who that is was decided where `door` was made."""

    def __init__(self, door: Client, listing: CurrentTools, look: ReadImage) -> None:
        self._client, self._listing, self._look = door, listing, look

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """One page of what is visible."""
        try:
            seen = await self._listing.current()
            tools, cursor = seen.page(params.cursor if params is not None else None)
        except UnknownCursorError as problem:
            raise MCPError(INVALID_PARAMS, f"this server has given no such cursor: {problem}") from None
        except FlyError as problem:
            raise MCPError(INTERNAL_ERROR, f"no kernel answers: {problem}") from None
        return ListToolsResult(tools=tools, next_cursor=cursor)

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        """Call one tool. Whatever else the request carries, `_meta` included, decides nothing."""
        try:
            seen = await self._listing.last_known()
            if params.name == aliases.LIST_ALIAS:
                return text_result([{"name": name, "description": said} for name, said in seen.descriptions])
            if params.name == aliases.CALL_ALIAS:
                return await self._call_alias(ctx, seen, params.arguments or {})
            result = await self._run(ctx, seen, params.name, params.arguments or {})
            if _is_unknown(result, seen):
                raise MCPError(INVALID_PARAMS, unknown_tool(seen, params.name))
            return await self._answer(seen, result)
        except StrictJsonError as problem:
            return tool_error(Code.INVALID_INPUT, f"the input {problem.reason}")
        except FlyError as problem:
            return tool_error(NO_KERNEL, str(problem), _NO_KERNEL_HINT)

    async def _call_alias(self, ctx: Context, seen: ToolList, arguments: JsonObject) -> CallToolResult:
        name, params = arguments.get("name"), arguments.get("params", {})
        if not isinstance(name, str) or not isinstance(params, dict) or set(arguments) - {"name", "params"}:
            return tool_error(Code.INVALID_INPUT, "glee_tool takes a name and params, an object")
        result = await self._run(ctx, seen, name, params)
        if _is_unknown(result, seen):
            return tool_error(Code.NOT_FOUND, unknown_tool(seen, name))
        return await self._answer(seen, result)

    async def _run(self, ctx: Context, seen: ToolList, name: str, arguments: JsonObject) -> ToolResult:
        """Run the tool that `name` means and report its progress.

        Raises StrictJsonError for an input that two
        programs could read differently, FlyError where no kernel took the call."""
        _check_strict(arguments)

        async def run() -> ToolResult | FlyError:
            try:
                return await self._client.call(
                    seen.names.tool_for(name), arguments, said=client_name(ctx), on_progress=on_progress
                )
            except FlyError as problem:
                return problem

        async with report_progress(ctx.session.report_progress) as on_progress:
            ended = await _until_disconnect(ctx, run)
        if isinstance(ended, FlyError):
            raise ended
        return ended

    async def _answer(self, seen: ToolList, result: ToolResult) -> CallToolResult:
        capability = seen.catalog.capability(result.tool)
        described = capability.capability if capability is not None else None
        if not result.artifacts:
            return call_result(result, described, self._look)
        return await anyio.to_thread.run_sync(call_result, result, described, self._look)


def unknown_tool(seen: ToolList, name: str) -> str:
    """That there is no such tool, and which may be meant: only those that are listed."""
    near = nearest(name, [tool.name for tool in seen.tools])
    hint = f"did you mean {' or '.join(near)}?" if near else "tools/list has all"
    return safe_text(f"unknown tool {name[:MAX_NAME_CHARS]}: {hint}")


def client_name(ctx: Context) -> str:
    """What the client says of itself, for the person to see as unverified."""
    params = ctx.session.client_params
    if params is None:
        return ""
    return f"{params.client_info.name} {params.client_info.version}"[:MAX_NAME_CHARS].strip()


def _is_unknown(result: ToolResult, seen: ToolList) -> bool:
    error = result.error
    return error is not None and error.code == Code.NOT_FOUND and seen.catalog.capability(result.tool) is None


def _check_strict(arguments: JsonObject) -> None:
    try:
        read_strict(canonical_json(arguments).encode("ascii"))
    except StrictJsonError:
        raise
    except (ValueError, TypeError, RecursionError) as problem:
        raise StrictJsonError("is not JSON that every program reads") from problem


async def _until_disconnect(
    ctx: Context, work: Callable[[], Awaitable[ToolResult | FlyError]]
) -> ToolResult | FlyError:
    """Do `work`; it is cancelled when the HTTP request it belongs to has lost its sender, who could not be
    given the answer any more. Over stdio, and in the newer era, the server cancels by itself."""
    gone = getattr(ctx.request, "scope", {}).get(DISCONNECTED)
    if not isinstance(gone, anyio.Event):
        return await work()
    ended: list[ToolResult | FlyError] = []
    async with anyio.create_task_group() as group:

        async def leave() -> None:
            await gone.wait()
            group.cancel_scope.cancel()

        group.start_soon(leave)
        ended.append(await work())
        group.cancel_scope.cancel()
    return ended[0] if ended else ConnectionLost("the client has left")
