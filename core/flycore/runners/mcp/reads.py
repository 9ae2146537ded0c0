"""The outcome of reading a resource of an MCP server, getting one of its prompts, or completing a word.

The contents of a resource and the messages of a prompt become blocks of the outcome, as the parts of a tool's
answer do: text as it was sent, files as artifacts.
"""

from __future__ import annotations

from typing import Any

from flycore.model.enums import Status
from flycore.model.json import JsonObject
from flycore.model.large_values import run_aside
from flycore.model.upstream import COMPLETE, READ_RESOURCE
from flycore.runners.mcp.results import outcome_of_result
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome

MOST_VALUES = 100
"""Values of one completion, as the protocol has it."""
LONGEST_VALUE = 1_000
DESCRIPTION = "flytui/description"
"""Key of an outcome's `meta`: the description that came with the messages of a prompt."""


async def outcome_of_read(answer: Any, request: str, job: ProcessJsonJob) -> RunOutcome:
    """Return the outcome of the answer to that request."""
    from mcp_types import CallToolResult, EmbeddedResource

    if request == COMPLETE:
        return RunOutcome(status=Status.SUCCESS, output=_completion(answer))
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


def _completion(answer: Any) -> JsonObject:
    """Return the values that may complete a word, within limits."""
    found = answer.completion
    values = [value for value in found.values[:MOST_VALUES] if len(value) <= LONGEST_VALUE]
    more = found.has_more or len(values) < len(found.values)
    about: JsonObject = {} if found.total is None else {"total": found.total}
    return {"values": [*values], **about, "hasMore": bool(more)}
