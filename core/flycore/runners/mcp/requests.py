"""Makes one request to an MCP server, and answers what the server asks before it gives its result.

A server of the newer protocol asks in place of a result; the request is then made again with the answers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from flycore.model.json import JsonObject
from flycore.model.upstream import COMPLETE, GET_PROMPT, READ_RESOURCE
from flycore.runners.mcp.input_requests import RunningCall, belonging_to

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ErrorData, InputRequest, InputResponse
    from pydantic import TypeAdapter

CALL_TOOL = "tools/call"


async def send_request(
    client: Client, method: str, params: JsonObject, call: RunningCall, on_progress: Any
) -> Any:
    """Make the request, again for each question of the server, and return its result. Raises MCPError,
    ValidationError, RuntimeError as the SDK does."""
    from mcp.client._input_required import run_input_required_driver
    from mcp.client.session import ClientRequestContext
    from mcp_types import InputRequiredResult

    kind, answers = _kind(method)

    async def send(responses: Any, state: str | None) -> Any:
        made = kind.model_validate({"method": method, "params": params})
        if responses is not None or state is not None:
            given = {"input_responses": responses, "request_state": state}
            made = made.model_copy(update={"params": made.params.model_copy(update=given)})
        return await client.session.send_request(made, answers, progress_callback=on_progress)

    async def reply(key: str, asked: InputRequest) -> InputResponse | ErrorData:
        context = ClientRequestContext(session=client.session, request_id=key)
        with belonging_to(call):
            return await client.session.dispatch_input_request(context, asked)

    first = await send(None, None)
    if not isinstance(first, InputRequiredResult):
        return first
    return await run_input_required_driver(first, dispatch=reply, retry=send)


@cache
def _kind(method: str) -> tuple[Any, TypeAdapter[Any]]:
    """Return the class of the request, and what its answer may be."""
    import mcp_types as types
    from pydantic import TypeAdapter

    made: dict[str, tuple[Any, Any]] = {
        CALL_TOOL: (types.CallToolRequest, types.CallToolResult),
        READ_RESOURCE: (types.ReadResourceRequest, types.ReadResourceResult),
        GET_PROMPT: (types.GetPromptRequest, types.GetPromptResult),
        COMPLETE: (types.CompleteRequest, types.CompleteResult),
    }
    kind, result = made[method]
    return kind, TypeAdapter(result | types.InputRequiredResult)
