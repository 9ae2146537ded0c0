"""An HTTP/1.1 client that connects only to addresses that were checked, within one deadline.

httpcore2 connects and transfers. httpx2 builds requests and parses headers; here it resolves no names,
follows no redirects, keeps no cookies and reads no environment variables.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpcore2
import httpx2
from httpcore2 import (
    SOCKET_OPTION,
    ConnectError,
    ConnectTimeout,
    NetworkBackend,
    NetworkStream,
    ReadTimeout,
    SyncBackend,
)

from flysafe.addresses import Address
from flysafe.pinned_dns import (
    AddressRefused,
    AllowList,
    HostUnresolved,
    Resolve,
    pinned_addresses,
    resolve_host,
)
from flysafe.web_urls import UrlTarget
from flysidecars.sdk import ToolFailed
from flysidecars.web.body import BrokenBody, decode
from flysidecars.web.http_request import MAX_REDIRECTS, REDIRECTS, HttpRequest, follow_redirect
from flysidecars.web.urls import InvalidUrl

_WRITE_BYTES = 16 * 1024

Connect = Callable[[str, int, float], NetworkStream]
"""Connects to an address and a port within some seconds. Raises an error of httpcore2."""


def connect_to(address: str, port: int, seconds: float) -> NetworkStream:
    """Connect to an IP address, so that no name is resolved here."""
    return SyncBackend().connect_tcp(address, port, seconds)


class Deadline:
    """The time at which all work for one request ends, redirects included."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def seconds_left(self, most: float | None) -> float:
        """The remaining seconds, at most `most`; zero or less after the deadline."""
        rest = self._end - time.monotonic()
        return rest if most is None else min(most, rest)


@dataclass(frozen=True, slots=True)
class Network:
    """Resolves and connects to hosts, and decides which addresses may be reached.

    `resolve` and `connect` only transfer; tests replace them.
    """

    allowed: AllowList = field(default_factory=AllowList)
    resolve: Resolve = resolve_host
    connect: Connect = connect_to

    def addresses(self, host: str, port: int, seconds: float) -> list[Address]:
        """All addresses of a host. Raises `ToolFailed`: `not-resolved`, or `address-refused` if one of them
        may not be reached."""
        try:
            return pinned_addresses(host, port, seconds, self.allowed, self.resolve)
        except AddressRefused as refused:
            raise ToolFailed(
                "address-refused",
                str(refused),
                host=host,
                remedy="if you want this, list the host in config.allowPrivate of the entry",
            ) from refused
        except HostUnresolved as failed:
            raise ToolFailed("not-resolved", str(failed), host=host) from failed


class PinnedBackend(NetworkBackend):
    """Opens httpcore2's connections to checked addresses, within one deadline."""

    def __init__(self, network: Network, deadline: Deadline) -> None:
        self._network = network
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> NetworkStream:
        """Connect to the first address that answers."""
        failed: ConnectError | ConnectTimeout | None = None
        # Resolved once, then connected to by address: a second look-up could lead elsewhere (DNS rebinding).
        for address in self._network.addresses(host, port, max(0.0, self._deadline.seconds_left(timeout))):
            if (seconds := self._deadline.seconds_left(timeout)) <= 0:
                raise ConnectTimeout("the deadline has passed")
            try:
                stream = self._network.connect(str(address), port, seconds)
                return _TimedStream(stream, self._deadline)
            except (ConnectError, ConnectTimeout) as refused:
                failed = refused
        raise failed or ConnectError("no address")


