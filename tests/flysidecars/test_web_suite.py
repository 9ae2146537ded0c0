"""Suite S8, network: what leads inside is refused, and no connection reaches the inner server.

The web of these tests has one public address, behind which a loopback server plays `outer.test` and its
neighbours. Every other address that would be connected to is the inner server's.
"""

from __future__ import annotations

import gzip
import itertools
import os
import zlib
from collections.abc import Callable, Iterator

import pytest
from httpcore2 import NetworkStream, SyncBackend

from flysafe.addresses import parse_address
from flysafe.pinned_dns import AllowList, resolve_host
from flysidecars.sdk import ToolFailed
from flysidecars.web.http_client import HttpReply, Network, TimeLimits, exchange
from flysidecars.web.http_request import HttpRequest
from flysidecars.web.urls import parse_url
from kits.private_addresses import NOT_PUBLIC
from kits.tables import each_row
from kits.web_servers import Talk, Web, serving

pytestmark = pytest.mark.suite

PUBLIC = "93.184.215.14"
TIMES = TimeLimits(30, 60)
MIB = 1024 * 1024
BOMB_BYTES = (512 if os.environ.get("FLYTUI_SUITES") == "full" else 32) * MIB

ALLOWED = ["1.1.1.1", "2606:4700::1111"]
SPELLINGS = [
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "localhost.",
    "0",
    "localhost",
    "127.0.0.1",
    "[::1]",
]


class Scene:
    """The outer and the inner server, and a network that knows them."""

    def __init__(self, outer: Web, inner: Web) -> None:
        self.outer = outer
        self.inner = inner
        self.names: dict[str, list[str]] = {"outer.test": [PUBLIC], "other.test": [PUBLIC]}
        self.connected: list[str] = []
        self.answer: Callable[[Talk], None] = lambda talk: talk.answer(b"outside")

    def resolve(self, host: str, port: int, seconds: float) -> list[str]:
        if host in self.names:
            return self.names[host]
        if host.startswith("localhost"):
            return resolve_host(host, port, seconds)
        raise OSError("no such name")

    def connect(self, address: str, port: int, seconds: float) -> NetworkStream:
        self.connected.append(address)
        web = self.outer if address in (PUBLIC, *ALLOWED) else self.inner
        return SyncBackend().connect_tcp("127.0.0.1", web.port, seconds)

    @property
    def network(self) -> Network:
        return Network(AllowList(), self.resolve, self.connect)

    def get(
        self, url: str, limit: int = MIB, times: TimeLimits = TIMES, **more: object
    ) -> tuple[HttpReply, bytes]:
        """Load it and its body."""
        order = HttpRequest(parse_url(url), **more)  # type: ignore[arg-type]  # fields of the order
        with exchange(self.network, order, times) as reply:
            return reply, b"".join(reply.body(limit))

    def refused(self, url: str, times: TimeLimits = TIMES, **more: object) -> str:
        """The code of the failure; nothing came inside."""
        with pytest.raises(ToolFailed) as failed:
            self.get(url, times=times, **more)
        assert self.inner.connections == 0
        return failed.value.code


@pytest.fixture
def scene() -> Iterator[Scene]:
    scenes: list[Scene] = []
    with (
        serving(lambda talk: scenes[0].answer(talk)) as outer,
        serving(lambda talk: talk.answer(b"secret")) as inner,
    ):
        scenes.append(Scene(outer, inner))
        yield scenes[0]
        assert inner.connections == 0


def _url(address: str, port: int | None = None) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}/" if port is None else f"http://{host}:{port}/"


