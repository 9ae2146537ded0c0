"""Requests to a model by MCP servers behind flytui, handed on to the client whose call they belong to.

They come here only after a person has let them through. The client has the model, and may ask its own person
as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ClientCapabilities, CreateMessageRequest, CreateMessageResult, SamplingCapability
from pydantic import ValidationError

from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flycore.rpc.methods import Client

Context = ServerRequestContext[dict[str, Any], Any]


def takes_sampling(ctx: Context) -> bool:
    """Return whether the client declared a model that servers may ask, over a connection that can ask it."""
    wanted = ClientCapabilities(sampling=SamplingCapability())
    return ctx.session.can_send_request and ctx.session.check_client_capability(wanted)


@asynccontextmanager
async def sampling_requests(ctx: Context, kernel: Client) -> AsyncIterator[Callable[[JsonObject], None]]:
    """Hand requests on to the client while the block runs, and its answers to the kernel. Gives the function
    that takes a `Progress.sampling`. What the client has not answered at the end is cancelled."""
    async with anyio.create_task_group() as group:

        async def answer(sampling: JsonObject) -> None:
            result = await _ask_model(ctx, sampling["params"])
            # A kernel that is gone waits for no answer.
            with suppress(FlyError):
                await kernel.answer_sampling(str(sampling["id"]), result)

        def take(sampling: JsonObject) -> None:
            group.start_soon(answer, sampling)

        yield take
        group.cancel_scope.cancel()


async def _ask_model(ctx: Context, params: Any) -> JsonObject | None:
    """Return the client's answer; None where it refuses, or answers with no message of a model."""
    request = CreateMessageRequest.model_validate(
        {"method": "sampling/createMessage", "params": params}, by_name=False
    )
    about = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answered = await ctx.session.send_request(request, CreateMessageResult, metadata=about)
    except (MCPError, ValidationError):
        return None
    result: JsonObject = answered.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return result
