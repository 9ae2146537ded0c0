"""The MCP conformance suite, against the HTTP application of a real kernel whose sidecars offer what the
tools scenarios call. What is not passed stands in `conformance-expected-failures.yml`, with the reason."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller
from flycore.server.http import CALLER_STATE_KEY, MCP_PATH
from flycore.server.local import LocalClient
from flycore.server.mcp.http import http_app
from flycore.server.mcp.media import media_reader
from kits.kernel import Root, kernel_of, tool, until
from kits.programs import node_tool

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.timeout(600)]
EXPECTED = Path(__file__).parent / "conformance-expected-failures.yml"
MUST_PASS = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-error",
    "tools-call-with-progress",
    "logging-set-level",
    "resources-list",
    "prompts-list",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SIDECAR = f"""#!{sys.executable}
import base64, json, os, sys, time
request = json.loads(sys.stdin.readline())
name, answer = request["tool"], {{"ok": True}}
if name == "test.simple_text":
    answer["text"] = "This is a simple text response for testing."
elif name == "test.image_content":
    path = os.path.join(request["artifactDir"], "red.png")
    with open(path, "wb") as file:
        file.write(base64.b64decode("{PNG}"))
    size = os.path.getsize(path)
    answer["artifacts"] = [{{"path": path, "mimeType": "image/png", "bytes": size}}]
elif name == "test.tool_with_progress":
    for done in (0, 50, 100):
        print(json.dumps({{"event": "progress", "progress": done, "total": 100}}), flush=True)
        time.sleep(0.3)
elif name == "test.error_handling":
    answer = {{"ok": False, "error": "This tool intentionally returns an error for testing"}}
print(json.dumps(answer))
"""
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
NAMES = ("simple_text", "image_content", "error_handling", "tool_with_progress")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    tools = [tool(f"test.{name}") for name in NAMES]
    made.sidecar("test", SIDECAR, *tools, {**tool("json.schema_2020_12_tool"), "inputSchema": SCHEMA})
    made.policy({"tool": "test.*", "decision": "allow", "because": "test"})
    return made


def admitting(inner: ASGIApp) -> ASGIApp:
    """Stands for admission, which would need a token that the suite's client cannot bring."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[CALLER_STATE_KEY] = "conformance"
        await inner(scope, receive, send)

    return app


@asynccontextmanager
async def served(root: Root, kernel: Kernel) -> AsyncIterator[str]:
    """The application on a free port; its address."""
    door = LocalClient(kernel, Caller(door="http", program="conformance"))
    app = admitting(http_app(lambda _: door, media_reader(root.places)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await until(lambda: server.started)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}{MCP_PATH}"
            finally:
                server.should_exit = True


async def test_the_tools_scenarios_pass_and_the_others_fail_as_expected(root: Root) -> None:
    command = node_tool("conformance")
    async with kernel_of(root) as kernel, served(root, kernel) as address:
        run = partial(
            subprocess.run,
            [*command, "server", "--url", address, "--suite", "all", "--expected-failures", str(EXPECTED)],
            env=root.environ,
            cwd=root.base,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        done = await anyio.to_thread.run_sync(run)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert done.returncode == 0, said[-6000:]
    for name in MUST_PASS:
        assert re.search(rf"✓ {name}: [1-9]\d* passed, 0 failed", said), (name, said[-6000:])
