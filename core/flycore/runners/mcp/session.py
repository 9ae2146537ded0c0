"""The session with one MCP server: connects, reconnects with back-off, lists the server's tools, calls them.

Whatever the server does ends its session, never the kernel. A server that asks for the roots of its client
gets the project's folder and nothing else. What else it asks during a call goes to a person, and what it asks
of a model then to the client whose call it is (`input_requests.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.to_thread
import msgspec

from flycore.model.enums import Code, Level, Status
from flycore.model.upstream import McpToolList
from flycore.runners.mcp.call import CALL_NOT_CANCELLED, McpCall, call_tool, crash_outcome
from flycore.runners.mcp.connection_state import ITSELF, ConnectionState, connection_loss, server_label
from flycore.runners.mcp.input_requests import AskPerson, InputRequests, nobody
from flycore.runners.mcp.lists import list_offers
from flycore.runners.mcp.sampling import HandOn
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ClientRequestContext, IncomingMessage
    from mcp_types import ListRootsResult

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
"""The pause before a lost server is started again: each loss doubles it up to this, until a connection lasts
as long."""
CONNECT_S = 60.0
"""The time from the server's start to its tool list. Its program may fetch a package in this time."""
WAIT_S = 15.0
"""How long a call waits for a server that is not connected."""
RELIST_S = 300.0
"""How often the tools are listed again without a notification."""
LISTEN_PAUSE_S = 30.0
"""The pause before a lost stream of notifications is opened again."""
RELIST_PAUSE_S = 1.0
"""The pause between two notifications that are followed by a new list."""
AT_ONCE = 8
"""How many calls at once go to one server. Answers are told apart by their ids; a tool that must be alone has
an exclusive group."""
LOG_LEVEL: Literal["info"] = "info"
"""From which level on a server's log messages are handed on."""
LEVEL_S = 10.0
"""How long a server may take to answer that it knows the level."""
_SILENT = logging.NullHandler()


class Started(msgspec.Struct, frozen=True):
    """A transport to the server, with the digest of the program that runs there, and its level of the
    sandbox."""

    link: McpTransport
    program: str
    level: Level

    def is_for(self, asked: McpCall) -> bool:
        """Whether the call was approved for this program at this level."""
        return (self.program, self.level) == (asked.program, asked.level)


Start = Callable[[], Awaitable[Started]]
"""Makes the transport. Raises StartError."""


