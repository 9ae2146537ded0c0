"""One MCP server, kept: connected again with back-off when it goes, asked for its tools, called.

Whatever the server does ends its session, never the kernel. What it asks of us (sampling, elicitation,
roots) is refused: a client that answers for the person is not the person.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from flycore.model.enums import Code, Status
from flycore.model.upstream import McpToolList
from flycore.runners.mcp.call import CALL_NOT_CANCELLED, McpCall, call_tool, crash_outcome
from flycore.runners.mcp.connection_state import ITSELF, ConnectionState, connection_loss, server_label
from flycore.runners.mcp.tools import list_tools
from flycore.runners.mcp.transport import McpTransport
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import IncomingMessage

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
"""Before a server that went is started again; twice as long each time, until it was well for as long."""
CONNECT_S = 60.0
"""From its start to its list of tools; fetching a package may be part of it."""
WAIT_S = 15.0
"""How long a call waits for a server that is not connected."""
RELIST_S = 300.0
"""Between two looks at its tools, whether it says that they changed or not."""
LISTEN_PAUSE_S = 30.0
"""Before a lost stream of changes is asked for again."""
RELIST_PAUSE_S = 1.0
"""Between two looks that it asked for."""
AT_ONCE = 8
"""Calls at once to a server whose calls end one by one."""
_SILENT = logging.NullHandler()


@dataclass(frozen=True, slots=True)
class Started:
    """A way to the server, and what would run on it: a digest."""

    link: McpTransport
    program: str


Start = Callable[[], Awaitable[Started]]
"""Raises StartError."""


class McpSession:
    """Kept by `run` until that is cancelled; then nothing of it is left. `told` hears each change."""

    def __init__(
        self, start: Start, told: Callable[[ConnectionState], None], connect_s: float = CONNECT_S
    ) -> None:
        self._start, self._told, self._connect_s = start, told, connect_s
        self._client: Client | None = None
        self._started: Started | None = None
        self._listing: McpToolList | None = None
        self._relist, self._retry = anyio.Event(), anyio.Event()
        self._connected = anyio.Event()
        self.settled = anyio.Event()
        """It was connected once, or could not be."""
        self._places: anyio.Semaphore | None = None
        self._again = False
        self._announced = self._looked = 0
        """How many changes it told of, and how many of them the last look came after."""
        self._noted = anyio.Event()
        """Of the next look."""
        self._calls = 0

    async def run(self) -> None:
        """Keep it connected."""
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
            if was_well and ours:
                continue
            if not was_well or pause > FIRST_PAUSE_S:
                self._told(contact)  # one that went once is back before anybody needs to know
            self.settled.set()
            with anyio.move_on_after(pause):
                await self._retry.wait()
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _cancelled(self) -> bool:
        """Whether the server was ended because of a call that it did not give back."""
        return self._started is not None and self._started.link.fault == CALL_NOT_CANCELLED

    def retry(self) -> None:
        """Connect now where it is not connected, else look at its tools again."""
        self._retry.set()
        self._relist.set()

    @asynccontextmanager
    async def hold(self, waits: Callable[[str], None]) -> AsyncIterator[None]:
        """Have a place for one call. `waits` is told, before, that this takes waiting, where it does."""
        if self._client is None:
            waits("waiting: the server is being connected")
            with anyio.move_on_after(WAIT_S):
                await self._connected.wait()
        places = self._places or anyio.Semaphore(1)
        if places.value == 0:
            waits("waiting: the server answers another call")
        async with places:
            yield

    async def call(self, job: ProcessJsonJob, asked: McpCall, tell: OnEvent | None) -> RunOutcome:
        """Run the call; every end is an outcome. A program that is another than the one that runs is started
        first. Cancelling tells the server, and where it does not come back, its process is ended."""
        if self._started is not None and self._started.program != asked.program:
            self._again = True
            self._started.link.abort("was another program")
            await self._started.link.closed.wait()
        if self._client is None:
            with anyio.move_on_after(min(WAIT_S, job.timeout_ms / 1000)):
                await self._connected.wait()
        if not await self._is_current(job.timeout_ms / 1000):
            return _changed("the server says that its tools are others, and does not say which")
        client, started, listing = self._client, self._started, self._listing
        if client is None or started is None or listing is None:
            return crash_outcome("is not connected", None)
        definition = next((tool for tool in listing.tools if tool.name == asked.tool), None)
        if started.program != asked.program or definition is None or definition.digest() != asked.definition:
            return _changed("the server describes the tool otherwise by now, and nobody has approved that")
        self._calls += 1
        try:
            return await call_tool(client, started.link, job, asked, tell)
        finally:
            self._calls -= 1
            if started.link.in_doubt:
                started.link.in_doubt = False
                self._relist.set()

    async def _is_current(self, longest_s: float) -> bool:
        """Whether its tools were looked at after each change that it has told of so far; waits for it."""
        told = self._announced
        with anyio.move_on_after(min(WAIT_S, longest_s)):
            while self._client is not None and self._looked < told:
                await self._noted.wait()
        return self._looked >= told

    async def _once(self) -> ConnectionState:
        """Connect, and stay for as long as it goes; why it went."""
        link: McpTransport | None = None
        try:
            started = await self._start()
            link = started.link
            await self._serve(started)
        except Exception as fault:  # noqa: BLE001 - whatever a server makes the SDK raise ends its session only
            return connection_loss(link, fault, self._connect_s)
        return connection_loss(link, None, self._connect_s)

    async def _serve(self, started: Started) -> None:
        from mcp import Client
        from mcp_types import Implementation

        import flycore

        for name in ("mcp", "client"):  # what the SDK logs would be written over the console
            logging.getLogger(name).addHandler(_SILENT)
        link, begun = started.link, time.monotonic()
        client = Client(
            link.transport(),
            cache=None,
            message_handler=self._on_message,
            client_info=Implementation(name=ITSELF, version=flycore.__version__),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_ended, link, group.cancel_scope)
            with anyio.fail_after(self._connect_s) as connecting:
                async with client, anyio.create_task_group() as inner:
                    server = server_label(client)
                    self._relist = anyio.Event()
                    told = self._announced
                    inner.start_soon(self._listen, client)
                    listing = await list_tools(client.session)
                    connecting.deadline = float("inf")
                    self._begin(client, started)
                    while True:
                        self._looked = told
                        self._note(listing, server, round((time.monotonic() - begun) * 1000))
                        told, listing = await self._next_listing(client)

    async def _next_listing(self, client: Client) -> tuple[int, McpToolList]:
        """How many changes were told of before it was asked for, and the next list. A server that is busy
        with a call may leave it unanswered; it is asked again then."""
        while True:
            with anyio.move_on_after(RELIST_S):
                await self._relist.wait()
            await anyio.sleep(RELIST_PAUSE_S)
            self._relist = anyio.Event()
            told, calls = self._announced, self._calls
            with anyio.move_on_after(self._connect_s):
                return told, await list_tools(client.session)
            if not calls and not self._calls:
                raise TimeoutError
            self._relist.set()

    async def _listen(self, client: Client) -> None:
        """Hear of changes from servers of the newer protocol; the older one says so unasked."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._change()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost):
                pass
            await anyio.sleep(LISTEN_PAUSE_S)
            self._relist.set()

    async def _on_message(self, message: IncomingMessage) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._change()

    def _change(self) -> None:
        self._announced += 1
        self._relist.set()

    def _begin(self, client: Client, started: Started) -> None:
        self._client, self._started = client, started
        self._places = anyio.Semaphore(1 if started.link.stays_alone else AT_ONCE)

    def _note(self, listing: McpToolList, server: str, took_ms: int) -> None:
        self._listing = listing
        self._noted.set()
        self._noted = anyio.Event()
        self._told(ConnectionState(listing=listing, server=server, took_ms=took_ms))
        self._connected.set()
        self.settled.set()

    def _on_lost(self) -> None:
        self._client = self._started = self._listing = None
        self._connected = anyio.Event()
        self._noted.set()
        self._noted = anyio.Event()


def _changed(message: str) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.FAILED,
        message=message,
        hint="call again once the change was looked at: flytui trust, or T in the console",
        details={"code": "definition-changed"},
    )


async def _leave_when_ended(link: McpTransport, scope: anyio.CancelScope) -> None:
    await link.ended.wait()
    scope.cancel()
