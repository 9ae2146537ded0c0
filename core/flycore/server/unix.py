"""The Unix socket server: WebSocket `flyflor.ws.v1`, for programs of the same user and the paired console.

The operating system tells the credentials of the process at the other end. The paired console has no name to
connect to: its supervisor hands the connection over as a descriptor.
"""

from __future__ import annotations

import asyncio
import http
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.http11 import Request, Response

from flycore.approval.callers import is_own_command as is_flytui_command
from flycore.kernel.kernel import Kernel
from flycore.model.caller import Caller
from flycore.model.errors import UnsafeSocket
from flycore.rpc.messages import MAX_MESSAGE_BYTES
from flycore.server.bounded_listener import ACCEPTED_AT_ONCE, BoundedListener
from flycore.server.connection_limits import RESERVED, PingLimitedConnection, ProcessLimits
from flycore.server.handed_over import ConsoleListener, HandedOver
from flycore.server.loopback import silence_logger
from flycore.server.session import Session
from flysafe.atomic import private_folder
from flysafe.procfs import command_line, executable_of
from flysafe.unix_sockets import is_same_user, peer_credentials

UNIX_DOOR = "socket"
"""`Caller.door` of clients over the socket."""
CONSOLE_DOOR = "console"
"""`Caller.door` of the console that the kernel's supervisor started."""
UPGRADE_SECONDS = 10.0
"""How long a connection may take to become a WebSocket, as long as a client waits for it."""
CLOSE_SECONDS = 2.0
"""How long a closing handshake may take before the connection is dropped."""


def _bind(path: Path, most: int, is_own_command: Callable[[int], bool]) -> BoundedListener:
    """Return a listening socket at `path` with mode 0600. `is_own_command` says whether a process is a
    command of the person, for which the listener keeps a reserve of descriptors.

    Raises UnsafeSocket where `path` is something other than a socket, and OSError where others may write to
    its folder.
    """
    private_folder(path.parent)
    # The caller holds the lock of the root, so a socket at this path was left by a kernel that ended.
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UnsafeSocket(str(path), "it is not a socket")
        path.unlink()
    listener = BoundedListener(
        socket.AF_UNIX,
        most,
        reserve=RESERVED,
        may_use_reserve=lambda accepted: is_own_command(peer_credentials(accepted)[0]),
    )
    # The mode must be right from the first moment; a chmod after `bind` would leave a gap.
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def _unbind(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _admit(connection: ServerConnection, request: Request) -> Response | None:
    """Answer `/health`; refuse other users, browsers and other paths before the upgrade to WebSocket."""
    raw = cast(socket.socket, connection.transport.get_extra_info("socket"))
    if not is_same_user(peer_credentials(raw)[1]):
        return connection.respond(http.HTTPStatus.FORBIDDEN, "this socket belongs to another user\n")
    if request.headers.get("Origin") is not None:
        return connection.respond(http.HTTPStatus.FORBIDDEN, "browsers are not served\n")
    if request.path == "/health":
        return connection.respond(http.HTTPStatus.OK, "ok\n")
    if request.path != "/ws":
        return connection.respond(http.HTTPStatus.NOT_FOUND, "GET /ws or GET /health\n")
    return None


class CountedConnection(PingLimitedConnection):
    """A connection that counts towards the limits from its first moment."""

    def __init__(self, limits: ProcessLimits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, with the process at its other end."""
        super().connection_made(transport)
        if isinstance(transport.get_extra_info("peername"), HandedOver):
            return  # the person's own console never has to give way
        raw = cast(socket.socket, transport.get_extra_info("socket"))
        self._limits.opened(self, peer_credentials(raw)[0], self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it out."""
        self._limits.closed(self)
        super().connection_lost(exc)


@asynccontextmanager
async def serve_unix(
    kernel: Kernel, path: Path, consoles: ConsoleListener | None = None
) -> AsyncIterator[None]:
    """Serve the kernel on the socket `path`, and the consoles that come through `consoles`, until the block
    ends.

    Then the socket is removed, the kernel's calls are ended, their results sent and the connections closed.
    """
    sessions: set[Session] = set()

    def is_own_command(pid: int) -> bool:
        # A tool may start the same command, and its crowd must not take the person's places.
        name = os.path.basename(executable_of(pid))
        named = is_flytui_command(name, command_line(pid))
        return named and not kernel.identify_peer(pid, UNIX_DOOR).is_sidecar

    limits = ProcessLimits(is_own_command=is_own_command)

    async def handle(connection: ServerConnection) -> None:
        session = _session(kernel, connection)
        sessions.add(session)
        try:
            await session.run()
        finally:
            sessions.remove(session)

    options: dict[str, Any] = {
        "backlog": ACCEPTED_AT_ONCE,
        "create_connection": partial(CountedConnection, limits),
        "open_timeout": UPGRADE_SECONDS,
        "logger": silence_logger("flytui.unix"),
        # With no write buffer of its own, `send` returns only after the operating system took the message:
        # what was sent arrives even where this process is killed next.
        "write_limit": 0,
        "process_request": _admit,
        "max_size": MAX_MESSAGE_BYTES,
        "compression": None,
        "close_timeout": CLOSE_SECONDS,
        "ping_interval": None,
    }
    # Some more than the limit, so that who loses a connection is decided by the limits, not by the socket.
    listening = _bind(path, limits.most + RESERVED + ACCEPTED_AT_ONCE, is_own_command)
    listeners = [listening, *([consoles] if consoles is not None else [])]
    async with AsyncExitStack() as servers:
        for listener in listeners:
            server = await unix_serve(handle, sock=listener, **options)
            servers.push_async_callback(server.wait_closed)
            servers.callback(server.close)
        try:
            yield
        finally:
            _unbind(path)  # first, so that no client connects to a kernel that is stopping
            await kernel.stop()
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                for session in tuple(sessions):
                    await session.wait_until_answered()


def _session(kernel: Kernel, connection: ServerConnection) -> Session:
    """Return the session of a connection, whose peer the operating system or the supervisor identified."""
    console = connection.transport.get_extra_info("peername")
    # A peer on the socket file cannot have such an address: its own is a text.
    if isinstance(console, HandedOver):
        caller = own_console(console.pid)
        return Session(kernel, connection, caller, console.pid, handed_over=True)
    pid, _ = peer_credentials(cast(socket.socket, connection.transport.get_extra_info("socket")))
    # The connection of a console that decides cannot call, so its test calls come over the socket file.
    caller = own_console(pid) if pid == kernel.pairing.own_pid else kernel.identify_peer(pid, UNIX_DOOR)
    return Session(kernel, connection, caller, pid)


def own_console(pid: int) -> Caller:
    """Return the console that the kernel's supervisor started, as a caller."""
    return Caller(door=CONSOLE_DOOR, program="flytui", pid=pid)
