"""One HTTP request that the kernel sends itself, under the limits for foreign hosts.

Each address is resolved once, checked and connected to by number. A redirect is checked like the first
address. Nothing is taken from the environment, nothing compressed is accepted, and the body is read within a
limit. Only the origin that a trusted entry writes out may be private.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache

import anyio
import anyio.to_thread
import httpcore2
import httpx2
import msgspec

from flycore.runners.exec_values import WebRequest
from flysafe.pinned_dns import (
    AddressRefused,
    AllowList,
    HostUnresolved,
    Resolve,
    pinned_addresses,
    resolve_host,
)
from flysafe.web_requests import MAX_REDIRECTS, REDIRECTS, HttpRequest, RedirectRefused, follow_redirect
from flysafe.web_urls import UrlTarget

CONNECT_S = 15.0
"""How long one address may take to answer, and a name to be resolved."""
USER_AGENT = "flytui"


class ExchangeError(Exception):
    """There is no answer. `code` says why in one word, the text in a sentence that quotes no value."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code, self.hint = code, hint
        super().__init__(message)


class WebAnswer(msgspec.Struct, frozen=True):
    """An answer whose body was read; `cut` says that it is longer than the limit."""

    status: int
    reason: str
    content_type: str
    body: bytes
    cut: bool
    host: str


class WebAccess(msgspec.Struct, frozen=True):
    """How names are resolved. Tests hand in another resolver; nothing else about the network differs."""

    resolve: Resolve = msgspec.field(default=resolve_host)


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections to checked addresses only."""

    def __init__(self, access: WebAccess, allowed: AllowList) -> None:
        self._access, self._allowed = access, allowed
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers."""
        # Resolved once, then connected to by address: a second look-up could lead elsewhere (DNS rebinding).
        # The system's resolver cannot be cancelled: its thread is abandoned instead.
        addresses = await anyio.to_thread.run_sync(
            pinned_addresses,
            host.strip("[]"),
            port,
            CONNECT_S,
            self._allowed,
            self._access.resolve,
            abandon_on_cancel=True,
        )
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(str(address), port, CONNECT_S)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as refused:
                failed = refused
        raise failed or httpcore2.ConnectError("no address")

    async def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""
        await anyio.sleep(seconds)


async def exchange(asked: WebRequest, limit: int, access: WebAccess | None = None) -> WebAnswer:
    """Send the request, follow its redirects, and read at most `limit` bytes of the body.

    Raises ExchangeError. It has no time limit of its own: the caller's scope cancels it.
    """
    access = access or WebAccess()
    request = asked.request
    for _ in range(MAX_REDIRECTS + 1):
        allowed = _allowed(request.target, asked.literal)
        with _as_failures(request.target.host):
            async with _sent(access, allowed, request) as response:
                headers = httpx2.Headers(response.headers)
                location = headers.get("location")
                if response.status not in REDIRECTS or location is None:
                    return await _read(request, response, headers, limit)
        try:
            request = follow_redirect(request, response.status, location)
        except RedirectRefused as refused:
            raise ExchangeError("redirect-refused", str(refused)) from refused
    raise ExchangeError("too-many-redirects", f"more than {MAX_REDIRECTS} redirects")


def _allowed(target: UrlTarget, literal: tuple[str, str, int] | None) -> AllowList:
    """The hosts that may be private: the origin that the entry writes out, and no other."""
    if literal != (target.scheme, target.host, target.port):
        return AllowList()
    return AllowList(hosts=frozenset({target.host.removesuffix(".")}))


@asynccontextmanager
async def _sent(
    access: WebAccess, allowed: AllowList, request: HttpRequest
) -> AsyncIterator[httpcore2.Response]:
    target = request.target
    headers = {
        b"Host": target.origin.partition("://")[2].encode("ascii"),
        b"User-Agent": USER_AGENT.encode(),
        b"Accept": b"*/*",
        b"Accept-Encoding": b"identity",
        b"Connection": b"close",
    }
    own = {name.lower(): name for name in headers}
    for name, value in request.headers:
        headers[own.get(name.lower().encode(), name.encode())] = value.encode("ascii")
    if request.body is not None:
        headers[b"Content-Length"] = str(len(request.body)).encode()
    core = httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.path.encode("ascii"),
        ),
        headers=[*headers.items()],
        content=request.body,
    )
    async with httpcore2.AsyncConnectionPool(
        ssl_context=_tls() if target.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        max_connections=1,
        network_backend=_Backend(access, allowed),
    ) as pool:
        response = await pool.handle_async_request(core)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 1):
                await response.aclose()


async def _read(
    request: HttpRequest, response: httpcore2.Response, headers: httpx2.Headers, limit: int
) -> WebAnswer:
    # A small compressed body can unpack to gigabytes; none was asked for.
    if headers.get("content-encoding", "identity").casefold() not in ("", "identity"):
        raise ExchangeError("broken-response", "the answer is compressed, which was not asked for")
    body = bytearray()
    if request.method != "HEAD":
        async for piece in response.aiter_stream():
            body += piece
            if len(body) > limit:
                break
    reason = response.extensions.get("reason_phrase", b"")
    return WebAnswer(
        status=response.status,
        reason=reason.decode("ascii", "replace")[:200] if isinstance(reason, bytes) else "",
        content_type=str(headers.get("content-type", ""))[:256],
        body=bytes(body[:limit]),
        cut=len(body) > limit,
        host=request.target.host,
    )


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class _as_failures:  # noqa: N801 - it is used as a statement, like contextlib's own
    """Turns errors of the libraries into ExchangeError. Their texts may hold headers, and so secrets."""

    def __init__(self, host: str) -> None:
        self._host = host

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ExchangeError):
            return
        if (found := _failure(error, self._host)) is not None:
            raise found from error


def _failure(error: BaseException, host: str) -> ExchangeError | None:
    match error:
        case AddressRefused():
            hint = "only a host that a trusted tool writes out may be private"
            return ExchangeError("address-refused", str(error), hint)
        case HostUnresolved():
            return ExchangeError("not-resolved", str(error), "check the name of the host, and the network")
        case httpcore2.TimeoutException():
            return ExchangeError("connect-failed", f"{host} does not answer")
        case httpcore2.ConnectError() if _is_tls_error(error):
            return ExchangeError("tls-failed", f"the certificate of {host} is not trusted")
        case httpcore2.ConnectError():
            return ExchangeError("connect-failed", f"{host} cannot be connected to")
        case httpcore2.NetworkError() | httpcore2.ProtocolError() | ssl.SSLError():
            return ExchangeError("broken-response", f"{host}: the answer is not complete, valid HTTP")
    return None


def _is_tls_error(failed: BaseException) -> bool:
    return any(
        isinstance(inner, ssl.SSLError) for inner in (failed.__cause__, failed.__context__, *failed.args)
    )
