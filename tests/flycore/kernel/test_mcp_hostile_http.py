"""MCP servers on HTTP that mean harm: broken, endless and packed answers, and calls that are sent once."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Status
from kits.kernel import Root, kernel_of, request
from kits.mcp_servers import connected

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
ATTACKS = ["broken", "ended", "packed", "endless", "again", "forgotten", "long"]


class Web:
    """A server that answers each tool by another attack, and what it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gets = 0
        self.over = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                web.gets += 1
                if self.headers.get("last-event-id"):
                    self.events()
                    self.event("", "retry: 0\nid: 7\n")
                else:
                    self.plain(405, b"")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                number, method = body.get("id"), body.get("method")
                if number is None:
                    self.plain(202, b"")
                elif method == "initialize":
                    result = {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "web", "version": "1"},
                    }
                    self.result(number, result)
                elif method == "tools/list":
                    tools = [
                        {"name": name, "inputSchema": {"type": "object"}} for name in ("hello", *ATTACKS)
                    ]
                    self.result(number, {"tools": tools})
                elif method == "tools/call":
                    web.calls.append(body["params"]["name"])
                    self.attack(number, body["params"]["name"])
                else:
                    error = {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
                    self.plain(200, json.dumps(error).encode())

            def attack(self, number: int, name: str) -> None:
                said = {"content": [{"type": "text", "text": name}]}
                whole = json.dumps({"jsonrpc": "2.0", "id": number, "result": said}).encode()
                if name == "broken":
                    self.head(200, "application/json", 1000)
                    self.wfile.write(whole[:20])
                    self.close_connection = True
                elif name == "ended":
                    self.events()
                elif name == "again":
                    self.events()
                    self.event("", "retry: 0\nid: 7\n")
                elif name == "packed":
                    packed = gzip.compress(b" " * 50_000_000 + whole)
                    self.plain(200, packed, ("Content-Encoding", "gzip"))
                elif name == "long":
                    self.head(200, "application/json", 200_000_000)
                    self.pour(b'"' + b" " * 65_536)
                elif name == "endless":
                    self.events()
                    self.pour(b": still here\n\n" * 1000)
                elif name == "forgotten":
                    self.plain(404, b"")
                else:
                    self.plain(200, whole)

            def pour(self, piece: bytes) -> None:
                try:
                    while not web.over.is_set():
                        self.wfile.write(piece)
                except OSError:
                    self.close_connection = True

            def result(self, number: int, result: dict[str, Any]) -> None:
                body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
                self.plain(200, body, ("Mcp-Session-Id", "one"))

            def events(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def event(self, data: str, more: str) -> None:
                self.wfile.write(f"{more}data: {data}\n\n".encode())
                self.wfile.flush()

            def head(self, status: int, kind: str, size: int, *more: tuple[str, str]) -> None:
                self.send_response(status)
                for name, value in (("Content-Type", kind), ("Content-Length", str(size)), *more):
                    self.send_header(name, value)
                self.end_headers()

            def plain(self, status: int, body: bytes, *more: tuple[str, str]) -> None:
                self.head(status, "application/json", len(body), *more)
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def web() -> Iterator[Web]:
    """The server."""
    made = Web()
    yield made
    made.close()


@pytest.fixture
def root(tmp_path: Path, web: Web) -> Root:
    """A root with the server as `web`; everything is allowed."""
    made = Root(tmp_path)
    made.policy(ALLOW)
    url = f"http://127.0.0.1:{web.port}/mcp"
    made.sidecars["web"] = {"kind": "mcp", "url": url, "permissions": {"network": True}}
    made.write()
    return made


async def called(kernel: Kernel, tool: str) -> ToolResult:
    """Its answer, once the server is there."""
    await connected(kernel, "web")
    return await kernel.call(request(kernel, f"web.{tool}", timeout_ms=4_000))


@pytest.mark.parametrize("tool", ATTACKS)
async def test_an_answer_that_is_none_fails_and_the_call_is_sent_once(
    root: Root, web: Web, tool: str
) -> None:
    async with kernel_of(root) as kernel:
        result = await called(kernel, tool)
        assert result.status is Status.FAILED
        assert web.calls == [tool]
        assert web.gets < 20
        assert (await called(kernel, "hello")).output == {"text": "hello"}
