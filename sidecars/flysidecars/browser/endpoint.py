"""The browser's debugging endpoint, and its HTTP interface that lists, opens and closes tabs."""

from __future__ import annotations

import json
import os
import re
import socket
import time

from flysafe.addresses import is_loopback, parse_address
from flysafe.pinned_dns import AllowList, HostUnresolved, connect_pinned, parse_allow_list, pinned_addresses
from flysidecars.sdk import JsonObject, ToolFailed, Unavailable

DEFAULT_ENDPOINT = "http://127.0.0.1:9222"
ENDPOINT_VARIABLE = "FLYFLOR_BROWSER_CDP_URL"
ANSWER_S = 5.0
"""The longest wait for an answer over HTTP, seconds. The browser gives these answers at once."""
CLOSE_S = 2.0
"""The longest wait for a closed tab to leave the list, seconds."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ADDRESS = re.compile(r"http://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?/?")


class Endpoint:
    """Host and port of the browser's debugging server. An IPv6 host is in brackets."""

    __slots__ = ("_allowed", "host", "port")

    def __init__(self, host: str, port: int, allowed: AllowList) -> None:
        self.host = host
        self.port = port
        self._allowed = allowed

    def connect(self, seconds: float) -> socket.socket:
        """Connect to the debugging server. Resolving and connecting may each take `seconds`. Raises
        `OSError`."""
        addresses = pinned_addresses(self.host.strip("[]"), self.port, seconds, self._allowed)
        return connect_pinned(addresses, self.port, seconds)

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"{self.host}:{self.port}"


class Tab:
    """A tab of the browser that shows a page."""

    __slots__ = ("endpoint", "id", "socket", "title", "url")

    def __init__(self, endpoint: Endpoint, id: str, socket: str, url: str, title: str) -> None:
        self.endpoint = endpoint
        self.id = id
        self.socket = socket
        """The WebSocket URL for commands, at the endpoint's host and port."""
        self.url = url
        self.title = title


def endpoint_of(config: JsonObject) -> Endpoint:
    """The endpoint of `config.endpoint`, else of the environment, else the default.

    A host other than this machine must be listed in `config.allowHosts`. Raises `ToolFailed`
    (`endpoint-refused`).
    """
    named = config.get("endpoint") or os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
    found = _ADDRESS.fullmatch(named) if isinstance(named, str) else None
    if found is None or not 1 <= int(found[2] or 80) <= 65535:
        raise ToolFailed("endpoint-refused", f"the endpoint is not of the form {DEFAULT_ENDPOINT}")
    host, port = found[1].lower(), int(found[2] or 80)
    listed = config.get("allowHosts")
    allowed, _ = parse_allow_list(listed if isinstance(listed, list) else [], own_machine=True)
    plain = host.strip("[]")
    # The protocol has no login: who connects uses the browser with all its sessions. Sending input to a
    # browser elsewhere has to be a choice that the entry states.
    if _is_local(host) or allowed.lists(plain, parse_address(plain)):
        return Endpoint("127.0.0.1" if host == "localhost" else host, port, allowed)
    raise ToolFailed(
        "endpoint-refused",
        f"the endpoint's host {host} is not this machine",
        remedy='list it in "allowHosts" of the entry\'s config, if you mean it',
    )


def _is_local(host: str) -> bool:
    address = parse_address(host.strip("[]"))
    return host == "localhost" or (address is not None and is_loopback(address))


def require_browser(endpoint: Endpoint) -> None:
    """Raise `Unavailable` if no browser answers at the endpoint."""
    version = _request(endpoint, "GET", "/json/version")
    if not isinstance(version, dict) or "webSocketDebuggerUrl" not in version:
        raise _unreachable(endpoint, "the server there is not a browser with remote debugging")


def pages(endpoint: Endpoint) -> list[Tab]:
    """The tabs that show a page, the most recently active first. Raises `Unavailable`."""
    listed = _request(endpoint, "GET", "/json/list")
    if not isinstance(listed, list):
        raise _unreachable(endpoint, "the server there is not a browser with remote debugging")
    rows = [row for row in listed if isinstance(row, dict) and row.get("type") == "page"]
    ours = [row for row in rows if str(row.get("url")).startswith(("http:", "https:", "about:blank"))]
    return [_tab(endpoint, row) for row in ours]


def new_tab(endpoint: Endpoint) -> Tab:
    """Open a new, empty, active tab. Raises `Unavailable`, `ToolFailed`."""
    made = _request(endpoint, "PUT", "/json/new?about:blank")
    if not isinstance(made, dict):
        raise ToolFailed("browser-failed", "the browser opened no tab")
    return _tab(endpoint, made)


def close_tab(endpoint: Endpoint, tab: Tab) -> None:
    """Close a tab and wait until the browser does not list it any more, at most `CLOSE_S`."""
    # As long as the tab is listed, it is the most recently active one and the next call would use it.
    _request(endpoint, "GET", f"/json/close/{tab.id}")
    end = time.monotonic() + CLOSE_S
    while time.monotonic() < end and any(other.id == tab.id for other in pages(endpoint)):
        time.sleep(0.02)


def _tab(endpoint: Endpoint, row: JsonObject) -> Tab:
    """The tab of a row of the list. Raises `ToolFailed` if its socket is not at the endpoint."""
    name, address = row.get("id"), row.get("webSocketDebuggerUrl")
    path = f"/devtools/page/{name}"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
        raise ToolFailed("browser-failed", "the browser named a tab without an id")
    if address not in (f"ws://{endpoint.authority}{path}", f"ws://localhost:{endpoint.port}{path}"):
        raise ToolFailed("endpoint-refused", "the browser names a socket at another host or port")
    url, title = str(row.get("url", "")), str(row.get("title", ""))
    return Tab(endpoint, name, f"ws://{endpoint.authority}{path}", url, title)


def _request(endpoint: Endpoint, method: str, path: str) -> object:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(endpoint.host.strip("[]"), endpoint.port)
    try:
        connection.sock = endpoint.connect(ANSWER_S)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER_BYTES + 1)
    except HostUnresolved as unknown:
        raise _unreachable(endpoint, str(unknown)) from unknown
    except (OSError, HTTPException) as failed:
        why = failed.strerror if isinstance(failed, OSError) else ""
        # Where nothing listens, that there is no browser says it all.
        why = "" if isinstance(failed, ConnectionRefusedError) else why or "no answer in the form of HTTP"
        raise _unreachable(endpoint, why) from failed
    finally:
        connection.close()
    if answer.status != 200 or len(body) > MAX_ANSWER_BYTES:
        raise _unreachable(endpoint, f"it answered {answer.status} with {len(body)} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _unreachable(endpoint: Endpoint, why: str) -> Unavailable:
    reason = f"no browser at {endpoint.authority}{': ' if why else ''}{why}"
    if not _is_local(endpoint.host):
        return Unavailable(reason, "check that it runs with remote debugging and can be reached from here")
    from flysidecars.run_program import find_program

    browser = next((name for name in BROWSERS if find_program(name)), BROWSERS[0])
    folder = '"$HOME/.cache/flytui-browser"'
    start = f"{browser} --remote-debugging-port={endpoint.port} --user-data-dir={folder}"
    return Unavailable(reason, f"start one: {start} (with --headless where no window is wanted)")
