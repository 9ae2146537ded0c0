"""Connections of httpcore2 to pinned addresses, all of one request under one deadline."""

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
from flysidecars.sdk import ToolFailed
from flysidecars.web.body import BrokenBody, decode
from flysidecars.web.http_request import MOST_REDIRECTS, REDIRECTS, HttpRequest, follow_redirect
from flysidecars.web.urls import InvalidUrl, UrlTarget

_PIECE = 16 * 1024

Connect = Callable[[str, int, float], NetworkStream]
"""Address, port and seconds to a connection. Raises an error of httpcore2."""


def connect_to(address: str, port: int, seconds: float) -> NetworkStream:
    """Connect to an address, which is no name: nothing is resolved here."""
    return SyncBackend().connect_tcp(address, port, seconds)


class Deadline:
    """A point in time that everything done for one request ends at."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float | None) -> float:
        """Seconds that remain, not more than `most`; zero or less when it is over."""
        rest = self._end - time.monotonic()
        return rest if most is None else min(most, rest)


@dataclass(frozen=True, slots=True)
class Network:
    """How hosts are reached. What is handed in does the talking; what may be reached is decided here."""

    allowed: AllowList = field(default_factory=AllowList)
    resolve: Resolve = resolve_host
    connect: Connect = connect_to

    def addresses(self, host: str, port: int, seconds: float) -> list[Address]:
        """All addresses of a host. Raises `ToolFailed`: `not-resolved`, or `address-refused` where one of
        them may not be reached."""
        try:
            return pinned_addresses(host, port, seconds, self.allowed, self.resolve)
        except AddressRefused as refused:
            raise ToolFailed(
                "address-refused",
                str(refused),
                host=host,
                remedy="where this is wanted, list the host in config.allowPrivate of the entry",
            ) from refused
        except HostUnresolved as failed:
            raise ToolFailed("not-resolved", str(failed), host=host) from failed


class Backend(NetworkBackend):
    """Makes httpcore2's connections, all of them under one deadline."""

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
        for address in self._network.addresses(host, port, max(0.0, self._deadline.left(timeout))):
            if (seconds := self._deadline.left(timeout)) <= 0:
                raise ConnectTimeout("the time is over")
            try:
                stream = self._network.connect(str(address), port, seconds)
                return _TimedStream(stream, self._deadline)
            except (ConnectError, ConnectTimeout) as refused:
                failed = refused
        raise failed or ConnectError("no address")


