"""Resolves foreign hosts once, within a time limit, and checks each address before a program connects to it.

A library that connects by name resolves the name again, and the second answer can lead elsewhere (DNS
rebinding). So callers connect to an address of `pinned_addresses`, never to a name. TLS and the `Host` header
keep the name.
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
"""Most addresses of one name, because each of them is checked."""

Resolve = Callable[[str, int, float], list[str]]
"""Takes host, port and seconds and returns addresses as text. Raises OSError."""


class HostUnresolved(OSError):
    """The resolver gave no usable answer about the host in time."""


class AddressRefused(OSError):
    """The host has an address that is neither public nor allowed."""


@dataclass(frozen=True, slots=True)
class AllowList:
    """The hosts and addresses that are allowed although they are not public.

    A host is allowed by its exact name, in any case and with or without the last dot, whatever its addresses
    are. An address is allowed by itself or by a network that contains it, also where it belongs to a name.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    own_machine: bool = False
    """Whether `localhost`, and a loopback address that is written as the host, are allowed. `localhost` must
    then have a loopback address, and any other name with a loopback address is still refused."""

    def lists(self, host: str, address: Address | None) -> bool:
        """Return whether the name of the host, or the address, is in the list."""
        if host.lower().removesuffix(".") in self.hosts:
            return True
        return address is not None and any(address in network for network in self.networks)

    def permits(self, host: str, address: Address) -> bool:
        """Return whether a program may connect to the address, which the host has."""
        if self.own_machine and host.lower() == "localhost":
            return is_loopback(address)
        if self.own_machine and is_loopback(address) and parse_address(host) == address:
            return True
        return is_public(address) or self.lists(host, address)


def parse_allow_list(items: Iterable[object], *, own_machine: bool = False) -> tuple[AllowList, list[object]]:
    """Return the allow-list of hosts, addresses and networks, and the items that are none of these.

    An IPv6 address may be in brackets. A network whose address has bits set behind its prefix is not valid.
    """
    hosts, networks, faulty = set[str](), list[IPv4Network | IPv6Network](), list[object]()
    for item in items:
        text = item if isinstance(item, str) else ""
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        try:
            networks.append(ip_network(text))
        except ValueError:
            # `ip_network` refuses an address with a scope; such an address is treated like a host name.
            if not text.strip() or (parse_address(text) is None and ("/" in text or ":" in text)):
                faulty.append(item)
            else:
                hosts.add(text.lower().removesuffix("."))
    return AllowList(frozenset(hosts), tuple(networks), own_machine), faulty


def resolve_host(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses from the system's resolver, in its order. Raises OSError, and TimeoutError."""
    answers: SimpleQueue[list[str] | OSError] = SimpleQueue()

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except OSError as failed:
            answers.put(failed)
        except UnicodeError:
            answers.put(OSError("the resolver does not accept this name"))

    # getaddrinfo has no time limit and cannot be interrupted. A daemon thread ends with the process.
    Thread(target=resolve, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"the resolver did not answer within {seconds:g} seconds") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def pinned_addresses(
    host: str, port: int, seconds: float, allowed: AllowList, resolve: Resolve = resolve_host
) -> list[Address]:
    """Return all addresses of a host, which is a name or an address. A program may connect to each of them.

    Raises HostUnresolved, and AddressRefused where one or more of the addresses are not permitted.
    """
    literal = parse_address(host)
    found = [literal] if literal is not None else _resolved(host, port, seconds, resolve)
    # A name with public and private addresses together is an attack: the good one only hides the other.
    if not all(allowed.permits(host, address) for address in found):
        raise AddressRefused(f"{host} has an address that is not public")
    return found


def _resolved(host: str, port: int, seconds: float, resolve: Resolve) -> list[Address]:
    try:
        texts = resolve(host, port, seconds)
    except OSError as failed:
        raise HostUnresolved(f"no address was found for {host}") from failed
    found = [address for address in map(parse_address, texts) if address is not None]
    if not found or len(found) != len(texts) or len(found) > MAX_ADDRESSES:
        raise HostUnresolved(f"the resolver gave no usable answer about {host}")
    return found


def connect_pinned(addresses: Sequence[Address], port: int, seconds: float) -> socket.socket:
    """Return a TCP connection to the first address that answers. Each gets `seconds`. Raises OSError."""
    last: OSError = ConnectionError("no address")
    for address in addresses:
        try:
            return socket.create_connection((str(address), port), seconds)
        except OSError as failed:
            last = failed
    raise last
