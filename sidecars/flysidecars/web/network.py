"""Connections that lead only where they may: a name is resolved once, each of its addresses is checked, and
what was checked is what is connected to. TLS and the `Host` header keep the name."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread

from httpcore2 import (
    SOCKET_OPTION,
    ConnectError,
    ConnectTimeout,
    NetworkBackend,
    NetworkStream,
    ReadTimeout,
    SyncBackend,
)

from flysafe.addresses import Address, parse_address
from flysidecars.sdk import ToolFailed
from flysidecars.web.settings import Private

MOST_ADDRESSES = 32
"""A name with more is refused: they are all looked at."""

_PIECE = 16 * 1024

Resolve = Callable[[str, int, float], list[str]]
"""Host, port and seconds to addresses, as text. Raises OSError."""
Connect = Callable[[str, int, float], NetworkStream]
"""Address, port and seconds to a connection. Raises an error of httpcore2."""


def resolve_host(host: str, port: int, seconds: float) -> list[str]:
    """What the system's resolver says, in its order. It knows no time limit, so that it is waited for from
    outside; a thread that is left behind ends with the process."""
    found: SimpleQueue[list[str] | OSError] = SimpleQueue()

    def look() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.put(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except OSError as failed:
            found.put(failed)
        except UnicodeError:
            found.put(OSError("no name for the resolver"))

    Thread(target=look, daemon=True).start()
    try:
        said = found.get(timeout=seconds)
    except Empty:
        raise TimeoutError("the resolver does not answer") from None
    if isinstance(said, OSError):
        raise said
    return said


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

    private: Private = field(default_factory=Private)
    resolve: Resolve = resolve_host
    connect: Connect = connect_to

    def addresses(self, host: str, port: int, seconds: float) -> list[Address]:
        """All addresses of a host. Raises `ToolFailed`: `not-resolved`, or `address-refused` where one of
        them may not be reached."""
        literal = parse_address(host)
        found = [literal] if literal is not None else self._resolved(host, port, seconds)
        if not all(self.private.permits(host, address) for address in found):
            raise ToolFailed(
                "address-refused",
                f"{host} leads to an address that is not public",
                host=host,
                remedy="where this is wanted, list the host in config.allowPrivate of the entry",
            )
        return found

    def _resolved(self, host: str, port: int, seconds: float) -> list[Address]:
        try:
            texts = self.resolve(host, port, seconds)
        except OSError as failed:
            raise ToolFailed("not-resolved", f"no address is known for {host}", host=host) from failed
        found = [parse_address(text) for text in texts]
        whole = [address for address in found if address is not None]
        if not whole or len(whole) != len(found) or len(whole) > MOST_ADDRESSES:
            raise ToolFailed("not-resolved", f"no usable answer about {host}", host=host)
        return whole


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
                return _Timed(stream, self._deadline)
            except (ConnectError, ConnectTimeout) as refused:
                failed = refused
        raise failed or ConnectError("no address")


class _Timed(NetworkStream):
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
        return _Timed(inner, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
