"""What a request has to look like: one table."""

from __future__ import annotations

import pytest

from flycore.server.admission import Headers, bearer, refusal
from kits.tables import each_row

PORT = 8787
HOST = ("Host", "127.0.0.1:8787")
TOKEN = ("Authorization", "Bearer good")


def ruled(headers: Headers, *, peer: str = "127.0.0.1", target: str = "/ws") -> int:
    """The status of the refusal, 0 for none."""
    found = refusal(
        headers, peer, port=PORT, target=target, paths=("/ws",), known=lambda token: token == "good"
    )
    if found is not None:
        assert "good" not in found.reason
        assert "bad" not in found.reason
        assert found.reason.isascii()
    return 0 if found is None else found.status


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost:8787", "[::1]:8787"])
def test_this_very_address_is_served(host: str) -> None:
    assert ruled([("host", host), TOKEN]) == 0
    assert ruled([("HOST", host), ("authorization", "bearer good")]) == 0


FOREIGN_HOSTS = [
    *("evil.example", "evil.example:8787", "127.0.0.1", "localhost", "127.0.0.1:8788", "127.0.0.1:80"),
    *("LOCALHOST:8787", "localhost.:8787", "LOCALHOST.:8787", "127.0.0.1.:8787", "127.0.0.1:08787"),
    *("127.0.0.1:8787:8787", "127.0.0.1:8787@evil", "evil@127.0.0.1:8787", "127.1:8787", "2130706433:8787"),
    *("[::ffff:127.0.0.1]:8787", "::1:8787", "[::1%lo]:8787", "0.0.0.0:8787", "", ":8787", " 127.0.0.1:8787"),
    *(
        "127.0.0.1:8787,127.0.0.1:8787",
        "127.0.0.1:+8787",
        "127.0.0.1:8787/",
        "１27.0.0.1:8787",
        "127.0.0.1:８787",
    ),
]


@each_row("host", FOREIGN_HOSTS, ids=range(len(FOREIGN_HOSTS)))
@each_row("target", ["/ws", "/health"])
def test_no_other_host_is(host: str, target: str) -> None:
    assert ruled([("Host", host), TOKEN], target=target) == 403


@pytest.mark.parametrize("target", ["/ws", "/health"])
def test_no_host_and_two_are_refused(target: str) -> None:
    assert ruled([TOKEN], target=target) == 400
    assert ruled([HOST, HOST, TOKEN], target=target) == 400
    assert ruled([HOST, ("host", "evil"), TOKEN], target=target) == 400


@each_row("origin", ["http://evil.example", "null", "http://localhost:8787", "http://127.0.0.1:8787", ""])
@each_row("target", ["/ws", "/health"])
def test_whatever_has_an_origin_is_refused(origin: str, target: str) -> None:
    assert ruled([HOST, TOKEN, ("origin", origin)], target=target) == 403


@each_row(
    "brought",
    [
        [],
        ["Bearer bad"],
        ["Bearer"],
        ["Bearer "],
        ["good"],
        ["Basic good"],
        ["Bearer good", "Bearer good"],
        ["Bearer\tgood"],
    ],
    ids=range(8),
)
def test_without_one_good_token_nothing_is_done(brought: list[str]) -> None:
    assert ruled([HOST, *(("Authorization", value) for value in brought)]) == 401


def test_a_token_elsewhere_is_none() -> None:
    assert ruled([HOST, ("Sec-WebSocket-Protocol", "good"), ("Cookie", "token=good")]) == 401
    assert ruled([HOST], target="/ws?token=good") == 400
    assert ruled([HOST, TOKEN], target="/ws?token=good") == 400
    assert ruled([HOST, TOKEN], target="/health?token=good") == 400


@each_row("target", ["/", "", "*", "/ws/", "//ws", "/WS", "/%77s", "http://127.0.0.1:8787/ws", "/mcp"])
def test_only_what_is_served_is(target: str) -> None:
    assert ruled([HOST, TOKEN], target=target) == 404


@each_row("peer", ["10.0.0.1", "::ffff:10.0.0.1", "", "nonsense", "fe80::1%eth0"])
def test_only_this_machine_is_served(peer: str) -> None:
    assert ruled([HOST, TOKEN], peer=peer) == 403


def test_health_needs_no_token() -> None:
    assert ruled([HOST], target="/health") == 0


def test_a_bearer_is_read_once_and_without_spaces_round_it() -> None:
    assert bearer([("Authorization", "BEARER   good ")]) == "good"
    assert bearer([TOKEN, TOKEN]) is None
