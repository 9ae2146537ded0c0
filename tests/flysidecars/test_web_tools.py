"""The tools of `web.search` as programs, against loopback servers that the entry lists."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kits.web_servers import PersistentSidecar, Talk, Web, serving

LOCAL = {"allowPrivate": ["127.0.0.1"]}
MIB = 1024 * 1024
PAGE = """<!doctype html><html><head><meta charset="iso-8859-2"><title>Ty&amp;tuł</title>
<script>document.write("not this")</script></head><body><nav><a href="/">Menu</a></nav>
<main><h1>Heading</h1><p>First   paragraph, with <b>bold</b> words in it.<p>Second paragraph: żółw.
<form>Sign in</form></main><footer>Imprint</footer></body></html>"""


@pytest.fixture
def web() -> Iterator[tuple[Web, dict[str, Callable[[Talk], None]]]]:
    """A server and what it does by path; others are not found."""
    pages: dict[str, Callable[[Talk], None]] = {}

    def respond(talk: Talk) -> None:
        page = pages.get(talk.path.partition("?")[0])
        if page is None:
            talk.answer(b"nothing here", "404 Not Found", content_type="text/plain")
        else:
            page(talk)

    with serving(respond) as served:
        yield served, pages


@pytest.fixture(scope="module")
def stays() -> Iterator[PersistentSidecar]:
    process = PersistentSidecar([str(Path(sys.executable).parent / "flytui-sidecar"), "web.search"], {})
    yield process
    assert process.end() == ""


@dataclass
class Said:
    """What was answered."""

    answer: dict[str, Any]
    events: list[dict[str, Any]]


@pytest.fixture
def ask(starter, stays: PersistentSidecar, web) -> Callable[..., Said]:
    """Call a tool with a path of the server as its address."""

    def run(tool: str, at: str = "", config: dict[str, Any] | None = None, **given: Any) -> Said:
        if at:
            given["url"] = web[0].url + at
        request = starter.request(tool, given, config=LOCAL if config is None else config)
        return Said(*stays.ask(request))

    return run


def _page(body: bytes, kind: str, **headers: str) -> Callable[[Talk], None]:
    return lambda talk: talk.answer(body, content_type=kind, **headers)


PACKED = _page(gzip.compress(b"x" * 11), "text/plain", content_encoding="gzip")


def test_what_is_not_listed_is_not_reached(ask, web) -> None:
    for tool, more in (
        ("web.fetch", {}),
        ("web.extract", {}),
        ("web.request", {"method": "GET"}),
        ("web.download", {"path": "x"}),
    ):
        answered = ask(tool, "/", {}, **more)
        assert answered.answer["code"] == "address-refused"
        assert "allowPrivate" in answered.answer["remedy"]
    assert web[0].connections == 0


@pytest.mark.parametrize("listed", ["localhost", "LOCALHOST.", "127.0.0.0/8"])
def test_hosts_and_networks_are_listed(ask, web, listed: str) -> None:
    port = web[0].port
    config = {"allowPrivate": [listed, "::1"]}
    answered = ask("web.request", config=config, method="GET", url=f"http://localhost:{port}/")
    assert answered.answer["status"] == 404


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"plain", "text/plain", "plain"),
        ("żółw".encode("iso-8859-2"), "text/plain; charset=ISO-8859-2", "żółw"),
        ("żółw".encode("utf-16"), "text/plain", "żółw"),
        ("\ufeffżółw".encode(), "text/plain; charset=latin-1", "żółw"),
        (b"\x80 1", "text/plain; charset=iso-8859-1", "€ 1"),
        (b"a\xffb\0c", "text/plain; charset=zlib", "a\ufffdb\ufffdc"),
        (b"a", "text/plain; charset=punycode", "a"),
        (b'{"a": 1}', "application/problem+json", '{"a": 1}'),
        (b"", "text/html", ""),
        (b"no type", "", "no type"),
    ],
)
def test_fetch_gives_text(ask, web, body: bytes, kind: str, text: str) -> None:
    web[1]["/a"] = _page(body, kind)
    answer = ask("web.fetch", "/a").answer
    assert (answer["ok"], answer["status"], answer["text"], answer["truncated"]) == (True, 200, text, False)
    assert (answer["contentType"], answer["bytes"], answer["url"]) == (kind, len(body), web[0].url + "/a")


@pytest.mark.parametrize(
    ("body", "kind"), [(b"\x89PNG", "image/png"), (b"a\0b", ""), (b"PK\x03\x04", "application/octet-stream")]
)
def test_fetch_of_what_is_no_text(ask, web, body: bytes, kind: str) -> None:
    web[1]["/a"] = _page(body, kind)
    answer = ask("web.fetch", "/a").answer
    assert (answer["code"], answer["status"], answer["contentType"]) == ("not-text", 200, kind)


def test_fetch_is_cut_at_the_limit(ask, web) -> None:
    web[1]["/a"] = _page(gzip.compress(b"x" * (6 * MIB)), "text/plain", content_encoding="gzip")
    answer = ask("web.fetch", "/a").answer
    assert (len(answer["text"]), answer["truncated"]) == (5 * MIB, True)
    answer = ask("web.fetch", "/a", {**LOCAL, "maxBytes": 10}).answer
    assert (answer["text"], answer["truncated"]) == ("x" * 10, True)


def test_fetch_says_what_the_server_says(ask) -> None:
    answer = ask("web.fetch", "/nowhere").answer
    assert (answer["ok"], answer["status"], answer["text"]) == (True, 404, "nothing here")


def test_extract_keeps_the_main_text(ask, web) -> None:
    web[1]["/a"] = _page(PAGE.encode("iso-8859-2"), "text/html")
    answer = ask("web.extract", "/a").answer
    assert answer["title"] == "Ty&tuł"
    assert answer["extractor"] in ("trafilatura", "builtin")
    for part in ("First paragraph, with bold words in it.", "Second paragraph: żółw."):
        assert part in answer["text"]
    for part in ("not this", "Menu", "Imprint"):
        assert part not in answer["text"]


def test_extract_of_what_is_no_page(ask, web) -> None:
    web[1]["/text"] = _page(b"only <text>", "text/plain")
    answer = ask("web.extract", "/text").answer
    assert (answer["text"], answer["extractor"]) == ("only <text>", "none")
    web[1]["/picture"] = _page(b"\x89PNG", "image/png")
    assert ask("web.extract", "/picture").answer["code"] == "not-text"
    assert ask("web.extract", "/nowhere").answer["code"] == "http-status"


def test_request_sends_what_it_was_given(ask, web) -> None:
    web[1]["/a"] = lambda talk: talk.answer(
        talk.body[::-1], "201 Created", content_type="text/plain", x_twice="1"
    )
    headers = {"X-Token": "t", "Content-Type": "text/x", "User-Agent": "mine"}
    answer = ask("web.request", "/a", method="PUT", headers=headers, body="żb").answer
    assert (answer["status"], answer["headers"]["x-twice"]) == (201, "1")
    (asked,) = web[0].asked
    assert asked.head.startswith("PUT /a HTTP/1.1\r\n")
    assert asked.body == "żb".encode()
    assert [asked.header(name) for name in headers] == list(headers.values())
    assert asked.head.lower().count("\r\nhost:") == 1


def test_request_of_what_is_no_text_has_still_been_made(ask, web) -> None:
    web[1]["/a"] = _page(b"\x89PNG", "image/png")
    answer = ask("web.request", "/a", method="POST").answer
    assert (answer["ok"], answer["binary"], answer["bytes"], "text" in answer) == (True, True, 4, False)
    head = ask("web.request", "/a", method="HEAD").answer
    assert (head["status"], head["headers"]["content-length"], head["bytes"]) == (200, "4", 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "inner"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Proxy-Authorization": "x"},
        {"A b": "c"},
        {"A:": "c"},
        {"": "c"},
        {"A": "b\r\nC: d"},
        {"A": "b\0"},
        {"A": "é"},
        {"A": "b", "a": "c"},
        {"A": 7},
    ],
)
def test_headers_that_say_how_a_message_is_sent(ask, web, headers: dict[str, Any]) -> None:
    assert ask("web.request", "/", method="GET", headers=headers).answer["code"] == "invalid-input"
    assert web[0].connections == 0


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", "302 Found", ("GET", b"")),
        ("POST", "303 See Other", ("GET", b"")),
        ("PUT", "303 See Other", ("GET", b"")),
        ("POST", "307 Temporary", ("POST", b"data")),
        ("PUT", "301 Moved", ("PUT", b"data")),
    ],
)
def test_what_a_redirect_makes_of_a_request(ask, web, method: str, status: str, then: tuple) -> None:
    web[1]["/a"] = lambda talk: talk.answer(b"", status, location="/b")
    web[1]["/b"] = _page(b"there", "text/plain")
    answer = ask("web.request", "/a", method=method, body="data", headers={"Content-Type": "text/x"}).answer
    assert (answer["text"], answer["url"]) == ("there", web[0].url + "/b")
    _, second = web[0].asked
    assert (second.head.partition(" ")[0], second.body) == then
    assert second.header("Content-Type") == ("text/x" if then[1] else None)


def test_a_body_never_goes_along_to_another_origin(ask, web) -> None:
    with serving(lambda talk: talk.answer(b"got it")) as other:
        web[1]["/a"] = lambda talk: talk.answer(b"", "307 Temporary", location=other.url)
        answer = ask("web.request", "/a", method="POST", body="data").answer
        assert answer["code"] == "redirect-refused"
        assert other.connections == 0


def test_download_saves_a_new_file(ask, web, starter) -> None:
    data = bytes(range(256)) * 4096 * 3
    web[1]["/data"] = _page(data, "application/x-thing; v=1")
    answered = ask("web.download", "/data", path="downloads/new/data.bin")
    file = starter.project / "downloads" / "new" / "data.bin"
    assert file.read_bytes() == data
    assert [path.name for path in file.parent.iterdir()] == ["data.bin"]
    answer = answered.answer
    assert (answer["bytes"], answer["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    artifact = {"path": str(file), "mimeType": "application/x-thing", "bytes": len(data)}
    assert answer["artifacts"] == [artifact]
    told = [event["progress"] // MIB for event in answered.events]
    assert told in ([1, 2], [1, 2, 3])
    assert {event["total"] for event in answered.events} == {len(data)}


@pytest.mark.parametrize(
    ("page", "config", "code"),
    [
        (_page(b"x" * 11, "text/plain"), {"maxDownloadBytes": 10}, "too-big"),
        (PACKED, {"maxDownloadBytes": 10}, "too-big"),
        (_page(b"x" * 11, "text/plain", content_length="20"), {}, "broken-response"),
        (_page(b"x", "text/plain", status="500 No"), {}, "http-status"),
        (lambda talk: talk.endlessly(b"HTTP/1.1 200 OK\r\n", 0.02), {"downloadTimeoutMs": 300}, "timed-out"),
    ],
    ids=["too-long", "unpacked-too-long", "too-short", "refused", "drips"],
)
def test_download_leaves_nothing_that_is_not_whole(ask, web, starter, page, config, code: str) -> None:
    web[1]["/data"] = page
    assert ask("web.download", "/data", {**LOCAL, **config}, path="data.bin").answer["code"] == code
    assert list(starter.project.iterdir()) == []


def test_download_of_nothing(ask, web, starter) -> None:
    web[1]["/data"] = _page(b"", "text/plain")
    assert ask("web.download", "/data", path="empty").answer["bytes"] == 0
    assert (starter.project / "empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("there", "exists"),
        ("folder", "exists"),
        ("../out", "outside-project"),
        ("link/out", "outside-project"),
        ("/etc/flytui-test", "outside-project"),
    ],
)
def test_download_to_where_it_may_not(ask, web, starter, path: str, code: str) -> None:
    (starter.project / "there").write_text("mine")
    (starter.project / "folder").mkdir()
    (starter.project / "link").symlink_to(starter.project.parent)
    assert ask("web.download", "/data", path=path).answer["code"] == code
    assert (starter.project / "there").read_text() == "mine"
    assert not (starter.project.parent / "out").exists()


def test_no_proxy_of_the_environment_is_used(starter, web) -> None:
    with serving(lambda talk: talk.answer(b"through the proxy")) as proxy:
        env = {**starter.env, **dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), proxy.url)}
        answered = starter.call("web.search", "web.fetch", {"url": web[0].url + "/"}, env=env, config=LOCAL)
        assert answered.answer["status"] == 404
        assert proxy.connections == 0


@pytest.mark.parametrize(
    "config",
    [
        {"allowPrivate": "127.0.0.1"},
        {"allowPrivate": ["10.0.0.1/8"]},
        {"allowPrivate": [""]},
        {"maxBytes": 0},
        {"maxBytes": 5 * MIB + 1},
        {"timeoutMs": "1"},
        {"cacheTtlMs": True},
    ],
)
def test_a_mistake_in_config_is_named(ask, config: dict[str, Any]) -> None:
    answer = ask("web.fetch", "/", config).answer
    assert answer["code"] == "invalid-config"
    assert answer["field"] in config


def test_a_process_that_stays_answers_from_memory(starter, web) -> None:
    web[1]["/a"] = _page(b"a", "text/plain")
    config = {**LOCAL, "cacheTtlMs": 3_600_000}
    given = {"url": web[0].url + "/a"}

    def request(number: int, tool: str, input: dict[str, Any], config: dict[str, Any]) -> bytes:
        return starter.request(tool, input, config=config, requestId=str(number), persistent=True)

    lines = [
        request(1, "web.fetch", given, config),
        request(2, "web.fetch", given, config),
        request(3, "web.extract", given, config),
        request(4, "web.fetch", given, {**config, "maxBytes": 9}),
        request(5, "web.request", {**given, "method": "GET"}, config),
        request(6, "web.request", {**given, "method": "GET"}, config),
        request(7, "web.fetch", given, LOCAL),
    ]
    done = subprocess.run(
        starter.argv("web.search"), input=b"".join(lines), capture_output=True, env=starter.env, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["text"] for answer in answers] == ["a"] * 7
    assert [answer.get("cached", False) for answer in answers] == [False, True, *[False] * 5]
    assert web[0].connections == 6
