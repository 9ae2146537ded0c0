"""Addresses of a foreign host: resolved once within a time limit, each checked; the caller connects to these.

A name that is resolved again by the library that connects could lead elsewhere the second time (DNS
rebinding), so nobody passes a name on: whoever connects takes an address of `pinned_addresses`. TLS and the
`Host` header keep the name.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from queue import Empty, SimpleQueue
from threading import Thread

from flysafe.addresses import Address, is_loopback, is_public, parse_address

MAX_ADDRESSES = 32
"""A name with more is refused, because every one of them has to be checked."""

Resolve = Callable[[str, int, float], list[str]]
"""Takes host, port and seconds and returns addresses as text. Raises OSError."""


class HostUnresolved(OSError):
    """The resolver gives no usable answer about the host in time."""


class AddressRefused(OSError):
    """The host leads to an address that is neither public nor allowed."""


@dataclass(frozen=True, slots=True)
class AllowList:
    """What may be reached although it is not public.

    A host is allowed by its exact name, in any case and with or without the last dot, wherever it leads to.
    An address is allowed by itself or by a network that holds it, also where a name leads to it.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    own_machine: bool = False
    """Whether `localhost` and a loopback address written as the host mean this machine. Then `localhost`
    leads nowhere else, and another name that leads here is still refused."""

    def lists(self, host: str, address: Address | None) -> bool:
        """Whether the host's name, or the address, is in the list."""
        if host.lower().removesuffix(".") in self.hosts:
            return True
        return address is not None and any(address in network for network in self.networks)

    def permits(self, host: str, address: Address) -> bool:
        """Whether a connection to the address, which was found for the host, may be made."""
        if self.own_machine and host.lower() == "localhost":
            return is_loopback(address)
        if self.own_machine and is_loopback(address) and parse_address(host) == address:
            return True
        return is_public(address) or self.lists(host, address)


def parse_allow_list(items: Iterable[object], *, own_machine: bool = False) -> tuple[AllowList, list[object]]:
    """The allow-list of hosts, addresses and networks, and the items that are none of these.

    An IPv6 address may stand in brackets. A network whose address has bits behind its prefix is none.
    """
    hosts, networks, faulty = set[str](), list[IPv4Network | IPv6Network](), list[object]()
    for item in items:
        text = item if isinstance(item, str) else ""
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        try:
            networks.append(ip_network(text))
        except ValueError:
            # ip_network takes no address with a scope, which is a host like any other.
            if not text.strip() or (parse_address(text) is None and ("/" in text or ":" in text)):
                faulty.append(item)
            else:
                hosts.add(text.lower().removesuffix("."))
    return AllowList(frozenset(hosts), tuple(networks), own_machine), faulty


def resolve_host(host: str, port: int, seconds: float) -> list[str]:
    """The addresses of the system's resolver, in its order. Raises OSError; TimeoutError after `seconds`."""
    answers: SimpleQueue[list[str] | OSError] = SimpleQueue()

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except OSError as failed:
            answers.put(failed)
        except UnicodeError:
            answers.put(OSError("no name for the resolver"))

    # getaddrinfo knows no time limit and cannot be interrupted. A daemon thread ends with the process.
    Thread(target=resolve, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError("the resolver does not answer") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def pinned_addresses(
    host: str, port: int, seconds: float, allowed: AllowList, resolve: Resolve = resolve_host
) -> list[Address]:
    """All addresses of a host, each of which may be connected to; `host` is a name or an address.

    Raises HostUnresolved, and AddressRefused where only one of them is not permitted: a name that leads both
    outside and inside is a trick.
    """
    literal = parse_address(host)
    found = [literal] if literal is not None else _resolved(host, port, seconds, resolve)
    if not all(allowed.permits(host, address) for address in found):
        raise AddressRefused(f"{host} leads to an address that is not public")
    return found


def _resolved(host: str, port: int, seconds: float, resolve: Resolve) -> list[Address]:
    try:
        texts = resolve(host, port, seconds)
    except OSError as failed:
        raise HostUnresolved(f"no address is known for {host}") from failed
    found = [address for address in map(parse_address, texts) if address is not None]
    if not found or len(found) != len(texts) or len(found) > MAX_ADDRESSES:
        raise HostUnresolved(f"no usable answer about {host}")
    return found


def connect_pinned(addresses: Sequence[Address], port: int, seconds: float) -> socket.socket:
    """A TCP connection to the first of the addresses that answers; each has `seconds`. Raises OSError."""
    last: OSError = ConnectionError("no address")
    for address in addresses:
        try:
            return socket.create_connection((str(address), port), seconds)
        except OSError as failed:
            last = failed
    raise last
