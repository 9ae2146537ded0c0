"""Requests that the kernel sends itself, to real servers on loopback: which addresses are connected to, where
redirects lead, and how much is read."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import anyio
import pytest

from flycore.runners.exec_values import WebRequest
from flycore.runners.web_exchange import ExchangeError, WebAccess, WebAnswer, exchange
from flysafe.web_requests import HttpRequest
from flysafe.web_urls import parse_url
from kits.private_addresses import NOT_PUBLIC
from kits.web_servers import Talk, Web, serving

pytestmark = pytest.mark.anyio


def asked(url: str, *, literal: bool = True, **more: object) -> WebRequest:
    target = parse_url(url)
    origin = (target.scheme, target.host, target.port) if literal else None
    return WebRequest(HttpRequest(target, **more), origin)  # type: ignore[arg-type]  # fields of the request


def named(web: Web, host: str, path: str = "/") -> str:
    return f"http://{host}:{web.port}{path}"


def resolver(*addresses: str) -> tuple[WebAccess, list[str]]:
    """A resolver that gives these addresses, and the names that it was asked for."""
    names: list[str] = []

    def resolve(host: str, port: int, seconds: float) -> list[str]:
        names.append(host)
        return list(addresses)

    return WebAccess(resolve=resolve), names


async def refused(request: WebRequest, access: WebAccess | None = None, limit: int = 1_000) -> str:
    with anyio.fail_after(30), pytest.raises(ExchangeError) as caught:
        await exchange(request, limit, access)
    return caught.value.code


async def answered(request: WebRequest, access: WebAccess | None = None, limit: int = 1_000) -> WebAnswer:
    with anyio.fail_after(30):
        return await exchange(request, limit, access)


async def test_a_written_host_may_be_private_and_is_resolved_once() -> None:
    access, names = resolver("127.0.0.1")
    with serving(lambda talk: talk.answer(b"hello")) as web:
        answer = await answered(asked(named(web, "inside.example")), access)
    assert (answer.status, answer.body) == (200, b"hello")
    assert names == ["inside.example"]
    assert web.asked[0].header("host") == f"inside.example:{web.port}"


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_host_of_a_value_with_a_private_address_is_never_connected_to(address: str) -> None:
    access, _ = resolver("93.184.216.34", address)
    with serving(lambda talk: talk.answer(b"secret")) as web:
        assert await refused(asked(named(web, "rebound.example"), literal=False), access) == "address-refused"
    assert web.connections == 0


async def test_a_redirect_stays_at_the_written_origin_or_leads_to_a_public_one() -> None:
    with serving(lambda talk: talk.answer(b"secret")) as inside:
        aims = {
            "/same": "/end",
            "/port": f"{inside.url}/",
            "/name": f"http://localhost:{inside.port}/",
            "/meta": "http://169.254.169.254/latest",
            "/file": "file:///etc/passwd",
            "/user": "http://a@127.0.0.1/",
        }

        def respond(talk: Talk) -> None:
            if talk.path in aims:
                talk.answer(status="302 Found", location=aims[talk.path])
            else:
                talk.answer(b"end")

        with serving(respond) as web:
            assert (await answered(asked(f"{web.url}/same"))).body == b"end"
            codes = [await refused(asked(web.url + path)) for path in list(aims)[1:]]
    assert codes == ["address-refused"] * 3 + ["redirect-refused"] * 2
    assert inside.connections == 0


async def test_redirects_without_end_are_not_followed() -> None:
    with serving(lambda talk: talk.answer(status="302 Found", location="/again")) as web:
        assert await refused(asked(web.url + "/")) == "too-many-redirects"
    assert len(web.asked) == 6


@pytest.mark.parametrize(
    ("respond", "code"),
    [
        (lambda talk: talk.answer(gzip.compress(b"x"), content_encoding="gzip"), "broken-response"),
        (lambda talk: talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), "broken-response"),
        (lambda talk: talk.send(b"nothing like HTTP\r\n\r\n"), "broken-response"),
        (lambda talk: talk.connection.close(), "broken-response"),
    ],
)
async def test_an_answer_that_is_not_http_as_asked_is_a_failure(
    respond: Callable[[Talk], None], code: str
) -> None:
    with serving(respond) as web:
        assert await refused(asked(web.url + "/")) == code


async def test_a_body_without_end_is_read_up_to_the_limit() -> None:
    def respond(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 200 OK\r\n\r\n")
        talk.endlessly(b"x" * 4_096)

    with serving(respond) as web:
        answer = await answered(asked(web.url + "/"), limit=10_000)
    assert (len(answer.body), answer.cut) == (10_000, True)


async def test_a_closed_port_and_an_unknown_name_are_told_apart() -> None:
    with serving(lambda talk: talk.answer()) as web:
        closed = web.url + "/"
    assert await refused(asked(closed)) == "connect-failed"
    nothing, _ = resolver()
    assert await refused(asked("http://unknown.example/"), nothing) == "not-resolved"


async def test_the_request_is_what_was_filled_in() -> None:
    with serving(lambda talk: talk.answer(b"", status="204 No Content")) as web:
        request = asked(
            web.url + "/p?q=1", method="PUT", headers=(("Accept", "a/b"), ("X-Key", "k")), body=b"body"
        )
        answer = await answered(request)
    (talk,) = web.asked
    assert (answer.status, answer.body) == (204, b"")
    assert (talk.path, talk.body, talk.head.split(" ")[0]) == ("/p?q=1", b"body", "PUT")
    assert [talk.header(name) for name in ("accept", "x-key", "user-agent", "accept-encoding")] == [
        "a/b",
        "k",
        "flytui",
        "identity",
    ]
