"""What an MCP server asks of a model (`sampling/createMessage`): the part that is handed on, and its limits.

flytui has no model. What a person lets through goes to the client whose call the server works on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from flycore.model.json import JsonObject, canonical_json

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ErrorData

MOST_REQUEST_BYTES = 16_384
"""The size of a request, as canonical JSON: a person reads all of it."""
MOST_ROWS = 1_000
"""Lines of text in all messages of a request."""
MOST_ANSWER_BYTES = 1_048_576
"""The size of a client's answer, as canonical JSON."""
REFUSED = -1
"""The code of the error that a server gets; the specification has it for a request that a user refused."""
DECLINED = "a person declined the request"
NO_MESSAGE = "was answered by the client with something that is no message of a model"
_FIELDS = frozenset(
    (
        "messages",
        "model_preferences",
        "system_prompt",
        "temperature",
        "max_tokens",
        "stop_sequences",
        "metadata",
    )
)
"""What is handed on. No context of the client is: nobody could be shown it."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a server to a model, during that call."""

    params: JsonObject
    call_id: str


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of such a request."""

    result: JsonObject | None = None
    """The answer of the client; None where there is none."""
    why: str = ""
    """Why there is none, as a sentence without its subject; empty where a person declined."""


HandOn = Callable[[Sampling], Awaitable[Sampled]]
"""Asks a person, and then the client. Cancelling it withdraws the request."""


def sampling_of(params: CreateMessageRequestParams, call_id: str) -> Sampling | str:
    """Return the request as it is handed on, or why it is not, as a sentence without its subject."""
    if params.tools is not None or params.tool_choice is not None or params.task is not None:
        return "was not asked: it wants the model to use tools, or a task"
    blocks = [block for message in params.messages for block in message.content_as_list]
    if not blocks or any(block.type != "text" for block in blocks):
        return "was not asked: a person can be shown text only, and it has something else"
    asked: JsonObject = params.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(_FIELDS))
    try:
        size = len(canonical_json(asked))
    except (ValueError, TypeError, RecursionError):
        return "was not asked: it is not JSON"
    rows = sum(block.text.count("\n") + 1 for block in blocks if block.type == "text")
    if size > MOST_REQUEST_BYTES or rows > MOST_ROWS:
        return f"was not asked: it has more than {MOST_REQUEST_BYTES:,} bytes or {MOST_ROWS:,} lines"
    return Sampling(params=asked, call_id=call_id)


def message_of(result: JsonObject) -> CreateMessageResult | None:
    """Return the client's answer for the server; None where it is no message of a model."""
    from mcp_types import CreateMessageResult
    from pydantic import ValidationError

    try:
        return CreateMessageResult.model_validate(result, by_name=False)
    except ValidationError:
        return None


def refusal(why: str) -> ErrorData:
    """Return the error that the server gets; `why` is empty where a person declined."""
    from mcp_types import ErrorData

    return ErrorData(code=REFUSED, message=f"the request {why}" if why else DECLINED)
