"""MCP over streamable HTTP, as an ASGI application. Who may come in is decided before it (admission)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flycore.rpc.methods import Client
from flycore.server.http import CALLER_STATE_KEY, MCP_PATH
from flycore.server.mcp.calls import DISCONNECTED
from flycore.server.mcp.images import ReadImage
from flycore.server.mcp.server import MAX_SESSIONS, build_server

ClientFor = Callable[[str], Client]
_LOG = logging.getLogger("flytui.http")


def http_app(door_of: ClientFor, look: ReadImage) -> ASGIApp:
    """Serves `/mcp`, for each caller, by the key that admission left, with a server and sessions of its own;
    a request without one is refused. Needs the ASGI lifespan."""
    log = logging.getLogger("mcp")
    log.propagate = False
    log.addHandler(logging.NullHandler())  # what a peer sends is written nowhere
    servers = _Servers(door_of, look)
    return Starlette(
        routes=[Route(MCP_PATH, endpoint=servers)],
        lifespan=lambda _: servers.open(),
        exception_handlers={Exception: _internal_error},
    )


async def _internal_error(request: Request, problem: Exception) -> Response:
    """A fault of our own: its sender is told no more than that, the log one line without anybody's data."""
    _LOG.error("a request over HTTP met a fault of our own: %s", type(problem).__name__)
    error = {"code": INTERNAL_ERROR, "message": "internal error"}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 500, {"connection": "close"})


class _Servers:
    """One session manager for each token's name, opened when it first comes."""

    def __init__(self, door_of: ClientFor, look: ReadImage) -> None:
        self._client_for, self._look = door_of, look
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._opening = anyio.Lock()
        self._group: TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the block runs; then every session ends, and every call under way."""
        async with anyio.create_task_group() as group:
            self._group = group
            yield
            group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        token = scope.get("state", {}).get(CALLER_STATE_KEY)
        if not isinstance(token, str) or not token:
            await PlainTextResponse("no token\n", 401)(scope, receive, send)
            return
        gone = scope[DISCONNECTED] = anyio.Event()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        manager = await self._manager(token)
        await manager.handle_request(scope, heard, send)

    async def _manager(self, token: str) -> StreamableHTTPSessionManager:
        async with self._opening:
            if token not in self._managers:
                server = build_server(self._client_for(token), self._look)
                manager = StreamableHTTPSessionManager(server, max_sessions=MAX_SESSIONS)
                await self._group.start(_run_manager, manager)
                self._managers[token] = manager
            return self._managers[token]


async def _run_manager(
    manager: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()
