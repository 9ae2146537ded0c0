"""The transport to an MCP server over streamable HTTP.

Connections lead only where the entry says: a literal address and `localhost` to exactly that, any other name
to public addresses only. Redirects are not followed, nothing is taken from the environment,
and the size of an answer is limited. The same holds for the authorization server that a server names, which
may moreover be on this machine only if the server itself is.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.to_thread
import httpcore2
import httpx2

from flycore.model.json import MAX_MESSAGE_VALUES, StrictJsonError, check_counts
from flycore.model.large_values import is_large_text, run_aside
from flycore.model.login import LoginKeeper
from flycore.registry.mcp_checks import SECRET_REFERENCE, is_loopback_host
from flysafe.addresses import Address, parse_address
from flysafe.pinned_dns import (
    AddressRefused,
    AllowList,
    HostUnresolved,
    Resolve,
    pinned_addresses,
    resolve_host,
)

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

CONNECT_S = 15.0
WRITE_S = 30.0
GET_PAUSE_S = 1.0
"""The time from one GET to the next. A server says how soon its stream is opened again after it ended, and
may say 0."""
_REDIRECTS = range(300, 400)
_EVENT_END = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r")
"""The blank line that ends an event; each of its two ends may be a newline, a carriage return, or both."""
_LONGEST_EVENT_END = 4


class AddressNotPublic(httpcore2.ConnectError):
    """The host leads to an address that may not be reached."""


class _Backend(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that were checked. `trusted` is the host that the entry names."""

    def __init__(self, trusted: str) -> None:
        self._inner = httpcore2.AnyIOBackend()
        self._trusted = trusted

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers."""
        # The checked addresses themselves are connected to: a second resolution of the name could lead
        # elsewhere.
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in await addresses_of(host, port, trusted=self._trusted):
            try:
                return await self._inner.connect_tcp(str(address), port, timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as refused:
                failed = refused
        raise failed or httpcore2.ConnectError(f"no address is known for {host}")

    async def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""
        await anyio.sleep(seconds)


async def addresses_of(
    host: str, port: int, resolve: Resolve = resolve_host, *, trusted: str | None = None
) -> list[Address]:
    """The addresses at which a host may be reached. `trusted` is the host that the entry names, by default
    this one. Raises AddressNotPublic where one of them is not allowed, and httpcore2.ConnectError where there
    is none."""
    name = host.strip("[]")
    entry = name if trusted is None else trusted.strip("[]")
    # A literal address in the entry was trusted with the entry and cannot lead elsewhere, so any address is
    # allowed. What a server names itself, such as its authorization server, nobody has trusted: a public
    # server could send requests into this machine or its network with it.
    named = name.lower() == entry.lower()
    spelled = frozenset({name.lower()}) if named and parse_address(name) is not None else frozenset[str]()
    allowed = AllowList(hosts=spelled, own_machine=named or is_loopback_host(entry))
    try:
        # The system's resolver blocks and cannot be cancelled: its thread is abandoned instead.
        return await anyio.to_thread.run_sync(
            pinned_addresses, name, port, CONNECT_S, allowed, resolve, abandon_on_cancel=True
        )
    except AddressRefused as refused:
        advice = "; write the address itself" if named else ""
        raise AddressNotPublic(f"{refused}{advice}") from refused
    except HostUnresolved as failed:
        raise httpcore2.ConnectError(str(failed)) from failed


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, broken off where one of its messages has more than `most` bytes, or more values
    than a document may have. `events` says that it is a stream of events, each with one message."""

    def __init__(self, response: httpcore2.Response, most: int, link: HttpTransport, *, events: bool) -> None:
        self._response, self._most, self._link, self._events = response, most, link, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # The SDK gets a message only after it was counted, as it keeps many times its size.
        message, scanned = bytearray(), 0
        async for piece in self._response.aiter_stream():
            message += piece
            ends = [found.end() for found in _EVENT_END.finditer(message, scanned)] if self._events else []
            if ends:
                # All of them at once: a server that sends small events without end costs no more for it.
                yield await self._checked(bytes(message[: ends[-1]]))
                del message[: ends[-1]]
            if len(message) > self._most:
                self._refuse(f"sent more than {self._most} bytes in one message")
            scanned = max(0, len(message) - _LONGEST_EVENT_END)
        if message:
            yield await self._checked(bytes(message))

    async def _checked(self, message: bytes) -> bytes:
        try:
            await run_aside(is_large_text(message), check_counts, message, MAX_MESSAGE_VALUES)
        except StrictJsonError as reason:
            self._refuse(f"sent a message that {reason}")
        return message

    def _refuse(self, why: str) -> NoReturn:
        self._link.abort(why)
        raise httpx2.ReadError(self._link.fault)

    async def aclose(self) -> None:
        await self._response.aclose()


