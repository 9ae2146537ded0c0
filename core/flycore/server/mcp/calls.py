"""The MCP requests `tools/list` and `tools/call`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
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

from flycore.catalog.schemas import check_needs_process
from flycore.model.call import Progress, ToolResult
from flycore.model.diagnostics import nearest
from flycore.model.enums import Code
from flycore.model.errors import ConnectionLost, FlyError
from flycore.model.json import JsonObject, StrictJsonError, canonical_json, read_strict
from flycore.model.large_values import is_large, run_aside
from flycore.rpc.methods import Client
from flycore.runners.mcp.call import RPC_ERROR
from flycore.server.mcp import names
from flycore.server.mcp.logs import LogMessages
from flycore.server.mcp.media import ReadMedia
from flycore.server.mcp.pages import UnknownCursorError
from flycore.server.mcp.person_wait import PersonWait
from flycore.server.mcp.progress import report_progress
from flycore.server.mcp.results import META, OUTPUT_FITS, call_result, text_result, tool_error
from flycore.server.mcp.sampling import sampling_requests, takes_sampling
from flycore.server.mcp.tool_list import CurrentTools, ToolList, output_schema_of, waiting_text
from flysafe.text import safe_text

DISCONNECTED = "flytui.gone"
"""Key of the ASGI scope of an HTTP request. Its value is an event that is set when the client disconnects."""
MAX_NAME_CHARS = 200
NO_KERNEL = "no-kernel"
_NO_KERNEL_HINT = "the tool has not run; your next call looks for the kernel again"

Context = ServerRequestContext[dict[str, Any], Any]


class ToolRequests:
    """Answers the requests of one caller, who is the caller of `client`."""

    def __init__(
        self,
        client: Client,
        current_tools: CurrentTools,
        read_media: ReadMedia,
        person_wait: PersonWait | None = None,
        logs: LogMessages | None = None,
    ) -> None:
        """Without `person_wait`, each call waits for a person as long as the settings say."""
        self._client, self._current_tools, self._read_media = client, current_tools, read_media
        self._person_wait = person_wait
        self._logs = logs or LogMessages()

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return one page of the visible tools. Raises MCPError."""
        try:
            tool_list = await self._current_tools.current()
            tools, cursor = tool_list.page(params.cursor if params is not None else None)
        except UnknownCursorError as problem:
            raise MCPError(INVALID_PARAMS, f"this server gave out no such cursor: {problem}") from None
        except FlyError as problem:
            raise MCPError(INTERNAL_ERROR, f"no kernel answers: {problem}") from None
        return ListToolsResult(tools=tools, next_cursor=cursor)

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        """Call one tool. Nothing but its name and its arguments has an effect, `_meta` included."""
        try:
            tool_list = await self._current_tools.last_known()
            if params.name == names.LIST_ALIAS:
                return text_result(
                    [{"name": name, "description": text} for name, text in tool_list.descriptions]
                )
            if params.name == names.CALL_ALIAS:
                return await self._call_alias(ctx, tool_list, params.arguments or {})
            if params.name in (names.CREATE, names.CREATE_ALIAS):
                return await self._create(params.arguments or {})
            called = tool_list.names.tool_for(params.name)
            result = await self.run(ctx, called, params.arguments or {})
            if _is_unknown(result, tool_list):
                raise MCPError(INVALID_PARAMS, unknown_tool(tool_list, params.name))
            raise_server_error(result)
            return await self._answer(tool_list, result)
        except StrictJsonError as problem:
            return tool_error(Code.INVALID_INPUT, f"the input {problem.reason}")
        except FlyError as problem:
            return tool_error(NO_KERNEL, str(problem), _NO_KERNEL_HINT)

    async def _call_alias(self, ctx: Context, tool_list: ToolList, arguments: JsonObject) -> CallToolResult:
        name, params = arguments.get("name"), arguments.get("params", {})
        if not isinstance(name, str) or not isinstance(params, dict) or set(arguments) - {"name", "params"}:
            return tool_error(Code.INVALID_INPUT, "glee_tool takes a name, a text, and params, an object")
        result = await self.run(ctx, tool_list.names.tool_for(name), params)
        if _is_unknown(result, tool_list):
            return tool_error(Code.NOT_FOUND, unknown_tool(tool_list, name))
        return await self._answer(tool_list, result)

    async def _create(self, arguments: JsonObject) -> CallToolResult:
        await run_aside(is_large(arguments), _check_strict, arguments)
        name, definition = arguments.get("name"), arguments.get("definition")
        others = set(arguments) - {"name", "definition"}
        if not isinstance(name, str) or not isinstance(definition, dict | str) or others:
            takes = "takes a name, a text, and a definition, an object or a text"
            return tool_error(Code.INVALID_INPUT, f"tool_create {takes}")
        made = await self._client.create_tool(name, definition)
        if not made.accepted:
            return tool_error(Code.INVALID_INPUT, made.why_not, "correct the definition, then make it again")
        return text_result({"name": name, "state": "waits for a person's review; it cannot be called before"})

    async def run(self, ctx: Context, tool: str, arguments: JsonObject) -> ToolResult:
        """Run the tool with that name in the catalog and report its progress.

        Raises StrictJsonError for an input that two programs could read differently, and FlyError where no
        kernel accepted the call.
        """
        # Over HTTP this is the kernel's own event loop.
        await run_aside(is_large(arguments), _check_strict, arguments)
        wait_ms = await self._wait_ms(ctx)

        async def run() -> ToolResult | FlyError:
            try:
                return await self._client.call(
                    tool,
                    arguments,
                    purpose=client_name(ctx),
                    inline_wait_ms=wait_ms,
                    samples=samples,
                    on_progress=on_progress,
                )
            except FlyError as problem:
                return problem  # raised below: the task groups in between would wrap it in a group

        samples = takes_sampling(ctx)
        async with (
            report_progress(ctx.session.report_progress) as report,
            self._logs.forwarded(ctx) as log,
            sampling_requests(ctx, self._client) as sample,
        ):
            on_progress = partial(_hand_on, report, log, sample)
            ended = await _until_disconnect(ctx, run)
        if isinstance(ended, FlyError):
            raise ended
        return ended

    async def _wait_ms(self, ctx: Context) -> int | None:
        """Return how long the call waits for a person; None where the kernel's settings say so."""
        if self._person_wait is None:
            return None
        params = ctx.session.client_params
        client = params.client_info.name if params is not None else ""
        return await self._person_wait.wait_ms(client, has_progress="progress_token" in (ctx.meta or {}))

    async def _answer(self, tool_list: ToolList, result: ToolResult) -> CallToolResult:
        view = tool_list.catalog.capability(result.tool)
        capability = view.capability if view is not None else None
        # Images are read from disk, and large outputs are checked against the schema in another process.
        schema = output_schema_of(capability) if capability is not None else None
        costly = schema is not None and check_needs_process(schema, result.output)
        aside = bool(result.artifacts) or is_large(result.output) or costly
        answer = await run_aside(aside, call_result, result, capability, self._read_media)
        about: dict[str, Any] = (answer.meta or {}).get(META, {})
        if capability is not None and not about.get(OUTPUT_FITS, True):
            # Before the answer: a client that reads the list again then takes this answer as it is.
            await self._current_tools.drop_output_schema(capability)
        return answer


