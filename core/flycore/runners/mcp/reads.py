"""Reads a resource of an MCP server, or gets one of its prompts, as the call of a tool would be made.

The contents of a resource and the messages of a prompt become blocks of the outcome, as the parts of a tool's
answer do: text as it was sent, files as artifacts.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from flycore.model.enums import Code, Status
from flycore.model.json import JsonObject
from flycore.model.large_values import run_aside
from flycore.model.upstream import READ_RESOURCE
from flycore.runners.mcp.results import outcome_of_result
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome

if TYPE_CHECKING:
    from mcp import Client
    from pydantic import TypeAdapter

REFUSED = "input-required"
"""`details.code` where the server asks for something that only a person could answer."""
DESCRIPTION = "flytui/description"
"""Key of an outcome's `meta`: the description that came with the messages of a prompt."""


async def send_read(
    client: Client, job: ProcessJsonJob, request: str, on_progress: Any, meta: dict[str, int]
) -> RunOutcome:
    """Make the request and return the outcome of its answer. Raises MCPError, ValidationError, RuntimeError
    as the SDK does."""
    from mcp_types import (
        CallToolResult,
        EmbeddedResource,
        GetPromptRequest,
        InputRequiredResult,
        ReadResourceRequest,
    )

    params: dict[str, Any] = {**job.input, **({"_meta": meta} if meta else {})}
    kind = ReadResourceRequest if request == READ_RESOURCE else GetPromptRequest
    made = kind.model_validate({"method": request, "params": params})
    answer = await client.session.send_request(made, _answers(request), progress_callback=on_progress)
    if isinstance(answer, InputRequiredResult):
        return asked_outcome()
    roles: tuple[str, ...] = ()
    about: JsonObject = dict(answer.meta or {})
    if request == READ_RESOURCE:
        blocks: list[Any] = [EmbeddedResource(resource=contents) for contents in answer.contents]
    else:
        blocks = [message.content for message in answer.messages]
        roles = tuple(message.role for message in answer.messages)
        about |= {DESCRIPTION: answer.description} if answer.description is not None else {}
    result = CallToolResult.model_validate({"content": blocks, "_meta": about})
    # Files are written to disk, and a text may be large.
    return await run_aside(True, outcome_of_result, result, job, roles)


def asked_outcome() -> RunOutcome:
    """The outcome where the server asks something in place of an answer."""
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message="the server asked a question during the call, which flytui does not answer for you",
        hint="give the server what it needs in the input, or in its own settings",
        details={"code": REFUSED},
    )


@cache
def _answers(request: str) -> TypeAdapter[Any]:
    from mcp_types import GetPromptResult, InputRequiredResult, ReadResourceResult
    from pydantic import TypeAdapter

    if request == READ_RESOURCE:
        return TypeAdapter(ReadResourceResult | InputRequiredResult)
    return TypeAdapter(GetPromptResult | InputRequiredResult)
