"""The log messages of MCP servers, handed on to the client whose call the server works on.

A session of the older protocol chooses a level once (`logging/setLevel`); before that it gets every message
that flytui gets. A request of the newer protocol gets messages only if it names a level.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import anyio
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp_types import EmptyResult, LoggingLevel, LoggingMessageNotification, SetLevelRequestParams

from flycore.model.json import JsonObject

MOST_SESSIONS = 256
"""Sessions whose level is kept; one whose level is forgotten gets every message."""
MOST_PENDING = 64
"""Messages that wait for a client that reads slowly; further ones are left out."""
LAST_S = 5.0
"""How long the last messages of a call may take to be sent, before its result."""
_LEVELS: tuple[str, ...] = get_args(LoggingLevel)

Context = ServerRequestContext[dict[str, Any], Any]


class LogMessages:
    """The levels that the sessions of one caller chose, and the way of messages to them."""

    def __init__(self) -> None:
        self._levels: OrderedDict[int, tuple[object, str]] = OrderedDict()

    async def set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        """Send the session only messages of this level and above."""
        # The SDK makes a session object for each request; what a client said of itself is one object for the
        # whole connection. It is kept, so that no other object gets its id.
        client = ctx.session.client_params
        self._levels[id(client)] = (client, params.level)
        self._levels.move_to_end(id(client))
        if len(self._levels) > MOST_SESSIONS:
            self._levels.popitem(last=False)
        return EmptyResult()

    @asynccontextmanager
    async def forwarded(self, ctx: Context) -> AsyncIterator[Callable[[JsonObject], None]]:
        """Send the client messages while the block runs. Gives the function that takes them."""
        _, level = self._levels.get(id(ctx.session.client_params), (None, _LEVELS[0]))
        least = _LEVELS.index(level)
        levels = set(_LEVELS[least:]) & allowed_log_levels(ctx.session.protocol_version, ctx.meta)
        taken, to_send = anyio.create_memory_object_stream[JsonObject](MOST_PENDING)

        def take(message: JsonObject) -> None:
            if message.get("level") in levels and taken.statistics().current_buffer_used < MOST_PENDING:
                taken.send_nowait(message)

        async def forward() -> None:
            async with to_send:
                async for message in to_send:
                    made = LoggingMessageNotification.model_validate(
                        {"method": "notifications/message", "params": message}
                    )
                    await ctx.session.send_notification(made, related_request_id=ctx.request_id)

        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            with taken:
                yield take
            group.cancel_scope.deadline = anyio.current_time() + LAST_S