def test_the_public_page_is_loaded(scene: Scene) -> None:
    reply, body = scene.get("http://outer.test/a?b=c#d")
    assert (reply.status, body, reply.target.url) == (200, b"outside", "http://outer.test/a?b=c")
    (asked,) = scene.outer.asked
    assert asked.head.startswith("GET /a?b=c HTTP/1.1\r\n")
    assert asked.header("Host") == "outer.test"
    assert scene.connected == [PUBLIC]


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_reached(scene: Scene, address: str) -> None:
    assert scene.get(_url(address))[1] == b"outside"


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_of_the_inside(scene: Scene, address: str) -> None:
    code = "invalid-url" if "%" in address else "address-refused"
    assert scene.refused(_url(address)) == code
    scene.names["outer.test"] = [address]
    assert scene.refused("http://outer.test/") == "address-refused"
    scene.names["outer.test"] = [PUBLIC, address]
    assert scene.refused("http://outer.test/") == "address-refused"
    assert scene.connected == []


def _load(url: str) -> bytes:
    """With the real resolver and real connections."""
    with exchange(Network(), HttpRequest(parse_url(url)), TIMES) as reply:
        return b"".join(reply.body(MIB))


@each_row("spelling", SPELLINGS)
def test_a_spelling_of_loopback_meets_the_real_resolver(spelling: str) -> None:
    with serving(lambda talk: talk.answer(b"secret")) as inner:
        with pytest.raises(ToolFailed) as failed:
            _load(f"http://{spelling}:{inner.port}/")
        assert failed.value.code in ("invalid-url", "address-refused", "not-resolved")
        assert inner.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://outer.test@127.0.0.1/",
        "http://outer.test:80@127.0.0.1/",
        "http://outer.test%40127.0.0.1/",
        "http://127.0.0.1\\@outer.test/",
        "http://outer.test\\.127.0.0.1/",
        "http://outer\t.test/",
        "http://outer .test/",
        " http://outer.test/",
        "http://outer.test/\r\nX: y",
        "http://[::ffff:7f00:1]:8080x/",
        "http://outer.test:80:81/",
        "http://outer.test:0/",
        "http://outer.test:65536/",
        "http://outer.test:-1/",
        "http://outer.test:٨٠/",
        "http://outer.test:22/",
        "http://outer.test:/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
        "data:text/plain,x",
        "ftp://outer.test/",
        "javascript:alert(1)",
        "http:outer.test",
        "http:///outer.test/",
        "http://lоcalhost/",
        "http://outer。test/",
        "http://ⓞuter.test/",
        "http://[fe80::1%25eth0]/",
        "http://[127.0.0.1]/",
        "http://-outer.test/",
        "http://outer..test/",
        "http://out_er!.test/",
    ],
)
def test_an_address_that_could_be_read_in_two_ways(scene: Scene, url: str) -> None:
    assert scene.refused(url) == "invalid-url"
    assert scene.connected == []


def test_an_address_inside_another_is_refused(scene: Scene) -> None:
    assert scene.refused("http://[::ffff:7f00:1]/") == "address-refused"


@pytest.mark.parametrize("rest", ["#@127.0.0.1/", "/#@127.0.0.1/", "?@127.0.0.1/", "/@127.0.0.1/"])
def test_the_host_ends_where_everybody_ends_it(scene: Scene, rest: str) -> None:
    assert scene.get(f"http://outer.test{rest}")[1] == b"outside"
    assert scene.outer.asked[0].header("Host") == "outer.test"
    assert scene.connected == [PUBLIC]


def _to(location: str, status: str = "302 Found") -> Callable[[Talk], None]:
    return lambda talk: talk.answer(b"elsewhere", status, location=location)


@pytest.mark.parametrize("address", [address for address in NOT_PUBLIC if "%" not in address])
def test_a_redirect_inside(scene: Scene, address: str) -> None:
    scene.answer = _to(_url(address))
    assert scene.refused("http://outer.test/") == "address-refused"


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "data:text/html,x",
        "//user@127.0.0.1/",
        "http://0x7f.1/",
        "http://[fe80::1%25eth0]/",
        "\\\\127.0.0.1\\",
        "http://[::1",
    ],
)
def test_a_redirect_to_no_address_of_the_web(scene: Scene, location: str) -> None:
    scene.answer = _to(location)
    assert scene.refused("http://outer.test/") == "redirect-refused"