class _TimedStream(NetworkStream):
    """A stream whose reads and writes end at the deadline.

    A time limit for each read alone would never end a server that sends one byte at a time.
    """

    def __init__(self, stream: NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def _seconds(self, timeout: float | None) -> float:
        seconds = self._deadline.seconds_left(timeout)
        if seconds <= 0:
            raise ReadTimeout("the deadline has passed")
        return seconds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._seconds(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces, so that the deadline is checked while a slow server takes a large body.
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], self._seconds(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, self._seconds(timeout))
        return _TimedStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


USER_AGENT = "flytui"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The seconds that one read and the whole request may take."""

    read: float
    whole: float


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer whose body has not been read yet."""

    target: UrlTarget
    """The address that answered, after redirects."""
    status: int
    headers: httpx2.Headers
    method: str
    _raw: Iterator[bytes]

    @property
    def content_type(self) -> str:
        """The Content-Type header, at most 256 characters; empty if there is none."""
        return str(self.headers.get("content-type", ""))[:256]

    @property
    def length(self) -> int | None:
        """The body's size in bytes by the Content-Length header; None for a compressed body."""
        text = str(self.headers.get("content-length", ""))
        plain = text.isascii() and text.isdigit() and len(text) < 16
        return int(text) if plain and "content-encoding" not in self.headers else None

    def body(self, limit: int) -> Iterator[bytes]:
        """The decompressed body in pieces of at most 64 KiB, `limit` + 1 bytes at most: a caller that gets
        more than `limit` bytes knows that the body is longer."""
        if self.method == "HEAD":
            return iter(())
        return decode(self._raw, str(self.headers.get("content-encoding", "")), limit)


@contextmanager
def exchange(
    network: Network, request: HttpRequest, times: TimeLimits, encoding: str = "gzip"
) -> Iterator[HttpReply]:
    """Send a request and follow redirects; each address is checked like the first.

    Raises `ToolFailed`, also while the body is read: `address-refused`, `not-resolved`, `connect-failed`,
    `tls-failed`, `timed-out`, `broken-response`, `redirect-refused`, `too-many-redirects`.
    """
    deadline = Deadline(times.whole)
    with ExitStack() as hop:
        for _ in range(MAX_REDIRECTS + 1):
            hop.enter_context(_errors_as_failures(request.target))
            reply = hop.enter_context(_send(network, request, times, deadline, encoding))
            location = reply.headers.get("location")
            if reply.status not in REDIRECTS or location is None:
                yield reply
                return
            request = follow_redirect(request, reply.status, location)
            hop.close()
    raise ToolFailed("too-many-redirects", f"more than {MAX_REDIRECTS} redirects", host=request.target.host)


@contextmanager
def _send(
    network: Network, request: HttpRequest, times: TimeLimits, deadline: Deadline, encoding: str
) -> Iterator[HttpReply]:
    message = _build_message(request, times, encoding)
    with _Transport(network, deadline, request.target.scheme == "https") as transport:
        response = transport.handle_request(message)
        try:
            stream = response.stream
            raw = iter(stream) if isinstance(stream, httpx2.SyncByteStream) else iter(())
            yield HttpReply(request.target, response.status_code, response.headers, request.method, raw)
        finally:
            response.close()


def _build_message(request: HttpRequest, times: TimeLimits, encoding: str) -> httpx2.Request:
    own = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": encoding, "Connection": "close"}
    headers = httpx2.Headers(own)
    headers.update(dict(request.headers))
    seconds = {"connect": times.read, "read": times.read, "write": times.read, "pool": times.read}
    message = httpx2.Request(
        request.method,
        request.target.url,
        headers=headers,
        content=request.body,
        extensions={"timeout": seconds},
    )
    # httpx2 parses the URL once more. If it finds another host than we checked, nothing is sent.
    if message.url.raw_host.decode("ascii") != request.target.host:
        raise InvalidUrl("the host can be read in two ways")
    return message


class _ResponseStream(httpx2.SyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Transport(httpx2.BaseTransport):
    """One connection for one request."""

    def __init__(self, network: Network, deadline: Deadline, tls: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context() if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            max_connections=1,
            network_backend=PinnedBackend(network, deadline),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        content = request.stream
        if not isinstance(content, Iterable):
            raise TypeError("the body of a request must be bytes")
        core_request = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=content,
            extensions=request.extensions,
        )
        response = self._pool.handle_request(core_request)
        return httpx2.Response(response.status, headers=response.headers, stream=_ResponseStream(response))

    def close(self) -> None:
        self._pool.close()


@contextmanager
def _errors_as_failures(target: UrlTarget) -> Iterator[None]:
    """Turn errors of the libraries into `ToolFailed`."""
    # Their texts are left out: they may contain headers, and with them secrets.
    host = target.host
    try:
        yield
    except httpcore2.TimeoutException as slow:
        raise ToolFailed("timed-out", f"{host} took too long", host=host) from slow
    except httpcore2.ConnectError as failed:
        if _is_tls_error(failed):
            raise ToolFailed("tls-failed", f"the certificate of {host} is not trusted", host=host) from failed
        raise ToolFailed("connect-failed", f"{host} cannot be connected to", host=host) from failed
    except (httpcore2.NetworkError, httpcore2.ProtocolError, BrokenBody, ssl.SSLError) as broken:
        why = str(broken) if isinstance(broken, BrokenBody) else "the answer is not complete, valid HTTP"
        raise ToolFailed("broken-response", f"{host}: {why}", host=host) from broken


def _is_tls_error(failed: BaseException) -> bool:
    return any(
        isinstance(inner, ssl.SSLError) for inner in (failed.__cause__, failed.__context__, *failed.args)
    )
