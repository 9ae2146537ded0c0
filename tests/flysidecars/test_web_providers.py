"""`web.search` against a server that plays SearXNG, Brave and Tavily as their references describe them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from flysidecars.web.probe import probe_search
from kits.web_servers import PersistentSidecar, Talk, Web, serving

KEY = "key-of-a-test-0123456789"
WANTED = [
    {"title": "First & best", "url": "https://one.example/", "snippet": "About the first thing."},
    {"title": "Second", "url": "https://two.example/x?y=1", "snippet": ""},
]
QUERY = "zwei wörter & mehr"


def _searxng(talk: Talk) -> None:
    asked = parse_qs(urlsplit(talk.path).query)
    if asked != {"q": [QUERY], "format": ["json"]}:
        talk.answer(b"", "403 Forbidden")
        return
    rows = [
        {
            "title": "First &amp; best",
            "url": WANTED[0]["url"],
            "content": "About the first thing.",
            "engine": "a",
        },
        {"title": "Second", "url": WANTED[1]["url"], "content": None},
        {"title": "no address", "url": "javascript:alert(1)", "content": ""},
    ]
    talk.json({"query": QUERY, "number_of_results": 0, "results": rows, "suggestions": []})


def _brave(talk: Talk) -> None:
    asked = parse_qs(urlsplit(talk.path).query)
    if talk.header("X-Subscription-Token") != KEY:
        talk.answer(b'{"type": "ErrorResponse"}', "401 Unauthorized", content_type="application/json")
    elif asked != {"q": [QUERY], "count": ["20"]}:
        talk.answer(b"", "422 Unprocessable")
    else:
        rows = [
            {
                "title": "First &amp; best",
                "url": WANTED[0]["url"],
                "description": "About the <strong>first</strong>\n thing.",
            },
            {"title": "Second", "url": WANTED[1]["url"]},
        ]
        talk.json({"type": "search", "web": {"type": "search", "results": rows}})


def _tavily(talk: Talk) -> None:
    if talk.head.startswith("GET") or talk.header("Authorization") != f"Bearer {KEY}":
        talk.answer(b"", "401 Unauthorized")
    elif json.loads(talk.body) != {"query": QUERY, "max_results": 20}:
        talk.answer(b"", "400 Bad Request")
    else:
        rows = [
            {
                "title": "First & best",
                "url": WANTED[0]["url"],
                "content": "About the first thing.",
                "score": 0.9,
            },
            {"title": "Second", "url": WANTED[1]["url"], "content": ""},
        ]
        talk.json({"query": QUERY, "results": rows, "response_time": 0.1})


def _generic(talk: Talk) -> None:
    talk.json({"data": {"items": [{"name": "First & best", "link": "https://one.example/", "text": "x"}]}})


def _leads_away(talk: Talk) -> None:
    talk.answer(b"", "302 Found", location="http://169.254.169.254/latest")


PLAYED = {
    "/search": _searxng,
    "/brave": _brave,
    "/tavily": _tavily,
    "/generic": _generic,
    "/array": lambda talk: talk.json([{**row, "rank": 1} for row in WANTED]),
    "/away": _leads_away,
    "/broken": lambda talk: talk.answer(b"<html>", content_type="text/html"),
    "/deep": lambda talk: talk.answer(b"[" * 200_000, content_type="application/json"),
    "/other": lambda talk: talk.json({"results": {"a": 1}}),
    "/slow": lambda talk: talk.endlessly(b"", 0.02),
    "/busy": lambda talk: talk.answer(b"", "429 Too Many Requests"),
}


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(lambda talk: PLAYED[urlsplit(talk.path).path](talk)) as served:
        yield served


@pytest.fixture(scope="module")
def stays() -> Iterator[PersistentSidecar]:
    """A process that is given the keys of Brave and Tavily."""
    env = {"BRAVE_API_KEY": KEY, "TAVILY_API_KEY": KEY, "OWN_KEY": KEY, "WRONG_KEY": "another key"}
    env |= {"SPLIT_KEY": f"{KEY}\r\nX: y", "FOREIGN_KEY": f"é{KEY}"}
    process = PersistentSidecar([str(Path(sys.executable).parent / "flytui-sidecar"), "web.search"], env)
    yield process
    assert process.end() == ""


@pytest.fixture
def search(starter, stays: PersistentSidecar):
    def run(*providers: Any, count: int = 30, **config: Any) -> dict[str, Any]:
        whole = {"allowPrivate": ["127.0.0.1"], "providers": list(providers), **config}
        given = {"query": QUERY, "count": count}
        return stays.ask(starter.request("web.search", given, config=whole))[0]

    return run


@pytest.mark.parametrize("name", ["searxng", "brave", "tavily"])
def test_each_gives_results_of_one_shape(search, web: Web, name: str) -> None:
    url = {
        "searxng": web.url,
        "brave": f"{web.url}/brave?q={{query}}&count={{count}}",
        "tavily": f"{web.url}/tavily",
    }
    answer = search({"preset": name, "url": url[name]})
    assert answer == {"ok": True, "provider": name, "results": WANTED, "requestId": "01J0"}


def test_a_provider_of_one_s_own(search, web: Web) -> None:
    provider = {
        "name": "own",
        "url": f"{web.url}/generic?q={{query}}",
        "headers": {"X-Key": "k ${OWN_KEY}"},
        "resultPath": "data.items",
        "fields": {"title": "name", "url": "link", "snippet": "text"},
    }
    answer = search(provider)
    assert answer["results"] == [{"title": "First & best", "url": "https://one.example/", "snippet": "x"}]
    assert web.asked[0].header("X-Key") == f"k {KEY}"


def test_a_provider_may_answer_the_list_itself(search, web: Web) -> None:
    provider = {"name": "plain", "url": f"{web.url}/array?q={{query}}"}
    assert search(provider)["results"] == WANTED


def test_no_more_than_was_asked_for(search, web: Web) -> None:
    assert search({"preset": "searxng", "url": web.url}, count=1)["results"] == WANTED[:1]


def test_the_next_is_asked_and_the_first_one_s_error_named(search, web: Web) -> None:
    answer = search(
        {
            "preset": "brave",
            "url": f"{web.url}/brave?q={{query}}&count={{count}}",
            "headers": {"X-Subscription-Token": "${WRONG_KEY}"},
        },
        {"name": "gone", "url": f"{web.url}/busy?{{query}}"},
        {"preset": "searxng", "url": web.url},
    )
    assert (answer["provider"], answer["results"]) == ("searxng", WANTED)
    assert [(error["provider"], error["code"]) for error in answer["errors"]] == [
        ("brave", "http-status"),
        ("gone", "http-status"),
    ]
    assert "refuses the key (401)" in answer["errors"][0]["error"]


def test_when_none_answers_each_is_named(search, web: Web) -> None:
    paths = {
        "broken": "broken-response",
        "deep": "broken-response",
        "other": "broken-response",
        "away": "address-refused",
        "slow": "timed-out",
    }
    providers = [{"name": name, "url": f"{web.url}/{name}?q={{query}}"} for name in paths]
    answer = search(*providers, readTimeoutMs=300)
    assert answer["code"] == "providers-failed"
    assert {error["provider"]: error["code"] for error in answer["errors"]} == paths
    assert all(name in answer["error"] for name in paths)


def test_a_private_provider_is_asked_only_where_it_is_listed(search, web: Web) -> None:
    answer = search({"preset": "searxng", "url": web.url}, allowPrivate=[])
    assert answer["errors"][0]["code"] == "address-refused"
    assert web.connections == 0


def test_a_secret_is_never_said(search, web: Web) -> None:
    for name in ("OWN_KEY", "SPLIT_KEY", "FOREIGN_KEY"):
        provider = {"url": f"{web.url}/away?q={{query}}", "headers": {"Authorization": f"${{{name}}}"}}
        answer = search(provider)
        assert answer["ok"] is False
        assert KEY not in json.dumps(answer)
    assert len(web.asked) == 1


def _probe(starter, config: dict[str, Any], **env: str) -> dict[str, Any]:
    answered = starter.call(
        "web.search", "web.search", {"probe": True}, env={**starter.env, **env}, config=config
    )
    assert answered.answer["ok"] is True
    tools = answered.answer["tools"]
    assert all(
        tools.pop(f"web.{name}")["status"] == "healthy"
        for name in ("fetch", "extract", "request", "download")
    )
    found: dict[str, Any] = tools.pop("web.search")
    assert tools == {}
    return found


def test_the_probe_says_what_to_write(starter) -> None:
    none = _probe(starter, {})
    assert (none["status"], none["code"]) == ("unavailable", "tool-unavailable")
    assert '"providers"' in none["remedy"]
    keyless = _probe(starter, {"providers": ["brave"]})
    assert (keyless["status"], keyless["code"]) == ("unavailable", "secret-missing")
    assert '"secrets": ["BRAVE_API_KEY"]' in keyless["remedy"]
    assert _probe(starter, {"providers": ["brave"]}, BRAVE_API_KEY=KEY)["status"] == "healthy"
    both = {"providers": ["brave", {"preset": "searxng", "url": "http://127.0.0.1:8888"}]}
    assert _probe(starter, both)["status"] == "healthy"


def test_without_a_provider_the_tool_says_so_itself(search) -> None:
    answer = search()
    assert answer["code"] == "unavailable"
    assert '"providers"' in answer["remedy"]
    answer = search({"preset": "tavily", "headers": {"Authorization": "${NO_KEY}"}})
    assert (answer["code"], answer["reasonCode"]) == ("unavailable", "secret-missing")


@pytest.mark.parametrize(
    "provider",
    [
        7,
        "bing",
        {},
        {"preset": "searxng"},
        {"preset": []},
        {"url": "https://a.example/"},
        {"url": "file:///etc/passwd"},
        {"url": "https://a.example/{query}", "headers": {"A": 1}},
        {"url": "https://a.example/{query}", "fields": []},
        {"url": "https://a.example/{query}", "most": 0},
        {"url": "https://a.example/{query}", "resultPath": 1},
        {"url": "https://a.example/{query}", "name": ""},
        {"url": "https://a.example/{query}", "api_key": "x"},
    ],
)
def test_a_mistake_in_a_provider_is_named(search, provider: Any) -> None:
    assert search(provider)["code"] in ("invalid-config", "invalid-url")
    assert probe_search({"providers": [provider]}, {})["status"] == "unavailable"
