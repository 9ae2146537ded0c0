"""The Unix socket door: WebSocket `flyflor.ws.v1`, for programs of the same user."""

from __future__ import annotations

import http
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.http11 import Request, Response

from flycore.approval.callers import identify_peer
from flycore.kernel.kernel import Kernel
from flycore.model.errors import UnsafeSocket
from flycore.rpc.messages import MAX_MESSAGE_BYTES
from flycore.server.connection_limits import PingLimitedConnection
from flycore.server.peer_credentials import is_same_user, peer_credentials
from flycore.server.session import Session
from flysafe.atomic import private_folder

UNIX_DOOR = "socket"
"""Also of calls made in the process of a provisional kernel: a ticket of one is found by the other."""
CLOSE_SECONDS = 2.0
"""How long a closing handshake may take before the connection is dropped."""


def _bind(path: Path) -> socket.socket:
    """A listening socket at `path`, 0600. The caller holds the root's lock, so a socket that is there
    already was left by a kernel that is gone. Raises UnsafeSocket where something else is there, OSError
    where the folder cannot be trusted."""
    private_folder(path.parent)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UnsafeSocket(str(path), "it is not a socket")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
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
    """Answer `/health`; refuse other users, browsers and other paths before the upgrade."""
    raw = cast(socket.socket, connection.transport.get_extra_info("socket"))
    if not is_same_user(peer_credentials(raw)[1]):
        return connection.respond(http.HTTPStatus.FORBIDDEN, "another user's socket\n")
    if request.headers.get("Origin") is not None:
        return connection.respond(http.HTTPStatus.FORBIDDEN, "no browser is served here\n")
    if request.path == "/health":
        return connection.respond(http.HTTPStatus.OK, "ok\n")
    if request.path != "/ws":
        return connection.respond(http.HTTPStatus.NOT_FOUND, "GET /ws or GET /health\n")
    return None


@asynccontextmanager
async def serve_unix(kernel: Kernel, path: Path) -> AsyncIterator[None]:
    """Serve the kernel on `path` until the block ends; then the file is removed, the kernel's calls are
    ended, their callers told, and connections closed."""
    sessions: set[Session] = set()

    async def handle(connection: ServerConnection) -> None:
        raw = cast(socket.socket, connection.transport.get_extra_info("socket"))
        pid, _ = peer_credentials(raw)
        session = Session(kernel, connection, identify_peer(pid, UNIX_DOOR), pid)
        sessions.add(session)
        try:
            await session.run()
        finally:
            sessions.remove(session)

    listener = _bind(path)
    server = await unix_serve(
        handle,
        sock=listener,
        create_connection=PingLimitedConnection,
        write_limit=0,  # a message counts as sent when the peer has it, whatever becomes of this process
        process_request=_admit,
        max_size=MAX_MESSAGE_BYTES,
        compression=None,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
    )
    try:
        yield
    finally:
        _unbind(path)
        await kernel.stop()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            for session in tuple(sessions):
                await session.wait_until_answered()
        server.close()
        await server.wait_closed()