def _hand_on(
    report: Callable[[Progress], None],
    log: Callable[[JsonObject], None],
    sample: Callable[[JsonObject], None],
    step: Progress,
) -> None:
    if step.log:
        log(step.log)
    elif step.sampling:
        sample(step.sampling)
    else:
        report(step)


def raise_server_error(result: ToolResult) -> None:
    """Raise MCPError where an MCP server answered the call with an error of the protocol, as it sent it."""
    details = result.error.details if result.error is not None and result.sidecar is not None else {}
    number = details.get("rpcCode")
    if result.error is not None and details.get("code") == RPC_ERROR and isinstance(number, int):
        raise MCPError(number, result.error.message, details.get("rpcData"))


def unknown_tool(tool_list: ToolList, name: str) -> str:
    """Return a message that there is no such tool, with similar names among the visible tools."""
    # Hidden tools are not suggested: the message must not reveal more than tools/list.
    near = nearest(name, [tool.name for tool in tool_list.tools])
    hint = f"did you mean {' or '.join(near)}?" if near else "tools/list shows all tools"
    waits = waiting_text(tool_list.catalog)
    return safe_text(f"unknown tool {name[:MAX_NAME_CHARS]}: {hint}" + (f". {waits}" if waits else ""))


def client_name(ctx: Context) -> str:
    """Return the name and version that the client states; the console shows them as unverified."""
    params = ctx.session.client_params
    if params is None:
        return ""
    return f"{params.client_info.name} {params.client_info.version}"[:MAX_NAME_CHARS].strip()


def _is_unknown(result: ToolResult, tool_list: ToolList) -> bool:
    if result.error is None or result.error.code != Code.NOT_FOUND:
        return False
    return tool_list.catalog.capability(result.tool) is None


def _check_strict(arguments: JsonObject) -> None:
    try:
        read_strict(canonical_json(arguments).encode("ascii"))
    except StrictJsonError:
        raise
    except (ValueError, TypeError, RecursionError) as problem:
        raise StrictJsonError("is not JSON that every program can read") from problem


async def _until_disconnect(
    ctx: Context, work: Callable[[], Awaitable[ToolResult | FlyError]]
) -> ToolResult | FlyError:
    """Run `work`, and cancel it when the client of the HTTP request disconnects."""
    # Nobody could receive the answer any more. Over stdio, and for requests of the 2026 protocol, the SDK
    # cancels the handler itself, and there is no such event.
    disconnected = getattr(ctx.request, "scope", {}).get(DISCONNECTED)
    if not isinstance(disconnected, anyio.Event):
        return await work()
    results: list[ToolResult | FlyError] = []
    async with anyio.create_task_group() as group:

        async def cancel_after_disconnect() -> None:
            await disconnected.wait()
            group.cancel_scope.cancel()

        group.start_soon(cancel_after_disconnect)
        results.append(await work())
        group.cancel_scope.cancel()
    return results[0] if results else ConnectionLost("the client disconnected")
