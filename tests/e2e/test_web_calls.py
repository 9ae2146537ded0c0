"""The web's tools through the kernel, with a loopback server that the entries list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.scenes import allow, assert_whole, call, write_registry
from kits.terminals import Root, make_root
from kits.web_servers import Talk, Web, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEY = "key-of-a-test-0123456789"
TOOLS = ("web.search", "web.fetch", "web.extract", "web.request", "web.download")


def _respond(talk: Talk) -> None:
    row = {"title": "One", "url": "https://one.example/", "content": "first", "description": "first"}
    if talk.path.startswith("/brave"):
        talk.json({"web": {"results": [row] if talk.header("X-Subscription-Token") == KEY else []}})
    elif talk.path.startswith(("/search", "/tavily")):
        talk.json({"results": [row]})
    else:
        talk.answer(b"<title>T</title><p>Some text of a page.</p>", content_type="text/html")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(_respond) as served:
        yield served


def _entry(tools: tuple[str, ...], permissions: dict[str, Any], **more: Any) -> dict[str, Any]:
    program = {"command": "flytui-sidecar", "args": ["web.search"], "tools": list(tools)}
    return {**program, "permissions": {"network": True, **permissions}, **more}


@pytest.fixture
def root(tmp_path: Path, web: Web) -> Iterator[Root]:
    root = make_root(tmp_path, "{}")
    root.extra["BRAVE_API_KEY"] = KEY
    local = {"allowPrivate": ["127.0.0.1"]}
    brave = {"preset": "brave", "url": f"{web.url}/brave?q={{query}}&count={{count}}"}
    write_registry(
        root,
        {
            "web.search": _entry(
                TOOLS[:1], {"secrets": ["BRAVE_API_KEY"]}, config={**local, "providers": [brave]}
            ),
            "web.pages": _entry(TOOLS[1:4], {}, config=local, kind="process-json-persistent"),
            "web.files": _entry(TOOLS[4:], {"fs": {"write": ["downloads"]}}, config=local),
        },
    )
    allow(root, *TOOLS)
    root.trust()
    yield root
    root.end()


def test_each_tool_works(root: Root, web: Web) -> None:
    url = f"{web.url}/page"
    given: dict[str, dict[str, Any]] = {
        "web.search": {"query": "x"},
        "web.fetch": {"url": url},
        "web.extract": {"url": url},
        "web.request": {"method": "GET", "url": url},
        "web.download": {"url": url, "path": "downloads/page.html"},
    }
    outputs = {}
    for tool in TOOLS:
        code, result = call(root, tool, given[tool])
        assert (code, result["status"], result["warnings"]) == (0, "success", []), result
        outputs[tool] = result["output"]
    assert outputs["web.search"]["results"] == [
        {"title": "One", "url": "https://one.example/", "snippet": "first"}
    ]
    assert "Some text of a page." in outputs["web.extract"]["text"]
    assert (root.folder / "downloads" / "page.html").stat().st_size == outputs["web.download"]["bytes"]
    assert_whole(root)


def test_without_a_provider_it_says_what_to_write(root: Root) -> None:
    write_registry(root, {"web.search": _entry(TOOLS[:1], {}, config={"providers": []})})
    root.trust()
    code, result = call(root, "web.search", {"query": "x"})
    assert (code, result["status"], result["error"]["code"]) == (3, "unavailable", "tool-unavailable")
    assert '"providers"' in str(result["error"])


def test_a_secret_that_is_not_declared(root: Root) -> None:
    write_registry(root, {"web.search": _entry(TOOLS[:1], {}, config={"providers": ["brave"]})})
    root.trust()
    code, result = call(root, "web.search", {"query": "x"})
    assert (code, result["status"]) == (3, "unavailable")
    assert '"secrets": ["BRAVE_API_KEY"]' in result["error"]["hint"], result


def test_the_inside_is_not_reached(root: Root, web: Web) -> None:
    write_registry(root, {"web.pages": _entry(TOOLS[1:4], {})})
    root.trust()
    code, result = call(root, "web.fetch", {"url": f"{web.url}/page"})
    assert (code, result["error"]["details"]["code"]) == (1, "address-refused")
    assert web.connections == 0
