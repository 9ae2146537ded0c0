"""Where `browser.cdp` connects to, and what it says when nobody is there; no browser is needed."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from flysidecars.browser import endpoint as endpoint_module
from flysidecars.browser.accessibility_tree import list_elements, make_ref, parse_ref
from flysidecars.browser.endpoint import ENDPOINT_VARIABLE, endpoint_of, pages, require_browser
from flysidecars.sdk import ToolFailed, Unavailable
from kits.private_addresses import NOT_PUBLIC
from kits.tables import each_row

ID = "AB12"


@contextmanager
def answering(answer: Any, status: int = 200) -> Iterator[dict[str, Any]]:
    """A server that gives one answer to everything; the config that leads there."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.end_headers()
            try:
                self.wfile.write(body.replace(b"PORT", str(server.server_port).encode()))
            except OSError:
                return  # more than anybody reads

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {"endpoint": f"http://127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("http://localhost:9300/", "127.0.0.1:9300"),
        ("http://127.8.9.1", "127.8.9.1:80"),
        ("http://[::1]:9222", "[::1]:9222"),
    ],
)
def test_this_machine(named: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT_VARIABLE, named)
    assert endpoint_of({}).authority == place
    assert endpoint_of({"endpoint": "http://127.0.0.1:9"}).authority == "127.0.0.1:9"
    monkeypatch.delenv(ENDPOINT_VARIABLE)
    assert endpoint_of({}).authority == "127.0.0.1:9222"


@each_row(
    "named",
    [
        "http://browser.lan:9222",
        "http://10.0.0.1:9222",
        "http://0.0.0.0:9222",
        "http://127.0.0.1.evil.test:9222",
        "http://127.0.0.1@evil.test",
        "http://user:pass@127.0.0.1:9222",
        "https://127.0.0.1:9222",
        "http://127.0.0.1:9222/json",
        "http://127.0.0.1:99999",
        "127.0.0.1:9222",
        "http://127.0.0.1:9222\r\nX: y",
        7,
    ],
)
def test_elsewhere_is_refused(named: object) -> None:
    with pytest.raises(ToolFailed) as refused:
        endpoint_of({"endpoint": named, "allowHosts": ["other.lan"]})
    assert refused.value.code == "endpoint-refused"


def test_another_host_when_config_lists_it() -> None:
    config = {"endpoint": "http://browser.lan:9222", "allowHosts": ["browser.lan"]}
    assert endpoint_of(config).authority == "browser.lan:9222"
    for place, listed in (("10.0.0.1:9222", "10.0.0.0/8"), ("[fd00::1]:80", "[fd00::1]")):
        assert endpoint_of({"endpoint": f"http://{place}", "allowHosts": [listed]}).authority == place


@pytest.mark.suite
@pytest.mark.parametrize("address", [*NOT_PUBLIC, "93.184.215.14"])
def test_only_this_machine_is_met_unless_config_lists_it(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    host = f"[{address}]" if ":" in address else address
    if address not in ("127.0.0.1", "::1"):
        with pytest.raises(ToolFailed) as refused:
            endpoint_of({"endpoint": f"http://{host}:9", "allowHosts": ["browser.lan"]})
        assert refused.value.code == "endpoint-refused"


def test_a_name_is_resolved_within_the_time_and_the_address_is_what_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_module, "ANSWER_S", 0.2)
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    elsewhere = {"endpoint": "http://browser.lan:9", "allowHosts": ["browser.lan"]}
    with pytest.raises(Unavailable, match="no address was found"):
        require_browser(endpoint_of(elsewhere))
    release.set()
    with answering([]) as config:
        port = int(config["endpoint"].rpartition(":")[2])
        found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        # Connecting asks for the address, which is answered as it is; the name leads there only once.
        names = iter(["browser.lan"])
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *_, **__: [found] if host == "127.0.0.1" or next(names) else [],
        )
        assert (
            pages(endpoint_of({"endpoint": f"http://browser.lan:{port}", "allowHosts": ["browser.lan"]}))
            == []
        )


@each_row(
    "socket",
    [
        "ws://evil.test:80/devtools/page/AB12",
        "ws://127.0.0.1:1/devtools/page/AB12",
        "ws://127.0.0.1:PORT/devtools/page/OTHER",
        "wss://127.0.0.1:PORT/devtools/page/AB12",
        None,
    ],
)
def test_a_socket_elsewhere_is_not_followed(socket: str | None) -> None:
    row = {"type": "page", "id": ID, "url": "http://x/", "webSocketDebuggerUrl": socket}
    with answering([row]) as config, pytest.raises(ToolFailed) as refused:
        pages(endpoint_of(config))
    assert refused.value.code == "endpoint-refused"