class _Transport(httpx2.AsyncBaseTransport):
    """Sends requests over connections of `_Backend`."""

    def __init__(self, link: HttpTransport, most: int, tls: ssl.SSLContext | None, host: str) -> None:
        self._link, self._most = link, most
        self._next_get = 0.0
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=tls, network_backend=_Backend(host))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. The answer of a redirect comes without its `location` header."""
        if request.url.scheme != "https" and not is_loopback_host(request.url.host.strip("[]")):
            self._link.note_failure(f"names {request.url.host} without https, which only this machine may be")
            raise httpx2.UnsupportedProtocol(self._link.last_failure, request=request)
        if request.method == "GET" and "text/event-stream" in request.headers.get("accept", ""):
            await self._pause()
        forwarded = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._pool.handle_async_request(forwarded)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as fault:
            self._link.note_failure(f"could not be reached ({str(fault) or type(fault).__name__})")
            self._link.in_doubt = True
            raise httpx2.ConnectError(str(fault), request=request) from fault
        headers = httpx2.Headers(response.headers)
        if response.status in _REDIRECTS:
            self._link.note_failure(f"answered HTTP {response.status}, a redirect, which is not followed")
            del headers["location"]
        elif response.status >= 400:
            self._link.note_failure(f"answered HTTP {response.status}")
        # A small compressed body can unpack to gigabytes, past the limit on what is received.
        if headers.get("content-encoding", "identity").casefold() != "identity":
            self._link.note_failure("compressed its answer, which the request did not allow")
            await response.aclose()
            raise httpx2.DecodingError(self._link.last_failure, request=request)
        # A stream of events has no end, so its length has no limit; each of its events does.
        events = headers.get("content-type", "").casefold().startswith("text/event-stream")
        return httpx2.Response(
            response.status,
            headers=headers,
            stream=_Body(response, self._most, self._link, events=events),
            request=request,
        )

    async def _pause(self) -> None:
        now = anyio.current_time()
        begins = max(now, self._next_get)
        self._next_get = begins + GET_PAUSE_S
        await anyio.sleep(begins - now)

    async def aclose(self) -> None:
        await self._pool.aclose()


class HttpTransport:
    """The transport to a server over HTTP. `headers` hold secrets; `most` is the longest message, in bytes;
    `login` keeps the person's login there, None where the entry sends credentials of its own."""

    restarts_on_cancel = False
    left_alone = 0
    stderr_tail = ""
    exit_code: int | None = None
    survivors = 0
    process_limit = memory_limit = 0

    def __init__(
        self, url: str, headers: dict[str, str], most: int, login: LoginKeeper | None = None
    ) -> None:
        self._url, self._headers, self._most, self._login = url, headers, most, login
        self.fault = self.login_needed = ""
        self.last_failure = ""
        """Why the last request failed, as a sentence without its subject."""
        self.in_doubt = self.unconfined = False
        self.ended, self.closed = anyio.Event(), anyio.Event()

    def note_failure(self, what: str) -> None:
        """Remember why a request failed. The error that the SDK raises does not say it."""
        self.last_failure = what

    def need_login(self, why: str) -> None:
        """End the use of the connection, because a person has to log in first. `why` is a sentence without
        its subject."""
        self.login_needed = why
        self.abort(why)

    def abort(self, why: str) -> None:
        """End the use of the connection. The first reason is kept as `fault`."""
        self.fault = self.fault or why
        self.ended.set()

    def begin_call(self) -> int:
        """Always 0: each call is a request of its own, and there is no stderr to begin anew."""
        return 0

    def end_call(self, slot: int) -> None:
        """Nothing: the end of its request ends a call."""

    def request_meta(self, slot: int) -> dict[str, int]:
        """Nothing: no call needs to be told from another."""
        return {}

    async def wait_until_cancelled(self, slot: int) -> bool:
        """Always True: the cancelled request is closed, and no process of ours works on it."""
        return True

    def open_client(self, auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        """An HTTP client whose connections lead only where this module permits. The caller closes it."""
        url = httpx2.URL(self._url)
        tls = httpx2.create_ssl_context() if url.scheme == "https" else None
        # Nothing is taken from the environment: a proxy or .netrc there could lead requests elsewhere.
        return httpx2.AsyncClient(
            headers={"User-Agent": "flytui", "Accept-Encoding": "identity", **self._headers},
            transport=_Transport(self, self._most, tls, url.host),
            timeout=httpx2.Timeout(CONNECT_S, read=None, write=WRITE_S, pool=CONNECT_S),
            auth=auth,
            trust_env=False,
            follow_redirects=False,
        )

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[TransportStreams]:
        """The streams to and from the server, while the block runs."""
        from mcp.client.streamable_http import streamable_http_client

        auth: httpx2.Auth | None = None
        if self._login is not None:
            from flycore.runners.mcp.login_auth import LoginAuth

            auth = LoginAuth(self._url, self._login, self)
        client = self.open_client(auth)
        try:
            async with (
                client,
                streamable_http_client(
                    self._url, http_client=client, max_sse_event_size=self._most, terminate_on_close=False
                ) as streams,
            ):
                yield streams
        finally:
            self.abort(self.last_failure or "was left")
            self.closed.set()


def fill_headers(headers: dict[str, str], secrets: dict[str, str]) -> dict[str, str]:
    """The headers with each reference replaced by its secret. `secrets` has every name that is referred
    to."""
    return {
        name: SECRET_REFERENCE.sub(lambda match: secrets[match[1]], value) for name, value in headers.items()
    }
