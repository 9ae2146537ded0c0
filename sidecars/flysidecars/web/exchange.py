"""One exchange over HTTP/1.1, redirects followed by ourselves, each as strictly as the first address.

httpx2 builds requests and reads headers; it neither resolves, follows, keeps cookies nor reads the
environment here.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpcore2
import httpx2

from flysidecars.sdk import ToolFailed
from flysidecars.web.body import BrokenBody, decode
from flysidecars.web.network import Backend, Deadline, Network
from flysidecars.web.orders import MOST_REDIRECTS, REDIRECTS, HttpRequest, follow_redirect
from flysidecars.web.urls import InvalidUrl, UrlTarget

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
