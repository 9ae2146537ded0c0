"""A console beside a kernel that runs already: comes in by the code that a person reads elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import flycore
from flycore.client.approver import SocketApprover
from flycore.client.protocol import Approver, Client, OnProgress
from flycore.client.relay import RelayClient
from flycore.client.socket import SocketClient, connect_socket
from flycore.kernel.pairing import TRIES, VALID_SECONDS
from flycore.model.call import ToolResult
from flycore.model.canonical import JsonObject
from flycore.model.errors import ConnectionLost, NotPaired, OtherVersion, ProtocolError
from flycore.registry.places import Places

NAME = "flytui console"

Code = Callable[[], Awaitable[str]]
"""Gives what the person typed. Called once the code is shown, and again after a wrong one."""


class AttachedClient(RelayClient):
    """The client of a paired console. A console's connection decides and does not call: what its person
    calls goes over a connection of its own."""

    def __init__(self, places: Places, inner: SocketClient) -> None:
        self._places = places
        self._inner = inner

    async def reach(self) -> Client:
        """See RelayClient."""
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
        async with connect_socket(self._places.socket, name=NAME) as calling:
            return await calling.call(
                tool,
                input,
                timeout_ms=timeout_ms,
                said=said,
                inline_wait_ms=inline_wait_ms,
                on_progress=on_progress,
            )


@asynccontextmanager
async def open_attached_console(
    places: Places,
    *,
    code: Code,
    seat: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    told: Callable[[str], None] = lambda why_not: None,
) -> AsyncIterator[tuple[Client, Approver]]:
    """A console of the kernel that runs. `seat` is the console's windows and processes, which no tool may
    touch from then on; `told` is told why a code did not count, before `code` is asked again.

    Raises KernelUnreachable, ConnectionLost, OtherVersion where the kernel is of another version than this
    program, NotPaired where no code is shown, after three wrong ones and after two minutes.
    """
    async with connect_socket(places.socket, viewer=True, name=NAME) as client:
        kernel = client.kernel
        if kernel.version != flycore.__version__:
            raise OtherVersion(f"flytui {flycore.__version__}", f"flytui {kernel.version}", kernel.pid)
        await _pair(client, code, seat, told)
        yield AttachedClient(places, client), SocketApprover(client)


async def _pair(
    client: SocketClient,
    code: Code,
    seat: tuple[tuple[int, ...], tuple[int, ...]],
    told: Callable[[str], None],
) -> None:
    windows, pids = seat
    try:
        await client.ask_for("console.attach", {"windowIds": list(windows), "pids": list(pids)})
    except ProtocolError as error:
        raise NotPaired(error.said) from error
    until = time.monotonic() + VALID_SECONDS
    for left in reversed(range(TRIES)):
        typed = await code()
        if client.ended.is_set():
            raise ConnectionLost("the kernel went away")
        try:
            await client.ask_for("console.pair", {"code": typed[:64]})
        except ProtocolError as error:
            if not left or time.monotonic() >= until:
                raise NotPaired(error.said) from error
            told(error.said)
        else:
            return
