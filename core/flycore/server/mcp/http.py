"""MCP over streamable HTTP, as an ASGI application that runs behind `AuthMiddleware`."""

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
from flycore.server.mcp.media import ReadMedia
from flycore.server.mcp.person_wait import PersonWait
from flycore.server.mcp.server import MAX_SESSIONS, build_server

ClientFor = Callable[[str], Client]
_LOG = logging.getLogger("flytui.http")


def http_app(client_for: ClientFor, read_media: ReadMedia, person_wait: PersonWait | None = None) -> ASGIApp:
    """Return the application that serves `/mcp`. It needs the ASGI lifespan.

    Each caller, known by the key that `AuthMiddleware` left in the scope, has a server and sessions of its
    own. A request without such a key is refused.
    """
    # The SDK logs parts of what a peer sent; such text must not reach a log or a terminal.
    log = logging.getLogger("mcp")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    servers = _Servers(client_for, read_media, person_wait)
    return Starlette(
        routes=[Route(MCP_PATH, endpoint=servers)],
        lifespan=lambda _: servers.open(),
        exception_handlers={Exception: _internal_error},
    )


async def _internal_error(request: Request, problem: Exception) -> Response:
    """Answer a request that met a programming error. Answer and log show none of the data involved."""
    _LOG.error("an internal error ended a request over HTTP: %s", type(problem).__name__)
    error = {"code": INTERNAL_ERROR, "message": "internal error"}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 500, {"connection": "close"})


class _Servers:
    """One session manager for each caller, started with the caller's first request."""

    def __init__(self, client_for: ClientFor, read_media: ReadMedia, person_wait: PersonWait | None) -> None:
        self._client_for, self._read_media = client_for, read_media
        self._person_wait = person_wait
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._opening = anyio.Lock()
        self._group: TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the block runs. Then every session and every running call ends."""
        async with anyio.create_task_group() as group:
            self._group = group
            yield
            group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        caller_key = scope.get("state", {}).get(CALLER_STATE_KEY)
        if not isinstance(caller_key, str) or not caller_key:
            await PlainTextResponse("no token\n", 401)(scope, receive, send)
            return
        disconnected = scope[DISCONNECTED] = anyio.Event()

        async def receive_and_watch() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                disconnected.set()
            return message

        manager = await self._manager(caller_key)
        await manager.handle_request(scope, receive_and_watch, send)

    async def _manager(self, caller_key: str) -> StreamableHTTPSessionManager:
        # Two first requests of one caller may arrive together; without the lock each would start a manager,
        # and the sessions of one of them would be lost.
        async with self._opening:
            if caller_key not in self._managers:
                server = build_server(self._client_for(caller_key), self._read_media, self._person_wait)
                manager = StreamableHTTPSessionManager(server, max_sessions=MAX_SESSIONS)
                await self._group.start(_run_manager, manager)
                self._managers[caller_key] = manager
            return self._managers[caller_key]


async def _run_manager(
    manager: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()
