"""An endpoint for agents' programs on loopback, with a model that does what the test says.

It speaks the public interfaces of `model_protocols`, and refuses requests as these do where a tool breaks one
of `model_rules`. The model makes the calls of its script, one a turn, and ends with a text.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from kits.model_protocols import ModelProtocol, ModelRequest, OfferedTool, ToolUse, protocol_of
from kits.model_rules import first_fault

PATIENCE = 240.0
FINAL = "The script is done."
"""The model's last text."""


class ScriptedCall(NamedTuple):
    """A call that the model makes. A listed tool is meant whose name is this or ends with it."""

    tool: str
    input: dict[str, Any]
    after: threading.Event | None = None
    """What has to be set before the model makes this call."""


class SeenRequest(NamedTuple):
    """A request that offered tools to the model."""

    protocol: ModelProtocol
    request: ModelRequest
    refusal: str
    """Why it was refused; empty if it was not."""


class ModelEndpoint:
    """The endpoint and what reached it."""

    def __init__(self, script: Sequence[ScriptedCall]) -> None:
        self.script = script
        self.seen: list[SeenRequest] = []
        self.faults: list[str] = []
        """What went wrong in the endpoint itself."""
        self.others: list[str] = []
        """The other requests: method and path."""
        self._changed = threading.Condition()
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str, bytes]:
        """The status, the type and the body of the answer to a request."""
        protocol = protocol_of(path)
        if protocol is None:
            self.others.append(path)
            # Programs count tokens and look for models; all of them go on without an answer.
            return 404, "application/json", b"{}"
        request = protocol.read(path, body)
        fault = first_fault(protocol.interface, request.tools)
        if request.tools:
            with self._changed:
                refusal = "" if fault is None else f"{fault.place}: {fault.message}"
                self.seen.append(SeenRequest(protocol, request, refusal))
                self._changed.notify_all()
        if fault is not None:
            return 400, "application/json", json.dumps(protocol.refusal(fault.message, fault.place)).encode()
        turn = self._turn(request)
        if not request.streams:
            return 200, "application/json", json.dumps(protocol.whole(turn)).encode()
        return 200, "text/event-stream", _event_stream(protocol, turn)

    def _turn(self, request: ModelRequest) -> ToolUse | str:
        if not request.tools:
            # A title, a summary or the like.
            return "ok"
        if request.calls_made >= len(self.script):
            return FINAL
        wanted = self.script[request.calls_made]
        if wanted.after is not None:
            assert wanted.after.wait(PATIENCE), "the test never lets the model go on"
        tool = offered(request, wanted.tool)
        return f"no such tool: {wanted.tool}" if tool is None else ToolUse(tool, wanted.input)

    @property
    def results(self) -> list[str]:
        """What the tools answered, as the latest request has it."""
        return list(max((one.request.results for one in self.seen), key=len, default=()))

    def wait_seen(self, count: int, patience: float = PATIENCE) -> None:
        """Wait until so many requests have offered tools."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, patience), self.seen


def offered(request: ModelRequest, name: str) -> OfferedTool | None:
    """The offered tool of that name, whatever prefix the client has put before it."""
    ends = (name, f"_{name}")
    found = (tool for tool in request.tools if tool.name == name or tool.full_name.endswith(ends))
    return next(found, None)


def _event_stream(protocol: ModelProtocol, turn: ToolUse | str) -> bytes:
    lines: list[str] = []
    for name, event in protocol.write(turn):
        lines += [f"event: {name}"] * protocol.names_events
        lines += [f"data: {json.dumps(event)}", ""]
    if protocol.ends_with:
        lines += [f"data: {protocol.ends_with}", ""]
    return ("\n".join(lines) + "\n").encode()


@contextmanager
def model_endpoint(*script: ScriptedCall) -> Iterator[ModelEndpoint]:
    """Serve a model with that script for the block."""
    endpoint = ModelEndpoint(script)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, kind, answer = endpoint.answer(self.path, json.loads(data or b"{}"))
            except Exception as error:
                endpoint.faults.append(f"{self.path}: {type(error).__name__}: {error}: {data[:2000]!r}")
                raise
            self.send(status, kind, answer)

        def do_GET(self) -> None:
            endpoint.others.append(self.path)
            self.send(404, "application/json", b"{}")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

        def send(self, status: int, kind: str, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
