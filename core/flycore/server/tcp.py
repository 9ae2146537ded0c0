"""The TCP server: WebSocket `flyflor.ws.v1` on loopback, for clients that present a token."""

from __future__ import annotations

import asyncio
import http
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from flycore.kernel.kernel import Kernel
from flycore.server.admission import HEALTH, UNKNOWN_TOKEN, Headers, Refusal, bearer, query_token, refusal
from flycore.server.bounded_listener import ACCEPTED_AT_ONCE
from flycore.server.connection_limits import HANDSHAKE_SECONDS, ConnectionLimits, PingLimitedConnection
from flycore.server.loopback import LOOPBACK, bind_loopback, silence_logger, watch_tokens
from flycore.server.session import Session
from flycore.server.tokens import TCP_DOOR, Token, TokenStore

TCP_PORT = 8787
WS_PATH = "/ws"
MAX_TCP_MESSAGE_BYTES = 1024 * 1024
"""Largest message that a client over TCP may send; less than over the Unix socket."""
CLOSE_SECONDS = 2.0
"""How long a closing handshake may take before the connection is dropped."""
REVOKED_CLOSE_CODE = 4401
"""Close code of a connection whose token was revoked."""


class _TcpServer:
    """Admits connections by their tokens and runs their sessions."""

    def __init__(
        self, kernel: Kernel, tokens: TokenStore, limits: ConnectionLimits, port: int, group: TaskGroup
    ) -> None:
        self._kernel, self._tokens, self._limits, self._port = kernel, tokens, limits, port
        self._group = group
        self._tokens_by_connection: dict[ServerConnection, Token] = {}
        self.sessions: set[Session] = set()

    def connections(self) -> type[ServerConnection]:
        """Return a class of connections that count towards the limits from their first moment."""
        server = self

        class Counted(PingLimitedConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                server.opened(self)

            def connection_lost(self, exc: Exception | None) -> None:
                server.closed(self)
                super().connection_lost(exc)

        return Counted

    def opened(self, connection: ServerConnection) -> None:
        """Count a new connection."""
        self._limits.opened(connection, connection.transport.abort)

    def closed(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended."""
        self._limits.closed(connection)
        self._tokens_by_connection.pop(connection, None)

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer `/health`, or return the refusal of a request, before the upgrade to WebSocket."""
        headers = tuple(request.headers.raw_items())
        refused = refusal(
            headers,
            str(connection.remote_address[0]),
            port=self._port,
            target=request.path,
            paths=(WS_PATH,),
            known=lambda presented: self._tokens.name_of(presented) is not None,
            known_in_url=lambda presented: self._tokens.name_of(presented, in_url=True) is not None,
        )
        if refused is None and request.path == HEALTH:
            return connection.respond(http.HTTPStatus.OK, "ok\n")
        token = self._token_of(request, headers) if refused is None else None
        if refused is None and token is not None:
            refused = self._limits.admit(connection, token, lambda: self._end(connection))
        if refused is None and token is not None:
            self._tokens_by_connection[connection] = token
            return None
        return _refusal_response(connection, refused or UNKNOWN_TOKEN)

    def _token_of(self, request: Request, headers: Headers) -> Token | None:
        presented = query_token(request.path)
        if presented is not None:
            return self._tokens.find(presented, in_url=True)
        return self._tokens.find(bearer(headers) or "")

    async def handle(self, connection: ServerConnection) -> None:
        """Serve one admitted connection."""
        token = self._tokens_by_connection.get(connection)
        if token is None:  # the connection was lost between its admission and now
            return
        caller = token.caller(TCP_DOOR)
        # Clients that send no headers are those of Flyflor.
        session = Session(self._kernel, connection, caller, in_flyflor_form=token.in_url)
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.remove(session)

    def _end(self, connection: ServerConnection) -> None:
        self._group.start_soon(connection.close, REVOKED_CLOSE_CODE, "the token was revoked")


def _refusal_response(connection: ServerConnection, refused: Refusal) -> Response:
    response = connection.respond(refused.status, f"{refused.reason}\n")
    for name, value in refused.headers:
        response.headers[name] = value
    return response


@asynccontextmanager
async def serve_tcp(
    kernel: Kernel, tokens: TokenStore, port: int = TCP_PORT, *, limits: ConnectionLimits | None = None
) -> AsyncIterator[str]:
    """Serve the kernel on that port of 127.0.0.1, or the next free one. Gives the address.

    When the block ends, the kernel's calls are ended, their results sent and the connections closed. Raises
    OSError where no port is free.
    """
    counted = limits or ConnectionLimits()
    listener = bind_loopback(port, counted.most)
    bound = int(listener.getsockname()[1])
    address = f"ws://{LOOPBACK}:{bound}{WS_PATH}"
    async with anyio.create_task_group() as group:
        sessions = _TcpServer(kernel, tokens, counted, bound, group)
        server = await serve(
            sessions.handle,
            sock=listener,
            backlog=ACCEPTED_AT_ONCE,
            create_connection=sessions.connections(),
            process_request=sessions.admit,
            # With no write buffer of its own, `send` returns only after the operating system took the
            # message: what was sent arrives even where this process is killed next.
            write_limit=0,
            max_size=MAX_TCP_MESSAGE_BYTES,
            compression=None,
            server_header=None,
            open_timeout=HANDSHAKE_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=None,
            logger=silence_logger("flytui.tcp"),
        )
        group.start_soon(watch_tokens, kernel.bus, tokens, counted)
        try:
            with kernel.show_address(address):
                yield address
        finally:
            await kernel.stop()
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                for session in tuple(sessions.sessions):
                    await session.wait_until_answered()
            counted.drop_half_open()  # the server would wait for their handshakes
            server.close()
            with anyio.move_on_after(2 * CLOSE_SECONDS, shield=True):
                await server.wait_closed()
            group.cancel_scope.cancel()
