"""The MCP server of one caller.

It serves both forms of the protocol: sessions that begin with `initialize`, and the single requests of the
2026 protocol, which need no session.
"""

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
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, NotificationParams, SetLevelRequestParams

import flycore
from flycore.rpc.methods import Client
from flycore.server.mcp.calls import Context, ToolRequests
from flycore.server.mcp.early_answers import INSTRUCTIONS, SERVER_NAME
from flycore.server.mcp.logs import LogMessages
from flycore.server.mcp.media import ReadMedia
from flycore.server.mcp.person_wait import PersonWait
from flycore.server.mcp.tool_list import TOOLS, CurrentTools, StoredLists
from flycore.server.mcp.upstream_lists import PROMPTS, RESOURCES
from flycore.server.mcp.upstream_requests import UpstreamRequests

MAX_SESSIONS = 256
"""Sessions that one caller may have open."""
NOTIFY_SECONDS = 5.0
"""How long sending one notification may take; a client that does not read is skipped then."""
INTERNAL_FAULT = "internal error"
_EVENTS: dict[str, ToolsListChanged | ResourcesListChanged | PromptsListChanged] = {
    TOOLS: ToolsListChanged(),
    RESOURCES: ResourcesListChanged(),
    PROMPTS: PromptsListChanged(),
}
_LOG = logging.getLogger("flytui.mcp")

Params = TypeVar("Params")
ResultT = TypeVar("ResultT")


class _Server(Server[dict[str, Any]]):
    """A server that always states that its lists may change. The SDK does not over HTTP."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options of a new session, with `listChanged` set."""
        options = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Sessions:
    """The sessions that get a notification when a list changes."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, ServerSession] = OrderedDict()
        self._missed = frozenset[str]()
        """The lists that changed before the first session."""

    async def add(self, ctx: Any, params: NotificationParams) -> None:
        """Add the session that sent `notifications/initialized`."""
        # The SDK does not report the end of a session. A notification to an ended one has no effect, so the
        # only need is a bound on their number.
        self._open[id(ctx.session)] = ctx.session
        if len(self._open) > MAX_SESSIONS:
            self._open.popitem(last=False)
        if self._missed:
            missed, self._missed = self._missed, frozenset()
            await self.notify(missed)

    async def notify(self, kinds: frozenset[str]) -> None:
        """Send `list_changed` of each of these lists to every session, or later to the first one."""
        self._missed = frozenset() if self._open else self._missed | kinds
        async with anyio.create_task_group() as group:
            for session in tuple(self._open.values()):
                group.start_soon(_notify, session, kinds)


async def _notify(session: ServerSession, kinds: frozenset[str]) -> None:
    with anyio.move_on_after(NOTIFY_SECONDS):
        if TOOLS in kinds:
            await session.send_tool_list_changed()
        if RESOURCES in kinds:
            await session.send_resource_list_changed()
        if PROMPTS in kinds:
            await session.send_prompt_list_changed()


class _Subscriptions(InMemorySubscriptionBus):
    """Reports changes to the clients that subscribed to them; the first one gets those before it as well."""

    # A client may have listed the tools, as a server before this one had them, before it subscribes.

    def __init__(self) -> None:
        super().__init__()
        self._missed: dict[ServerEvent, None] | None = {}
        """The changes before the first client; None once there was one."""

    async def publish(self, event: ServerEvent) -> None:
        """Report the change, or keep it for the first client."""
        if self._missed is not None:
            self._missed[event] = None
        await super().publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a client, and return the function that removes it."""
        missed, self._missed = self._missed, None
        unsubscribe = super().subscribe(listener)
        for event in missed or ():
            listener(event)
        return unsubscribe


def _without_fault_details(
    handler: Callable[[Context, Params], Awaitable[ResultT]],
) -> Callable[[Context, Params], Awaitable[ResultT]]:
    """Return a handler that answers unexpected exceptions with an internal error and logs only their type."""
    # The SDK would send the text of the exception to the client and log it, and it may hold private data.

    async def handle(ctx: Context, params: Params) -> ResultT:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, its text stays in this process
            _LOG.error("an internal error ended a request: %s", _fault_type(fault))
            raise MCPError(INTERNAL_ERROR, INTERNAL_FAULT) from None

    return handle


def _fault_type(fault: BaseException) -> str:
    """Return the type name of the exception, or of the first one inside an exception group."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return type(fault).__name__


def build_server(
    client: Client,
    read_media: ReadMedia,
    person_wait: PersonWait | None = None,
    stored_lists: StoredLists | None = None,
) -> Server[dict[str, Any]]:
    """Return a server whose calls go through `client`. It follows the catalog while it runs.

    Without `person_wait`, calls wait for a person as long as the settings say. `stored_lists` keeps the lists
    for the next server of this root.
    """
    current_tools, sessions, bus = CurrentTools(client, stored_lists), Sessions(), _Subscriptions()
    logs = LogMessages()
    requests = ToolRequests(client, current_tools, read_media, person_wait, logs)
    reads = UpstreamRequests(requests, current_tools, read_media)

    async def changed(kinds: frozenset[str]) -> None:
        for kind in kinds:
            await bus.publish(_EVENTS[kind])
        await sessions.notify(kinds)

    @asynccontextmanager
    async def lifespan(_: Server[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        async with anyio.create_task_group() as group:
            group.start_soon(current_tools.watch, changed)
            yield {}
            group.cancel_scope.cancel()

    server = _Server(
        SERVER_NAME,
        version=flycore.__version__,
        title="flytui",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=_without_fault_details(requests.list_tools),
        on_call_tool=_without_fault_details(requests.call_tool),
        on_list_resources=_without_fault_details(reads.list_resources),
        on_list_resource_templates=_without_fault_details(reads.list_templates),
        on_read_resource=_without_fault_details(reads.read_resource),
        on_list_prompts=_without_fault_details(reads.list_prompts),
        on_get_prompt=_without_fault_details(reads.get_prompt),
        on_completion=_without_fault_details(reads.complete),
        on_subscriptions_listen=ListenHandler(bus, max_subscriptions=MAX_SESSIONS),
    )
    # Not as an argument: the SDK warns of it, because the newest protocol has another way.
    server.add_request_handler(
        "logging/setLevel", SetLevelRequestParams, _without_fault_details(logs.set_level)
    )
    server.add_notification_handler("notifications/initialized", NotificationParams, sessions.add)
    return server