def test_only_web_pages_are_tabs() -> None:
    def row(url: str, kind: str = "page") -> dict[str, str]:
        socket = f"ws://127.0.0.1:PORT/devtools/page/{ID}"
        return {"type": kind, "id": ID, "url": url, "title": "t", "webSocketDebuggerUrl": socket}

    rows = [row("chrome://settings"), row("file:///etc"), row("https://x/", "worker"), row("https://x/")]
    with answering([*rows, row("about:blank"), "nonsense"]) as config:
        assert [tab.url for tab in pages(endpoint_of(config))] == ["https://x/", "about:blank"]


@each_row(
    ("answer", "status"),
    [({}, 200), ([], 200), (b"\xff\xfe", 200), (b"[" * 100_000, 200), ({}, 404), (b"x" * 5_000_000, 200)],
)
def test_what_is_no_browser_is_unavailable(answer: Any, status: int) -> None:
    with answering(answer, status) as config, pytest.raises(Unavailable):
        require_browser(endpoint_of(config))


def closed_port() -> int:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return int(server.server_port)


def test_each_tool_says_how_to_start_one(starter) -> None:
    port = closed_port()
    config = {"endpoint": f"http://127.0.0.1:{port}"}
    probed = starter.call("browser.cdp", "browser.open", {"probe": True}, config=config).answer
    assert len(probed["tools"]) == 7
    for found in probed["tools"].values():
        assert found["status"] == "unavailable"
        assert f"--remote-debugging-port={port} --user-data-dir=" in found["remedy"]
    called = starter.call("browser.cdp", "browser.snapshot", {}, config=config).answer
    assert (called["ok"], called["code"]) == (False, "unavailable")
    assert f"--remote-debugging-port={port}" in called["remedy"]


def test_a_refused_endpoint_is_unavailable_with_its_reason(starter) -> None:
    config = {"endpoint": "http://browser.lan:9222"}
    probed = starter.call("browser.cdp", "browser.open", {"probe": True}, config=config).answer
    found = probed["tools"]["browser.click"]
    assert found["status"] == "unavailable"
    assert "allowHosts" in found["remedy"]


def test_refs() -> None:
    assert parse_ref(make_ref(12, "0a1b2c3d")) == (12, "0a1b2c3d")
    for selector in ("e12", "e0-0a1b2c3d", "e12-0A1B2C3D", "e12-0a1b2c3d ", "#e12-0a1b2c3d", "e12-0a1b2c3d9"):
        assert parse_ref(selector) is None


def ax(number: int, role: str, name: str = "", children: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "nodeId": str(number),
        "backendDOMNodeId": number,
        "role": {"value": role},
        "name": {"value": name},
        "childIds": [str(child) for child in children],
        **more,
    }


def test_the_list_follows_reading_order_and_drops_what_says_nothing() -> None:
    states = [
        {"name": "disabled", "value": {"value": True}},
        {"name": "focusable", "value": {"value": True}},
        {"name": "expanded", "value": {"value": False}},
        {"name": "checked", "value": {"value": "mixed"}},
        {"name": "invalid", "value": {"value": "false"}},
    ]
    tree = [
        ax(1, "RootWebArea", "Title", (2, 5)),
        ax(5, "button", "Go", (6,), parentId="1", properties=states),
        ax(6, "StaticText", "Go", parentId="5"),
        ax(2, "generic", "", (3, 4), parentId="1"),
        ax(3, "StaticText", "plain", parentId="2"),
        ax(4, "none", "", (4, 99), parentId="2", ignored=True),
    ]
    nodes = list_elements([tree], "00000000").nodes
    assert [(row["target"], row["role"], row.get("name")) for row in nodes] == [
        ("e1-00000000", "RootWebArea", "Title"),
        ("e2-00000000", "text", "plain"),
        ("e5-00000000", "button", "Go"),
    ]
    assert nodes[2]["states"] == ["disabled", "not expanded", "half checked"]
    assert [row["target"] for row in list_elements([tree], "00000000", within=5).nodes] == ["e5-00000000"]


def test_a_tree_of_nonsense_is_an_empty_list() -> None:
    assert (
        list_elements([[{}, {"nodeId": 1, "childIds": "x", "role": 3}, {"properties": [1, {}]}]], "0").nodes
        == []
    )
