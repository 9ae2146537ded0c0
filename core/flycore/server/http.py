"""The HTTP door: an ASGI application on loopback, behind the same admission as the TCP door.

Built as a wrapper of the application: nothing of a request reaches it before Host, Origin and token were
looked at and the body, bounded in size and time, is there and is JSON that every program reads the same.
"""

from __future__ import annotations

import http
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from flycore.kernel.kernel import Kernel
from flycore.model.json import StrictJsonError, read_strict
from flycore.server.admission import HEALTH, UNKNOWN_TOKEN, Refusal, bearer, refusal
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.loopback import LOOPBACK, bind_loopback, silence_logger, watch_tokens
from flycore.server.tokens import HTTP_DOOR, TokenStore

HTTP_PORT = 8788
MCP_PATH = "/mcp"
CALLER_STATE_KEY = "flytui.token"
"""Key of `scope["state"]` under which the application finds who came: the `Caller.key` of the token."""
MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 10.0
"""How long a body may take to arrive."""
END_SECONDS = 2
"""How long answers under way may take once the door closes."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, AsgiSend], Awaitable[None]]

_TOO_LARGE = Refusal(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body is at most {MAX_BODY_BYTES} bytes")
_NOT_STRICT = Refusal(
    http.HTTPStatus.BAD_REQUEST,
    '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, '
    '"message": "the body is not JSON, or two programs could read it differently"}}',
)
_TOO_SLOW = Refusal(http.HTTPStatus.REQUEST_TIMEOUT, f"a body arrives within {BODY_SECONDS:.0f} seconds")


class AuthMiddleware:
    """The application behind its door. Serves `/health` by itself."""

    def __init__(self, app: App, tokens: TokenStore, gate: ConnectionLimits, port: int) -> None:
        self._app, self._tokens, self._gate, self._port = app, tokens, gate, port

    async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        """One request, or the application's lifespan."""
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
        if body and not _is_strict(body):
            await _answer(send, _NOT_STRICT, b"application/json")
            return
        await self._app(scope, _replay_body(body, receive), send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Why this request does not come in; where it does, the application is told who came."""
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
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        scope.setdefault("state", {})[CALLER_STATE_KEY] = token.caller(HTTP_DOOR).key
        return self._gate.admit(peer, token)


def _is_strict(body: bytes) -> bool:
    try:
        read_strict(body)
    except StrictJsonError:
        return False
    return True


async def _answer(send: AsgiSend, said: Refusal, kind: bytes = b"text/plain; charset=utf-8") -> None:
    """A line of text, after which the connection ends."""
    body = f"{said.reason}\n".encode("ascii")
    headers = [
        *((name.lower().encode(), value.encode()) for name, value in said.headers),
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": int(said.status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read_body(scope: Scope, receive: Receive) -> tuple[bytes, Refusal | None]:
    """The whole body, or why it is not taken."""
    for name, value in scope["headers"]:
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
    """The body that has arrived already, then whatever follows it."""
    waiting = [body]

    async def next_message() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return next_message


@asynccontextmanager
async def serve_http(
    kernel: Kernel,
    app: App,
    tokens: TokenStore,
    port: int = HTTP_PORT,
    *,
    gate: ConnectionLimits | None = None,
) -> AsyncIterator[str]:
    """Serve the application under `/mcp` on that port of loopback, or the next free one, until the block
    ends; then the kernel's calls are ended and answers under way get two seconds. Gives the address. Raises
    OSError where no port is free."""
    from flycore.server.http_server import UvicornServer, server_config

    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        silence_logger(name)
    counted = gate or ConnectionLimits()
    listener = bind_loopback(port)
    bound = int(listener.getsockname()[1])
    address = f"http://{LOOPBACK}:{bound}{MCP_PATH}"
    server = UvicornServer(server_config(AuthMiddleware(app, tokens, counted, bound), counted, END_SECONDS))
    async with anyio.create_task_group() as group:
        group.start_soon(watch_tokens, kernel.bus, tokens, counted)
        await group.start(server.serve_on, listener)
        try:
            with kernel.door_open(address):
                yield address
        finally:
            await kernel.stop()
            counted.drop_half_open()
            with anyio.CancelScope(shield=True):
                await server.end()
            group.cancel_scope.cancel()
