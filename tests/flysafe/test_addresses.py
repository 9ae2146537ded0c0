"""Which addresses are public (suite S8, addresses)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flysafe.addresses import is_public, parse_address
from kits.private_addresses import NOT_PUBLIC
from kits.tables import each_row

EDGES = [
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::",
    "2003::",
    "3ffe::",
    "2a00::1",
]


@pytest.mark.suite
@each_row("text", NOT_PUBLIC)
def test_what_is_not_the_open_internet_is_refused(text: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert not is_public(address)


@each_row("text", ["1.1.1.1", "2606:4700::1111", *EDGES])
def test_the_open_internet_is_not(text: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert is_public(address)


@given(st.ip_addresses(v=4).map(IPv4Address))
def test_an_address_inside_another_is_never_public(inner: IPv4Address) -> None:
    number = int(inner)
    carriers = ("::ffff:0:0", "::", "64:ff9b::", "64:ff9b:1::")
    assert not any(is_public(IPv6Address(int(IPv6Address(carrier)) + number)) for carrier in carriers)
    assert not is_public(IPv6Address((0x2002 << 112) + (number << 80)))
    assert not is_public(IPv6Address((0x2001_0000 << 96) + number))


@each_row(
    "text",
    [
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "localhost.",
        "0",
        "１２７.0.0.1",
        "①27.0.0.1",
        "",
    ],
)
def test_other_spellings_are_no_address(text: str) -> None:
    assert parse_address(text) is None