def test_five_redirects_are_followed_and_a_sixth_is_not(scene: Scene) -> None:
    def count(talk: Talk) -> None:
        number = int(talk.path.removeprefix("/"))
        if number == 0:
            talk.answer(b"there")
        else:
            talk.answer(b"", "301 Moved", location=f"/{number - 1}")

    scene.answer = count
    assert scene.get("http://outer.test/5")[1] == b"there"
    assert scene.refused("http://outer.test/6") == "too-many-redirects"


def test_a_redirect_to_itself(scene: Scene) -> None:
    scene.answer = _to("/")
    assert scene.refused("http://outer.test/") == "too-many-redirects"
    assert scene.outer.connections == 6


def test_credentials_stay_with_their_host(scene: Scene) -> None:
    def lead(talk: Talk) -> None:
        if talk.path == "/first":
            talk.answer(b"", "307 Temporary", location="/second", set_cookie="a=b")
        elif talk.header("Host") == "outer.test":
            talk.answer(b"", "302 Found", location="http://other.test/")
        else:
            talk.answer(b"there")

    scene.answer = lead
    secret = (("Authorization", "Bearer k"), ("Cookie", "s=1"), ("X-Api-Key", "k"), ("Accept", "text/html"))
    assert scene.get("http://outer.test/first", headers=secret)[1] == b"there"
    _, second, other = scene.outer.asked
    assert [second.header(name) for name in ("Authorization", "Cookie", "X-Api-Key")] == [
        "Bearer k",
        "s=1",
        "k",
    ]
    assert [other.header(name) for name in ("Authorization", "Cookie", "X-Api-Key")] == [None, None, None]
    assert other.header("Accept") == "text/html"


@pytest.mark.parametrize("turn", range(100))
def test_a_name_that_answers_otherwise_each_time(scene: Scene, turn: int) -> None:
    private = NOT_PUBLIC[turn % len(NOT_PUBLIC)]
    answers = itertools.chain([[PUBLIC]], itertools.repeat([private]))
    network = Network(AllowList(), lambda host, port, seconds: next(answers), scene.connect)
    order = HttpRequest(parse_url("http://outer.test/"))
    with exchange(network, order, TIMES) as reply:
        assert b"".join(reply.body(MIB)) == b"outside"
    assert scene.connected == [PUBLIC]
    with pytest.raises(ToolFailed) as failed, exchange(network, order, TIMES):
        pytest.fail("the second answer was believed")
    assert failed.value.code == "address-refused"


def test_a_name_that_turns_between_redirects(scene: Scene) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    scene.answer = _to("/again")
    network = Network(AllowList(), lambda host, port, seconds: next(answers), scene.connect)
    with (
        pytest.raises(ToolFailed) as failed,
        exchange(network, HttpRequest(parse_url("http://outer.test/")), TIMES),
    ):
        pytest.fail("the second answer was believed")
    assert failed.value.code == "address-refused"


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _open_ended(talk: Talk, headers: str = "") -> None:
    talk.send(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode())


def test_an_endless_body_is_cut(scene: Scene) -> None:
    def flow(talk: Talk) -> None:
        _open_ended(talk)
        talk.endlessly(_chunked(b"x" * 100_000))

    scene.answer = flow
    assert len(scene.get("http://outer.test/", limit=MIB)[1]) == MIB + 1


def test_a_gzip_bomb_is_cut_in_small_pieces(scene: Scene) -> None:
    bomb = gzip.compress(bytes(BOMB_BYTES), 1)
    scene.answer = lambda talk: talk.answer(bomb, content_encoding="gzip")
    with exchange(scene.network, HttpRequest(parse_url("http://outer.test/")), TIMES) as reply:
        sizes = [len(piece) for piece in reply.body(MIB)]
    assert max(sizes) <= 65536
    assert sum(sizes) == MIB + 1


