"""Connects a console to its kernel: over the connection that its supervisor handed over, or, where another
process holds the root, over the socket with a pairing code that the person types."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

import flycore
from flycore.client.client import KernelClient, OpenLink, keep_client
from flycore.kernel.lock import kernel_socket
from flycore.model.approval import Outcome
from flycore.model.errors import ConnectionLost, KernelUnreachable, NotPaired, OtherVersion, ProtocolError
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths
from flycore.rpc.method_row import Method
from flycore.rpc.methods import Approver, Client
from flycore.rpc.proxies import ApproverProxy

CLIENT_NAME = "flytui console"
CONNECTION_LOST = "the connection to the kernel was lost before it answered"

MAX_CODE_CHARS = 64
WindowsAndPids = tuple[tuple[int, ...], tuple[int, ...]]
"""Window ids and process ids of a console."""
ReadCode = Callable[[], Awaitable[str]]
"""Returns the code that the person typed. Called once the code is shown, and again after a wrong one."""


class ConsoleApprover(ApproverProxy):
    """The approver of a console, which sends each decision over its paired connection.

    A decision has no effect if the connection is lost, and its outcome says so. The kernel learned the
    windows and processes of the console with `console.attach`, and releases them when the connection ends.
    """

    def __init__(self, client: KernelClient) -> None:
        self._client = client

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Send the decision and return its outcome."""
        outcome = await self._outcome(method, arguments)
        return outcome.accepted if method.result is bool else outcome

    async def _outcome(self, method: Method, arguments: tuple[Any, ...]) -> Outcome:
        try:
            payload = await self._client.ask_for(method.message, method.payload_of(arguments))
        except ConnectionLost:
            return Outcome(accepted=False, why_not=CONNECTION_LOST)
        except ProtocolError as error:
            return Outcome(accepted=False, why_not=error.said or str(error))
        return msgspec.convert(payload[method.key], Outcome)


class TerminalApprover(ConsoleApprover):
    """The approver of a command at whose terminal a person decides.

    Before each decision it makes the file that the kernel names, in the state folder of the root.
    """

    def __init__(self, client: KernelClient, places: RootPaths) -> None:
        super().__init__(client)
        self._state_dir = places.state_dir

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Show that this process may write the state folder, and send the decision. Raises OSError."""
        name = str((await self._client.ask_for("terminal.prove"))["file"])
        proof = self._state_dir / os.path.basename(name)
        os.close(os.open(proof, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            return await super().perform(method, arguments)
        finally:
            proof.unlink(missing_ok=True)


class Attachment:
    """The connection of a console to a kernel of another process.

    `client` reads everything from the start. The decisions of `approver` are refused before the pairing.
    """

    def __init__(self, client: KernelClient, windows_and_pids: WindowsAndPids) -> None:
        self._client = client
        self._windows, self._pids = windows_and_pids
        self.client: Client = client
        self.approver: Approver = ConsoleApprover(client)

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
        try:
            await self._client.ask_for(kind, payload)
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
    # websockets and asyncio, for which `flytui --help` would wait.
    from flycore.client.kernel_link import link_to

    opening = partial(link_to, kernel_socket(places), viewer=True, name=CLIENT_NAME)
    async with keep_client(opening, link_for_call=_link_for_call(places)) as client:
        await _check_version(client)
        yield Attachment(client, windows_and_pids)


@asynccontextmanager
async def open_own_console(
    places: RootPaths, handed_over: socket.socket, windows_and_pids: WindowsAndPids = ((), ())
) -> AsyncIterator[tuple[Client, Approver]]:
    """Connect the console to the kernel beside it, and give its client and its approver.

    `handed_over` is the connection from the supervisor, which is closed at the end. Raises KernelUnreachable
    where the kernel ends before it answers, and OtherVersion.
    """
    # websockets and asyncio, for which `flytui --help` would wait.
    from flycore.client.kernel_link import handed_over_link

    opening = partial(handed_over_link, handed_over, places.socket, CLIENT_NAME)
    async with keep_client(opening, link_for_call=_link_for_call(places)) as client:
        await _check_version(client)
        attachment = Attachment(client, windows_and_pids)
        try:
            await attachment.request_code()  # the connection itself is the proof: no code is shown
            await attachment.pair("")
        except ConnectionLost as lost:
            raise KernelUnreachable(str(places.socket)) from lost
        yield attachment.client, attachment.approver


def _link_for_call(places: RootPaths) -> OpenLink:
    # websockets and asyncio, for which `flytui --help` would wait.
    from flycore.client.kernel_link import link_to

    # The lock names the socket at the time of the call.
    return lambda: link_to(kernel_socket(places), viewer=False, name=CLIENT_NAME)


async def _check_version(client: KernelClient) -> None:
    """Raise OtherVersion if the kernel has another version than this program."""
    hello = (await client.link()).hello
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
