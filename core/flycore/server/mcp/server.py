"""The MCP server of one caller, for both eras of the protocol: sessions that begin with `initialize`, and
requests that stand alone (2026)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, NotificationParams

import flycore
from flycore.rpc.methods import Client
from flycore.server.mcp.calls import Context, ToolRequests
from flycore.server.mcp.images import ReadImage
from flycore.server.mcp.tool_list import CurrentTools

SERVER_NAME = "flytui"
INSTRUCTIONS = (
    "Tools of this project. Risky calls wait for a person, who sees the exact input and approves or denies "
    "it; nothing you send decides that. A call that ends `approval-pending` has not run: make exactly the "
    "same call again to take its place. A denial says why; do not repeat it unchanged."
)
MAX_SESSIONS = 256
"""Sessions of the older era that one caller may have open."""
NOTIFY_SECONDS = 5.0
"""How long a client may take to be told that the list has changed."""
INTERNAL_FAULT = "internal error"
_LOG = logging.getLogger("flytui.mcp")

Params = TypeVar("Params")
ResultT = TypeVar("ResultT")


class _Server(Server[dict[str, Any]]):
    """Says that the list may change wherever a session begins, over HTTP too."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """See Server."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Sessions:
    """Clients of the older era, who are told of changes unasked. Telling one that has left does nothing, so
    they are only bounded in number."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, ServerSession] = OrderedDict()

    async def add(self, ctx: Any, params: NotificationParams) -> None:
        """A client has said `notifications/initialized`."""
        self._open[id(ctx.session)] = ctx.session
        if len(self._open) > MAX_SESSIONS:
            self._open.popitem(last=False)

    async def notify(self) -> None:
        """Tell all of them that the tools are others."""
        async with anyio.create_task_group() as group:
            for session in tuple(self._open.values()):
                group.start_soon(_notify, session)


async def _notify(session: ServerSession) -> None:
    with anyio.move_on_after(NOTIFY_SECONDS):
        await session.send_tool_list_changed()


def _without_fault_details(
    handler: Callable[[Context, Params], Awaitable[ResultT]],
) -> Callable[[Context, Params], Awaitable[ResultT]]:
    """The handler, whose faults of our own tell the client no more than that, and the log their type: the
    SDK would send an exception's words, and log them."""

    async def handle(ctx: Context, params: Params) -> ResultT:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, its words stay in this process
            _LOG.error("a request met a fault of our own: %s", _fault_type(fault))
            raise MCPError(INTERNAL_ERROR, INTERNAL_FAULT) from None

    return handle


def _fault_type(fault: BaseException) -> str:
    """Type of the first fault in whatever groups it came in."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return type(fault).__name__


def build_server(door: Client, look: ReadImage) -> Server[dict[str, Any]]:
    """A server whose calls go through `door`. It follows the catalog for as long as it runs."""
    listing, sessions, bus = CurrentTools(door), Sessions(), InMemorySubscriptionBus()
    calls = ToolRequests(door, listing, look)

    async def changed() -> None:
        await bus.publish(ToolsListChanged())
        await sessions.notify()

    @asynccontextmanager
    async def lifespan(_: Server[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        async with anyio.create_task_group() as group:
            group.start_soon(listing.watch, changed)
            yield {}
            group.cancel_scope.cancel()

    server = _Server(
        SERVER_NAME,
        version=flycore.__version__,
        title="flytui",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=_without_fault_details(calls.list_tools),
        on_call_tool=_without_fault_details(calls.call_tool),
        on_subscriptions_listen=ListenHandler(bus, max_subscriptions=MAX_SESSIONS),
    )
    server.add_notification_handler("notifications/initialized", NotificationParams, sessions.add)
    return server
