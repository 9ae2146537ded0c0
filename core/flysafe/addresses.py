"""Public network addresses: those that a program may connect to because foreign text names them.

An address is not public where IANA's special-purpose registries (IPv4: RFC 6890 and its updates; IPv6
likewise) do not give it to the open internet, or where it holds another address inside.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# These tables replace Python's `is_global`, whose answers differ between versions of Python.
_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by carriers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, metadata services
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
"""The only part that is given to the open internet. Loopback, mapped and translated IPv4 addresses, unique
local, link-local and multicast addresses are outside of it."""
# An address with an IPv4 address inside is refused whatever that is: a router or a translator on the way
# would take the inner address out and connect to it.
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: an IPv4 address inside
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: Address) -> bool:
    """Return whether the address belongs to the open internet. One with a scope (`%eth0`) never does."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or address not in _PUBLIC_6:
        return False
    return not any(address in network for network in _NOT_PUBLIC_6)


_LOOPBACK_4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_6 = IPv6Address("::1")


def is_loopback(address: Address) -> bool:
    """Return whether the address is 127.0.0.0/8 or ::1. A mapped or scoped address is not loopback here."""
    return address in _LOOPBACK_4 or address == _LOOPBACK_6


def parse_address(text: str) -> Address | None:
    """Return the address that the text spells in standard form; None for every other text."""
    # Forms such as `127.1` or `0x7f000001` are not addresses here, but some resolvers accept them. Callers
    # treat them as names, so that what the resolver makes of them is checked.
    try:
        return ip_address(text)
    except ValueError:
        return None
