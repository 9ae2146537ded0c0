"""Connects a console to its kernel: over the connection that its supervisor handed over, or, where another
process holds the root, over the socket with a pairing code that the person types."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import flycore
from flycore.client.remote import RemoteApprover, RemoteClient, connect_handed_over, connect_root
from flycore.model.call import ToolResult
from flycore.model.errors import ConnectionLost, KernelUnreachable, NotPaired, OtherVersion, ProtocolError
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Approver, Client, OnProgress
from flycore.rpc.proxies import ForwardingClient

CLIENT_NAME = "flytui console"

MAX_CODE_CHARS = 64
WindowsAndPids = tuple[tuple[int, ...], tuple[int, ...]]
"""Window ids and process ids of a console."""
ReadCode = Callable[[], Awaitable[str]]
"""Returns the code that the person typed. Called once the code is shown, and again after a wrong one."""


class AttachedClient(ForwardingClient):
    """The client of a console.

    The connection of a console can decide and cannot call tools, so each call has a connection of its own.
    """

    def __init__(self, places: RootPaths, inner: RemoteClient) -> None:
        self._places = places
        self._inner = inner

    async def reach(self) -> Client:
        """Return the connection of the console."""
        return self._inner

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        observe: bool = False,
        samples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool over a new connection."""
        async with connect_root(self._places, name=CLIENT_NAME) as connection:
            return await connection.call(
                tool,
                input,
                timeout_ms=timeout_ms,
                purpose=purpose,
                inline_wait_ms=inline_wait_ms,
                observe=observe,
                samples=samples,
                on_progress=on_progress,
            )


class Attachment:
    """The connection of a console to a kernel of another process.

    `client` reads everything from the start. The decisions of `approver` are refused before the pairing.
    """

    def __init__(self, places: RootPaths, connection: RemoteClient, windows_and_pids: WindowsAndPids) -> None:
        self._connection = connection
        self._windows, self._pids = windows_and_pids
        self.client: Client = AttachedClient(places, connection)
        self.approver: Approver = RemoteApprover(connection)

    async def request_code(self) -> None:
        """Let the consoles that already decide show a new code.

        Raises ConnectionLost, and NotPaired with the reason where no code is shown.
        """
        seat: JsonObject = {"windowIds": list(self._windows), "pids": list(self._pids)}
        await self._send("console.attach", seat)

    async def pair(self, code: str) -> None:
        """Present the code that a person typed.

        Raises ConnectionLost, and NotPaired with the reason where the code is not accepted.
        """
        await self._send("console.pair", {"code": code[:MAX_CODE_CHARS]})

    async def _send(self, kind: str, payload: JsonObject) -> None:
        if self._connection.ended.is_set():
            raise ConnectionLost("the kernel went away")
        try:
            await self._connection.ask_for(kind, payload)
        except ProtocolError as error:
            raise NotPaired(error.said) from error


@asynccontextmanager
async def attach_console(
    places: RootPaths, windows_and_pids: WindowsAndPids = ((), ())
) -> AsyncIterator[Attachment]:
    """Attach to the running kernel, as a viewer until the console is paired.

    `seat` holds the windows and processes of the console, which no tool may touch after the pairing. Raises
    KernelUnreachable, and OtherVersion where the kernel has another version than this program.
    """
    async with connect_root(places, viewer=True, name=CLIENT_NAME) as connection:
        _check_version(connection)
        yield Attachment(places, connection, windows_and_pids)


@asynccontextmanager
async def open_own_console(
    places: RootPaths, handed_over: socket.socket, windows_and_pids: WindowsAndPids = ((), ())
) -> AsyncIterator[tuple[Client, Approver]]:
    """Connect the console to the kernel beside it, and give its client and its approver.

    `handed_over` is the connection from the supervisor, which is closed at the end. Raises KernelUnreachable
    where the kernel ends before it answers, and OtherVersion.
    """
    async with connect_handed_over(handed_over, places.socket, CLIENT_NAME) as connection:
        _check_version(connection)
        attachment = Attachment(places, connection, windows_and_pids)
        try:
            await attachment.request_code()  # the connection itself is the proof: no code is shown
            await attachment.pair("")
        except ConnectionLost as lost:
            raise KernelUnreachable(str(places.socket)) from lost
        yield attachment.client, attachment.approver


def _check_version(connection: RemoteClient) -> None:
    hello = connection.hello
    if hello.version != flycore.__version__:
        raise OtherVersion(f"flytui {flycore.__version__}", f"flytui {hello.version}", hello.pid)


@asynccontextmanager
async def open_attached_console(
    places: RootPaths,
    *,
    code: ReadCode,
    windows_and_pids: WindowsAndPids = ((), ()),
    on_refused_code: Callable[[str], None] = lambda why_not: None,
) -> AsyncIterator[tuple[Client, Approver]]:
    """Attach to the running kernel, pair the console, and give its client and its approver.

    `code` returns the code that the person types. `told` is called with the reason why a code was not
    accepted, before `code` is called again. Raises what `attach_console` raises, ConnectionLost, and
    NotPaired where no code is shown, after three wrong codes, and after two minutes.
    """
    async with attach_console(places, windows_and_pids) as attachment:
        await attachment.request_code()
        await _pair_by_code(attachment, code, on_refused_code)
        yield attachment.client, attachment.approver


async def _pair_by_code(
    attachment: Attachment, code: ReadCode, on_refused_code: Callable[[str], None]
) -> None:
    # Imported here: a console needs neither the pairing nor the other parts of a kernel.
    from flycore.kernel.console_pairing import TRIES, VALID_SECONDS

    until = time.monotonic() + VALID_SECONDS
    for left in reversed(range(TRIES)):
        typed = await code()
        try:
            await attachment.pair(typed)
        except NotPaired as error:
            if not left or time.monotonic() >= until:
                raise
            on_refused_code(str(error))
        else:
            return