def test_packed_bytes_that_never_become_any(scene: Scene) -> None:
    pack = zlib.compressobj(0, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = pack.compress(b"") + pack.flush(zlib.Z_SYNC_FLUSH)

    def flow(talk: Talk) -> None:
        _open_ended(talk, "Content-Encoding: gzip\r\n")
        talk.send(_chunked(head))
        talk.endlessly(_chunked(b"\0\0\0\xff\xff" * 10_000))

    scene.answer = flow
    assert scene.refused("http://outer.test/") == "broken-response"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"short", {"content_length": "500"}),
        (gzip.compress(b"x" * 5000, mtime=0)[:-9], {"content_encoding": "gzip"}),
        (b"not packed", {"content_encoding": "gzip"}),
        (b"x", {"content_encoding": "br"}),
        (b"x", {"content_encoding": "gzip, gzip"}),
        (b"x", {"content_length": "-1"}),
        (b"x", {"content_length": "1, 2"}),
        (b"x", {"transfer_encoding": "chunked"}),
    ],
)
def test_a_body_that_is_not_what_it_says(scene: Scene, body: bytes, headers: dict[str, str]) -> None:
    scene.answer = lambda talk: talk.answer(body, **headers)
    assert scene.refused("http://outer.test/") == "broken-response"


def test_more_than_was_announced_is_not_read(scene: Scene) -> None:
    scene.answer = lambda talk: talk.answer(b"four and more", content_length="4")
    assert scene.get("http://outer.test/")[1] == b"four"


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_drips(scene: Scene, start: bytes) -> None:
    def drip(talk: Talk) -> None:
        talk.send(start)
        talk.endlessly(b"a", 0.02)

    scene.answer = drip
    assert scene.refused("http://outer.test/", times=TimeLimits(30, 0.3)) == "timed-out"


def test_a_server_that_says_nothing(scene: Scene) -> None:
    scene.answer = lambda talk: talk.endlessly(b"", 0.02)
    assert scene.refused("http://outer.test/", times=TimeLimits(0.2, 60)) == "timed-out"


def test_a_server_that_promises_for_ever(scene: Scene) -> None:
    scene.answer = lambda talk: talk.endlessly(b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.001)
    assert scene.refused("http://outer.test/", times=TimeLimits(30, 0.5)) == "timed-out"


@pytest.mark.parametrize("raw", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nA" + b"a" * 200_000, b""])
def test_what_is_no_answer_over_http(scene: Scene, raw: bytes) -> None:
    scene.answer = lambda talk: talk.send(raw)
    assert scene.refused("http://outer.test/") == "broken-response"


def test_a_body_of_nothing(scene: Scene) -> None:
    scene.answer = lambda talk: talk.answer(b"", content_encoding="gzip")
    assert scene.get("http://outer.test/")[1] == b""


def test_a_resolver_that_answers_nonsense(scene: Scene) -> None:
    for said in (
        [],
        ["not an address"],
        [PUBLIC, "localhost"],
        [f"1.1.{n // 200}.{n % 200}" for n in range(99)],
    ):
        scene.names["outer.test"] = said
        assert scene.refused("http://outer.test/") == "not-resolved"
    assert scene.connected == []


def test_the_next_address_is_tried(scene: Scene) -> None:
    def connect(address: str, port: int, seconds: float) -> NetworkStream:
        if address == "1.1.1.1":
            return SyncBackend().connect_tcp("127.0.0.1", _closed_port(), seconds)
        return scene.connect(address, port, seconds)

    network = Network(AllowList(), lambda host, port, seconds: ["1.1.1.1", PUBLIC], connect)
    with exchange(network, HttpRequest(parse_url("http://outer.test/")), TIMES) as reply:
        assert reply.status == 200


def _closed_port() -> int:
    with serving(lambda talk: None) as gone:
        return gone.port


def test_the_tables_are_whole() -> None:
    assert (len(NOT_PUBLIC), len(set(NOT_PUBLIC))) == (35, 35)
    assert all(parse_address(address) is not None for address in NOT_PUBLIC)
