"""Connections of httpcore2 to pinned addresses, all of one request under one deadline."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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
