"""A console beside a kernel that runs already: comes in by the code that a person reads elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import flycore
from flycore.client.protocol import Approver, Client, OnProgress
from flycore.client.remote import RemoteApprover, RemoteClient, connect_unix
from flycore.kernel.console_pairing import TRIES, VALID_SECONDS
from flycore.model.call import ToolResult
from flycore.model.errors import ConnectionLost, NotPaired, OtherVersion, ProtocolError
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.proxies import ForwardingClient

CLIENT_NAME = "flytui console"

MAX_CODE_CHARS = 64
WindowsAndPids = tuple[tuple[int, ...], tuple[int, ...]]
"""Window ids and processes of a console."""
ReadCode = Callable[[], Awaitable[str]]
"""Gives what the person typed. Called once the code is shown, and again after a wrong one."""


class AttachedClient(ForwardingClient):
    """The client of a paired console. A console's connection decides and does not call: what its person
    calls goes over a connection of its own."""

    def __init__(self, places: RootPaths, inner: RemoteClient) -> None:
        self._places = places
        self._inner = inner

    async def reach(self) -> Client:
        """Give the connection of the paired console."""
        return self._inner

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """See Client."""
        async with connect_unix(self._places.socket, name=CLIENT_NAME) as calling:
            return await calling.call(
                tool,
                input,
                timeout_ms=timeout_ms,
                said=said,
                inline_wait_ms=inline_wait_ms,
                on_progress=on_progress,
            )


class Attachment:
    """A console's connection to a kernel of another process. `client` shows everything from the start;
    `approver` decides once the code was right, and what it is told before is refused."""

    def __init__(self, places: RootPaths, connection: RemoteClient, seat: WindowsAndPids) -> None:
        self._connection = connection
        self._windows, self._pids = seat
        self.kernel = connection.kernel
        """What the kernel said of itself when it greeted."""
        self.client: Client = AttachedClient(places, connection)
        self.approver: Approver = RemoteApprover(connection)

    async def request_code(self) -> None:
        """Have a fresh code shown where a person sits. Raises NotPaired, which says why none is,
        and ConnectionLost."""
        seat: JsonObject = {"windowIds": list(self._windows), "pids": list(self._pids)}
        await self._send("console.attach", seat)

    async def pair(self, code: str) -> None:
        """Present the code that a person typed. Raises NotPaired, which says why it does not count, and
        ConnectionLost."""
        await self._send("console.pair", {"code": code[:MAX_CODE_CHARS]})

    async def _send(self, kind: str, payload: JsonObject) -> None:
        if self._connection.ended.is_set():
            raise ConnectionLost("the kernel went away")
        try:
            await self._connection.ask_for(kind, payload)
        except ProtocolError as error:
            raise NotPaired(error.said) from error


@asynccontextmanager
async def attach_console(places: RootPaths, seat: WindowsAndPids = ((), ())) -> AsyncIterator[Attachment]:
    """Attach to the kernel that runs, as a viewer until paired. `seat` is the console's windows and
    processes, which no tool may touch once it is.

    Raises KernelUnreachable, and OtherVersion where the kernel is of another version than this program.
    """
    async with connect_unix(places.socket, viewer=True, name=CLIENT_NAME) as connection:
        kernel = connection.kernel
        if kernel.version != flycore.__version__:
            raise OtherVersion(f"flytui {flycore.__version__}", f"flytui {kernel.version}", kernel.pid)
        yield Attachment(places, connection, seat)


@asynccontextmanager
async def open_attached_console(
    places: RootPaths,
    *,
    code: ReadCode,
    seat: WindowsAndPids = ((), ()),
    told: Callable[[str], None] = lambda why_not: None,
) -> AsyncIterator[tuple[Client, Approver]]:
    """A paired console of the kernel that runs; see attach_console. `told` is told why a code did not count,
    before `code` is asked again.

    Raises what attach_console does, ConnectionLost, and NotPaired where no code is shown, after three wrong
    ones and after two minutes.
    """
    async with attach_console(places, seat) as attachment:
        await attachment.request_code()
        await _pair_by_code(attachment, code, told)
        yield attachment.client, attachment.approver


async def _pair_by_code(attachment: Attachment, code: ReadCode, told: Callable[[str], None]) -> None:
    until = time.monotonic() + VALID_SECONDS
    for left in reversed(range(TRIES)):
        typed = await code()
        try:
            await attachment.pair(typed)
        except NotPaired as error:
            if not left or time.monotonic() >= until:
                raise
            told(str(error))
        else:
            return