class _TimedStream(NetworkStream):
    """A stream whose reads and writes end with the deadline, however slowly the other side drips."""

    def __init__(self, stream: NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def _seconds(self, timeout: float | None) -> float:
        seconds = self._deadline.left(timeout)
        if seconds <= 0:
            raise ReadTimeout("the time is over")
        return seconds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._seconds(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE):
            self._stream.write(buffer[start : start + _PIECE], self._seconds(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, self._seconds(timeout))
        return _TimedStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


# One exchange over HTTP/1.1, redirects followed by ourselves, each as strictly as the first address.
#
# httpx2 builds requests and reads headers; it neither resolves, follows, keeps cookies nor reads the
# environment here.


USER_AGENT = "flytui"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds that one read, and that all of it, may take."""

    read: float
    whole: float


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back, the body not read yet."""

    target: UrlTarget
    """Where it came from, after redirects."""
    status: int
    headers: httpx2.Headers
    method: str
    _raw: Iterator[bytes]

    @property
    def content_type(self) -> str:
        """As it was sent, at most 256 characters; empty where it was not."""
        return str(self.headers.get("content-type", ""))[:256]

    @property
    def length(self) -> int | None:
        """The size that was announced, in bytes as sent."""
        said = str(self.headers.get("content-length", ""))
        plain = said.isascii() and said.isdigit() and len(said) < 16
        return int(said) if plain and "content-encoding" not in self.headers else None

    def body(self, limit: int) -> Iterator[bytes]:
        """The decoded body in pieces of at most 64 KiB. Ends after `limit` + 1 bytes at most, so that who
        counts knows whether there was more."""
        if self.method == "HEAD":
            return iter(())
        return decode(self._raw, str(self.headers.get("content-encoding", "")), limit)


@contextmanager
def exchange(
    network: Network, order: HttpRequest, times: TimeLimits, encoding: str = "gzip"
) -> Iterator[HttpReply]:
    """Send the order and follow where it leads. Raises `ToolFailed`, also while the body is read:
    `address-refused`, `not-resolved`, `connect-failed`, `tls-failed`, `timed-out`, `broken-response`,
    `redirect-refused`, `too-many-redirects`."""
    deadline = Deadline(times.whole)
    with ExitStack() as hop:
        for _ in range(MOST_REDIRECTS + 1):
            hop.enter_context(_named_errors(order.target))
            reply = hop.enter_context(_send(network, order, times, deadline, encoding))
            location = reply.headers.get("location")
            if reply.status not in REDIRECTS or location is None:
                yield reply
                return
            order = follow_redirect(order, reply.status, location)
            hop.close()
    raise ToolFailed("too-many-redirects", f"more than {MOST_REDIRECTS} redirects", host=order.target.host)


@contextmanager
def _send(
    network: Network, order: HttpRequest, times: TimeLimits, deadline: Deadline, encoding: str
) -> Iterator[HttpReply]:
    request = _request(order, times, encoding)
    with _Transport(network, deadline, order.target.scheme == "https") as transport:
        response = transport.handle_request(request)
        try:
            stream = response.stream
            raw = iter(stream) if isinstance(stream, httpx2.SyncByteStream) else iter(())
            yield HttpReply(order.target, response.status_code, response.headers, order.method, raw)
        finally:
            response.close()


def _request(order: HttpRequest, times: TimeLimits, encoding: str) -> httpx2.Request:
    own = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": encoding, "Connection": "close"}
    headers = httpx2.Headers(own)
    headers.update(dict(order.headers))
    seconds = {"connect": times.read, "read": times.read, "write": times.read, "pool": times.read}
    request = httpx2.Request(
        order.method, order.target.url, headers=headers, content=order.body, extensions={"timeout": seconds}
    )
    if request.url.raw_host.decode("ascii") != order.target.host:
        raise InvalidUrl("the host is read in two ways")
    return request


class _Stream(httpx2.SyncByteStream):
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
            network_backend=Backend(network, deadline),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        content = request.stream
        if not isinstance(content, Iterable):
            raise TypeError("the body of a request is bytes here")
        asked = httpcore2.Request(
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
        said = self._pool.handle_request(asked)
        return httpx2.Response(said.status, headers=said.headers, stream=_Stream(said))

    def close(self) -> None:
        self._pool.close()


@contextmanager
def _named_errors(target: UrlTarget) -> Iterator[None]:
    """Errors of the libraries as failures. Their texts are left out: they may hold headers."""
    host = target.host
    try:
        yield
    except httpcore2.TimeoutException as slow:
        raise ToolFailed("timed-out", f"{host} took too long", host=host) from slow
    except httpcore2.ConnectError as failed:
        if _of_tls(failed):
            raise ToolFailed(
                "tls-failed", f"{host} has no certificate that is trusted", host=host
            ) from failed
        raise ToolFailed("connect-failed", f"{host} cannot be connected to", host=host) from failed
    except (httpcore2.NetworkError, httpcore2.ProtocolError, BrokenBody, ssl.SSLError) as broken:
        why = str(broken) if isinstance(broken, BrokenBody) else "not a whole answer over HTTP"
        raise ToolFailed("broken-response", f"{host}: {why}", host=host) from broken


def _of_tls(failed: BaseException) -> bool:
    return any(
        isinstance(inner, ssl.SSLError) for inner in (failed.__cause__, failed.__context__, *failed.args)
    )
