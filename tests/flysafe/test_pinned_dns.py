"""Suite S8 at its root: which addresses a host may lead to, and that nothing is resolved twice."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from ipaddress import ip_address

import pytest

from flysafe.pinned_dns import (
    MAX_ADDRESSES,
    AddressRefused,
    AllowList,
    HostUnresolved,
    Resolve,
    connect_pinned,
    parse_allow_list,
    pinned_addresses,
    resolve_host,
)
from kits.private_addresses import NOT_PUBLIC
from kits.tables import each_row

pytestmark = pytest.mark.suite

PUBLIC = "93.184.215.14"
LISTS = [AllowList(), AllowList(own_machine=True), AllowList(hosts=frozenset({"wiki.lan"}))]


def _to(*addresses: str) -> Resolve:
    return lambda host, port, seconds: list(addresses)


def _found(host: str, allowed: AllowList, resolve: Resolve | None = None) -> list[str]:
    return [str(address) for address in pinned_addresses(host, 80, 1.0, allowed, resolve or _to())]


@each_row("allowed", LISTS)
@each_row("address", NOT_PUBLIC)
def test_a_name_that_leads_inside(address: str, allowed: AllowList) -> None:
    for answer in ((address,), (PUBLIC, address), (address, PUBLIC)):
        with pytest.raises(AddressRefused):
            _found("outer.test", allowed, _to(*answer))
    assert _found("outer.test", allowed, _to(PUBLIC)) == [PUBLIC]


@each_row("address", NOT_PUBLIC)
def test_an_address_of_the_inside(address: str) -> None:
    with pytest.raises(AddressRefused):
        _found(address, AllowList())
    own = AllowList(own_machine=True)
    if address in ("127.0.0.1", "::1"):
        assert _found(address, own) == [address]
    else:
        with pytest.raises(AddressRefused):
            _found(address, own)
    assert _found(address, parse_allow_list([address])[0]) == [str(ip_address(address))]


def test_localhost_is_this_machine_and_nothing_else() -> None:
    own = AllowList(frozenset({"localhost"}), own_machine=True)
    assert _found("LocalHost", own, _to("127.0.0.1", "::1")) == ["127.0.0.1", "::1"]
    for address in (PUBLIC, "10.0.0.1", "::1%lo", "::ffff:127.0.0.1"):
        with pytest.raises(AddressRefused):
            _found("localhost", own, _to(address))


@each_row("turn", range(100))
def test_a_name_that_answers_otherwise_each_time(turn: int) -> None:
    answers = itertools.chain([[PUBLIC]], itertools.repeat([NOT_PUBLIC[turn % len(NOT_PUBLIC)]]))
    assert _found("outer.test", AllowList(), lambda *_: next(answers)) == [PUBLIC]
    with pytest.raises(AddressRefused):
        _found("outer.test", AllowList(), lambda *_: next(answers))


@pytest.mark.parametrize("answer", [[], ["x"], [PUBLIC, "x"], [PUBLIC] * (MAX_ADDRESSES + 1)])
def test_an_answer_that_is_of_no_use(answer: list[str]) -> None:
    with pytest.raises(HostUnresolved):
        _found("outer.test", AllowList(), _to(*answer))


@each_row(
    ("item", "host", "address"),
    [
        ("wiki.lan", "wiki.lan", "10.0.0.7"),
        ("WIKI.lan.", "Wiki.LAN", "10.0.0.7"),
        ("wiki.lan", "wiki.lan.", "10.0.0.7"),
        ("10.0.0.7", "any.test", "10.0.0.7"),
        ("10.0.0.0/8", "any.test", "10.0.0.7"),
        ("fd00::1", "any.test", "fd00::1"),
        ("[fd00::1]", "any.test", "fd00::1"),
        ("fd00::/8", "any.test", "fd00::1"),
        ("fe80::1%eth0", "fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_hosts_addresses_and_networks_are_listed(item: str, host: str, address: str) -> None:
    allowed, faulty = parse_allow_list([item])
    assert (faulty, _found(host, allowed, _to(address))) == ([], [address])
    with pytest.raises(AddressRefused):
        _found("wiki.lan.evil.test", allowed, _to("10.1.0.7" if item == "10.0.0.7" else "192.168.0.1"))


@each_row("item", ["", " ", "[]", "10.0.0.1/8", "fd00::1/8", "a/b", "a:80", 7, None, ["a"]])
def test_an_item_that_allows_nothing(item: object) -> None:
    assert parse_allow_list([item, "ok.lan"]) == (AllowList(frozenset({"ok.lan"})), [item])


def test_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    began = time.monotonic()
    with pytest.raises(HostUnresolved):
        pinned_addresses("slow.test", 80, 0.1, AllowList())
    assert time.monotonic() - began < 5
    release.set()


def test_the_real_resolver() -> None:
    assert set(resolve_host("localhost", 80, 10.0)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match="does not accept this name"):
        resolve_host("a" * 70 + ".test", 80, 10.0)


def test_the_first_address_that_answers_is_connected_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with connect_pinned([ip_address("127.0.0.2"), ip_address("127.0.0.1")], port, 5.0) as found:
            assert found.getpeername() == ("127.0.0.1", port)
    with pytest.raises(OSError, match="refused"):
        connect_pinned([ip_address("127.0.0.1")], port, 5.0)
