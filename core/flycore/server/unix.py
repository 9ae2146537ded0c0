"""The Unix socket server: WebSocket `flyflor.ws.v1`, for programs of the same user.

The operating system tells the credentials of the process at the other end.
"""

from __future__ import annotations

import http
import os
import socket
import stat
import struct
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
from flycore.server.session import Session
from flysafe.atomic import private_folder

_UCRED = struct.Struct("3i")


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the peer at the time when it connected, from SO_PEERCRED."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_same_user(uid: int) -> bool:
    """Return whether this process runs as that user."""
    return uid == os.getuid()


UNIX_DOOR = "socket"
"""`Caller.door` of clients over the socket, and of calls that the process of a provisional kernel makes
itself: so a program gets the same tickets both ways."""
CLOSE_SECONDS = 2.0
"""How long a closing handshake may take before the connection is dropped."""


def _bind(path: Path) -> socket.socket:
    """Return a listening socket at `path` with mode 0600.

    Raises UnsafeSocket where `path` is something other than a socket, and OSError where others may write to
    its folder.
    """
    private_folder(path.parent)
    # The caller holds the lock of the root, so a socket at this path was left by a kernel that ended.
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UnsafeSocket(str(path), "it is not a socket")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
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


@asynccontextmanager
async def serve_unix(kernel: Kernel, path: Path) -> AsyncIterator[None]:
    """Serve the kernel on the socket `path` until the block ends.

    Then the socket is removed, the kernel's calls are ended, their results sent and the connections closed.
    """
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
        # With no write buffer of its own, `send` returns only after the operating system took the message:
        # what was sent arrives even where this process is killed next.
        write_limit=0,
        process_request=_admit,
        max_size=MAX_MESSAGE_BYTES,
        compression=None,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
    )
    try:
        yield
    finally:
        _unbind(path)  # first, so that no client connects to a kernel that is stopping
        await kernel.stop()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            for session in tuple(sessions):
                await session.wait_until_answered()
        server.close()
        await server.wait_closed()
