"""The HTTP server: an ASGI application on loopback, behind the same admission as the TCP server.

`AuthMiddleware` wraps the application. A request reaches the application only after Host, Origin and token
were checked, and after the whole body, which is limited in size and time, arrived and was found to be strict
JSON, which every program reads the same way.
"""

from __future__ import annotations

import http
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from flycore.kernel.kernel import Kernel
from flycore.model.json import Json
from flycore.model.large_values import is_large_text, run_aside
from flycore.server.admission import HEALTH, UNKNOWN_TOKEN, Refusal, bearer, refusal
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.loopback import LOOPBACK, bind_loopback, silence_logger, watch_tokens
from flycore.server.mcp.jsonrpc import ID_IN_USE, INVALID_REQUEST, MessageRefused, read_message
from flycore.server.tokens import HTTP_DOOR, TokenStore

HTTP_PORT = 8788
MCP_PATH = "/mcp"
CALLER_STATE_KEY = "flytui.token"
"""Key of `scope["state"]` under which the application finds the `Caller.key` of the token."""
SESSION_HEADER = b"mcp-session-id"
MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 10.0
"""How long a body may take to arrive."""
END_SECONDS = 2
"""How long running answers may take once the server stops."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, AsgiSend], Awaitable[None]]
RequestKey = tuple[str, str, str]
"""Caller, session and id of a request."""

_TOO_LARGE = Refusal(
    http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {MAX_BODY_BYTES} bytes"
)
_TOO_SLOW = Refusal(http.HTTPStatus.REQUEST_TIMEOUT, f"a body must arrive within {BODY_SECONDS:.0f} seconds")


class AuthMiddleware:
    """An ASGI application that checks each request before it hands it on. Answers `/health` itself."""

    def __init__(self, app: App, tokens: TokenStore, limits: ConnectionLimits, port: int) -> None:
        self._app, self._tokens, self._limits, self._port = app, tokens, limits, port
        self._open_requests: set[RequestKey] = set()
        """Those that are not answered yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        """Serve one request, or hand on the lifespan. Every other kind of connection is ignored."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        refused = self._refusal(scope)
        if refused is None and scope["path"] == HEALTH:
            await _answer(send, Refusal(http.HTTPStatus.OK, "ok"))
            return
        body = b""
        if refused is None:
            body, refused = await _read_body(scope, receive)
        if refused is not None:
            await _answer(send, refused)
            return
        try:
            key = await self._check_body(scope, body)
        except MessageRefused as fault:
            wrong = Refusal(http.HTTPStatus.BAD_REQUEST, json.dumps(fault.answer))
            await _answer(send, wrong, b"application/json")
            return
        # The SDK keeps one answer for each id of a session: of two requests with one id only the latter would
        # be answered.
        if key is not None:
            self._open_requests.add(key)
        try:
            await self._app(scope, _replay_body(body, receive), send)
        finally:
            if key is not None:
                self._open_requests.discard(key)

    async def _check_body(self, scope: Scope, body: bytes) -> RequestKey | None:
        """Return the key of the request in the body, None where there is none. Raises MessageRefused."""
        if not body:
            return None
        key = _request_key(scope, await run_aside(is_large_text(body), read_message, body, "the body"))
        if key in self._open_requests:
            raise MessageRefused(INVALID_REQUEST, ID_IN_USE)
        return key

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why this request is refused. Where it is not, the caller's key is put into `scope`."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        peer = tuple(scope["client"] or ("", 0))
        query = scope["query_string"].decode("latin-1")
        refused = refusal(
            headers,
            peer[0],
            port=self._port,
            target=scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
            paths=(MCP_PATH,),
            known=lambda presented: self._tokens.name_of(presented) is not None,
        )
        if refused is not None or scope["path"] == HEALTH:
            return refused
        token = self._tokens.find(bearer(headers) or "")
        if token is None:
            return UNKNOWN_TOKEN
        # The application needs the caller, not the secret: without the header it cannot leak the token.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        scope.setdefault("state", {})[CALLER_STATE_KEY] = token.caller(HTTP_DOOR).key
        return self._limits.admit(peer, token)


def _request_key(scope: Scope, message: Json) -> RequestKey | None:
    """Return the key of a request; None for a message without an id, or outside a session."""
    session = next((value for name, value in scope["headers"] if name == SESSION_HEADER), b"")
    if not session or not isinstance(message, dict) or "method" not in message or "id" not in message:
        return None
    return scope["state"][CALLER_STATE_KEY], session.decode("latin-1"), str(message["id"])


async def _answer(send: AsgiSend, answer: Refusal, kind: bytes = b"text/plain; charset=utf-8") -> None:
    """Send one line of text and end the connection."""
    body = f"{answer.reason}\n".encode("ascii")
    headers = [
        *((name.lower().encode(), value.encode()) for name, value in answer.headers),
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read_body(scope: Scope, receive: Receive) -> tuple[bytes, Refusal | None]:
    """Read the whole body. The second value is why the body is refused, and None where it is not."""
    for name, value in scope["headers"]:
        # More than 9 digits are too large in any case, and Python refuses to parse very long numbers.
        if name == b"content-length" and (len(value) > 9 or int(value) > MAX_BODY_BYTES):
            return b"", _TOO_LARGE
    body = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                return b"", _TOO_LARGE
            if message["type"] != "http.request" or not message.get("more_body", False):
                return bytes(body), None
    return b"", _TOO_SLOW


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that gives the body which was read already, then what follows it."""
    bodies = [body]

    async def next_message() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await receive()

    return next_message


@asynccontextmanager
async def serve_http(
    kernel: Kernel,
    app: App,
    tokens: TokenStore,
    port: int = HTTP_PORT,
    *,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[str]:
    """Serve the application under `/mcp` on that port of 127.0.0.1, or the next free one. Gives the address.

    When the block ends, the kernel's calls are ended and running answers get `END_SECONDS`. Raises OSError
    where no port is free.
    """
    # uvicorn takes long to import, and a kernel without an HTTP server does not need it.
    from flycore.server.http_server import UvicornServer, server_config

    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        silence_logger(name)
    counted = limits or ConnectionLimits()
    listener = bind_loopback(port, counted.most)
    bound = int(listener.getsockname()[1])
    address = f"http://{LOOPBACK}:{bound}{MCP_PATH}"
    server = UvicornServer(server_config(AuthMiddleware(app, tokens, counted, bound), counted, END_SECONDS))
    async with anyio.create_task_group() as group:
        group.start_soon(watch_tokens, kernel.bus, tokens, counted)
        await group.start(server.serve_on, listener)
        try:
            with kernel.show_address(address):
                yield address
        finally:
            # The kernel stops first, so that the answers to its calls can still be sent. Half-open
            # connections are dropped, because uvicorn would wait for them.
            await kernel.stop()
            counted.drop_half_open()
            with anyio.CancelScope(shield=True):
                await server.end()
            group.cancel_scope.cancel()