class McpSession:
    """The session with one server. `run` keeps it connected until it is cancelled, and leaves nothing
    running. `on_state` is called with each new state of the connection. `app_root` is the project's
    folder."""

    def __init__(
        self,
        start: Start,
        on_state: Callable[[ConnectionState], None],
        app_root: Path,
        ask_person: AskPerson = nobody,
        connect_s: float = CONNECT_S,
        hand_on: HandOn | None = None,
    ) -> None:
        """`hand_on` is None where the server may not ask for a model's answer; then it is not told of any."""
        self._start, self._on_state, self._connect_s = start, on_state, connect_s
        self._app_root = app_root
        self._asked = InputRequests(ask_person, hand_on)
        self._client: Client | None = None
        self._started: Started | None = None
        self._listing: McpToolList | None = None
        self._relist, self._retry = anyio.Event(), anyio.Event()
        self._connected = anyio.Event()
        self._lost = anyio.Event()
        """Set when the present connection, or the attempt to make one, has ended."""
        self.settled = anyio.Event()
        """Set once the first attempt to connect has succeeded or failed."""
        self._places: anyio.Semaphore | None = None
        self._again = False
        self._announced = self._included = 0
        """How many changes the server has announced, and how many of them the present list includes."""
        self._listed = anyio.Event()
        """Set when the next list has arrived."""
        self._calls = 0

    async def run(self) -> None:
        """Keep the server connected, until cancelled."""
        pause = FIRST_PAUSE_S
        while True:
            self._retry = anyio.Event()
            begun = time.monotonic()
            contact = await self._once()
            was_well = self._client is not None
            ours, self._again = self._again or self._cancelled(), False
            self._on_lost()
            if time.monotonic() - begun >= LONGEST_PAUSE_S:
                pause = FIRST_PAUSE_S
            # We ended the server ourselves, for a call that it did not give back or for a changed program:
            # that is no fault of the connection and needs no pause.
            if was_well and ours:
                continue
            # A server that is lost once is connected again before a person needs to know.
            if not was_well or pause > FIRST_PAUSE_S:
                self._on_state(contact)
            self.settled.set()
            with anyio.move_on_after(pause):
                await self._retry.wait()
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _cancelled(self) -> bool:
        """Whether the server was ended because it did not end a cancelled call."""
        return self._started is not None and self._started.link.fault == CALL_NOT_CANCELLED

    def retry(self) -> None:
        """Connect now where there is no connection; else list the tools again. A server that still works on
        cancelled calls is restarted: it may block the others."""
        if self._started is not None and self._started.link.left_alone:
            self._started.link.abort(CALL_NOT_CANCELLED)
        self._retry.set()
        self._relist.set()

    @asynccontextmanager
    async def hold(self, on_wait: Callable[[str], None]) -> AsyncIterator[None]:
        """Hold a place for one call while the block runs. `on_wait` is called with the reason before any
        waiting."""
        if self._client is None:
            on_wait("waiting: the server is being connected")
            with anyio.move_on_after(WAIT_S):
                await self._connected.wait()
        places = self._places or anyio.Semaphore(1)
        if places.value == 0:
            on_wait("waiting: the server serves other calls")
        async with places:
            yield

    async def call(self, job: ProcessJsonJob, asked: McpCall, on_event: OnEvent | None) -> RunOutcome:
        """Run the call; every end is an outcome. `call_tool` says what a cancellation does."""
        # The approval is for the program as it is now: a server that runs an older one, or at another level,
        # is ended, and `run` starts the present one.
        if self._started is not None and not self._started.is_for(asked):
            self._again = True
            lost = self._lost
            self._started.link.abort("was another program")
            # The transport is closed a moment before the session knows it, and would be used once more.
            with anyio.move_on_after(WAIT_S):
                await lost.wait()
        if self._client is None:
            with anyio.move_on_after(min(WAIT_S, job.timeout_ms / 1000)):
                await self._connected.wait()
        if not await self._is_current(job.timeout_ms / 1000):
            return _changed("the server announced that its tools changed, and did not list them in time")
        # From here to the request nothing is waited for, so the definition that is compared is the one that
        # is used.
        client, started, listing = self._client, self._started, self._listing
        if client is None or started is None or listing is None:
            return crash_outcome("is not connected", None)
        definition = next((tool for tool in listing.tools if tool.name == asked.tool), None)
        if not started.is_for(asked) or definition is None or definition.digest() != asked.definition:
            return _changed("the server describes the tool differently now, and nobody has approved that")
        self._calls += 1
        try:
            return await call_tool(
                client, started.link, job, asked, definition.request, on_event, self._asked
            )
        finally:
            self._calls -= 1
            if started.link.in_doubt:
                started.link.in_doubt = False
                self._relist.set()

    async def _is_current(self, longest_s: float) -> bool:
        """Whether the present list includes every change that the server has announced until now; waits for
        it, for a bounded time."""
        announced = self._announced
        with anyio.move_on_after(min(WAIT_S, longest_s)):
            while self._client is not None and self._included < announced:
                await self._listed.wait()
        return self._included >= announced

    async def _once(self) -> ConnectionState:
        """Connect, stay connected for as long as possible, and return why the connection was lost."""
        link: McpTransport | None = None
        try:
            started = await self._start()
            link = started.link
            await self._serve(started)
        except Exception as fault:  # noqa: BLE001 - no server may end more than its session
            return connection_loss(link, fault, self._connect_s)
        return connection_loss(link, None, self._connect_s)

    async def _serve(self, started: Started) -> None:
        # In a worker thread: on the event loop it would hold up every caller for a second.
        await anyio.to_thread.run_sync(import_sdk)
        from mcp import Client
        from mcp_types import Implementation

        import flycore

        # A logger without a handler writes warnings to stderr, which may be the terminal of a console.
        for name in ("mcp", "client"):
            logging.getLogger(name).addHandler(_SILENT)
        link, begun = started.link, time.monotonic()
        client = Client(
            link.transport(),
            cache=None,
            message_handler=self._on_message,
            list_roots_callback=self._list_roots,
            elicitation_callback=self._asked.elicit,
            sampling_callback=self._asked.sampler,
            logging_callback=self._asked.log,
            log_level=LOG_LEVEL,
            client_info=Implementation(name=ITSELF, version=flycore.__version__),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_ended, link, group.cancel_scope)
            with anyio.fail_after(self._connect_s) as connecting:
                async with client, anyio.create_task_group() as inner:
                    server = server_label(client)
                    # Counted before the list is requested: a change that is announced meanwhile may be
                    # missing in it, and has to be followed by another list.
                    self._relist = anyio.Event()
                    announced = self._announced
                    inner.start_soon(self._listen, client)
                    inner.start_soon(_choose_level, client)
                    listing = await list_offers(client)
                    connecting.deadline = float("inf")
                    self._begin(client, started)
                    while True:
                        self._included = announced
                        self._note(listing, server, round((time.monotonic() - begun) * 1000))
                        announced, listing = await self._next_listing(client)

    async def _next_listing(self, client: Client) -> tuple[int, McpToolList]:
        """The next list of tools, with the number of changes that were announced before it was requested."""
        while True:
            with anyio.move_on_after(RELIST_S):
                await self._relist.wait()
            # A server may announce changes without end: at most one list in each second.
            await anyio.sleep(RELIST_PAUSE_S)
            self._relist = anyio.Event()
            announced, calls = self._announced, self._calls
            with anyio.move_on_after(self._connect_s):
                return announced, await list_offers(client)
            # A server that is busy with a call may leave the request unanswered; an idle one is broken.
            left = self._started.link.left_alone if self._started is not None else 0
            if not calls and not self._calls and not left:
                raise TimeoutError
            self._relist.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the lists, for servers of the newer protocol. Those of the older one
        send notifications without a subscription."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        said = client.server_capabilities
        tools = said.tools is not None and said.tools.list_changed is True
        prompts = said.prompts is not None and said.prompts.list_changed is True
        resources = said.resources is not None and said.resources.list_changed is True
        while tools or prompts or resources:
            try:
                listen = client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                )
                async with listen as changes:
                    async for _ in changes:
                        self._change()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost):
                pass
            await anyio.sleep(LISTEN_PAUSE_S)
            self._relist.set()

    async def _list_roots(self, context: ClientRequestContext) -> ListRootsResult:
        from mcp_types import ListRootsResult, Root

        return ListRootsResult.model_validate(
            {"roots": [Root.model_validate({"uri": self._app_root.as_uri()})]}
        )

    async def _on_message(self, message: IncomingMessage) -> None:
        from mcp_types import (
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ToolListChangedNotification,
        )

        if isinstance(message, ToolListChangedNotification):
            self._change()
        elif isinstance(message, PromptListChangedNotification | ResourceListChangedNotification):
            # No call has to wait for these lists, since no approval is bound to them.
            self._relist.set()

    def _change(self) -> None:
        self._announced += 1
        self._relist.set()

    def _begin(self, client: Client, started: Started) -> None:
        self._client, self._started = client, started
        self._places = anyio.Semaphore(AT_ONCE)

    def _note(self, listing: McpToolList, server: str, took_ms: int) -> None:
        self._listing = listing
        self._listed.set()
        self._listed = anyio.Event()
        self._on_state(ConnectionState(listing=listing, server=server, took_ms=took_ms))
        self._connected.set()
        self.settled.set()

    def _on_lost(self) -> None:
        self._client = self._started = self._listing = None
        self._lost.set()
        self._lost = anyio.Event()
        self._connected = anyio.Event()
        self._listed.set()
        self._listed = anyio.Event()


def _changed(message: str) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=message,
        hint="look at the change first (flytui trust, or T in the console), then call again",
        details={"code": "definition-changed"},
    )


async def _choose_level(client: Client) -> None:
    """Tell a server of the older protocol from which level on its log messages are wanted."""
    from mcp import MCPError
    from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

    if client.server_capabilities.logging is None:
        return
    request = SetLevelRequest(params=SetLevelRequestParams(level=LOG_LEVEL))
    # One that does not take it sends what it sends; no call depends on it.
    with suppress(MCPError, ValueError), anyio.move_on_after(LEVEL_S):
        await client.session.send_request(request, EmptyResult)


async def _leave_when_ended(link: McpTransport, scope: anyio.CancelScope) -> None:
    await link.ended.wait()
    scope.cancel()


def import_sdk() -> None:
    """Import what a session uses of the MCP SDK."""
    for name in ("mcp.client.streamable_http", "mcp_types.jsonrpc"):
        import_module(name)
