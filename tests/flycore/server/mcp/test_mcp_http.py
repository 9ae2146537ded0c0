"""MCP over streamable HTTP: the ASGI application behind a real server on loopback, official clients of both
eras."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    TextContent,
    ToolListChangedNotification,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import Caller
from flycore.model.enums import RequestState
from flycore.server.http import CALLER_STATE_KEY
from flycore.server.local import LocalClient
from flycore.server.mcp.http import MCP_PATH, http_app
from flycore.server.mcp.media import media_reader
from kits.kernel import ECHO, Root, approve, approver_of, kernel_of, tool, until, waiting_ask
from kits.mcp_clients import ERAS, NEW, OLD, ProgressRecorder, about, text_of
from kits.mcp_servers import server_of

pytestmark = pytest.mark.anyio

KILLED = """
import asyncio, httpx2, sys
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
async def main():
    http = httpx2.AsyncClient(headers={"x-token": "one"}, timeout=60)
    async with Client(streamable_http_client(sys.argv[1], http_client=http), mode=sys.argv[2]) as client:
        await client.call_tool("echo_ask", {})
asyncio.run(main())
"""

ASKER = '''
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, InputRequiredResult, SamplingMessage
from mcp_types import TextContent

server = MCPServer("asker")


@server.tool()
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks a model."""
    if ctx.input_responses is None:
        message = SamplingMessage(role="user", content=TextContent(text="What is 1 + 1?"))
        params = CreateMessageRequestParams(messages=[message], max_tokens=5)
        return InputRequiredResult(input_requests={"sum": CreateMessageRequest(params=params)})
    return "it is " + ctx.input_responses["sum"].content.text


server.run("stdio")
'''


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask", "high"))
    made.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return made


class _Admitting:
    """Stands for admission: takes the token's name from a header."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope.get("headers", ()):
            if name == b"x-token":
                scope.setdefault("state", {})[CALLER_STATE_KEY] = value.decode()
        await self._inner(scope, receive, send)


@asynccontextmanager
async def served(root: Root, kernel: Kernel) -> AsyncIterator[str]:
    """The application on a free port; gives its address."""

    def door_of(token: str) -> LocalClient:
        return LocalClient(kernel, Caller(door="http", program=token))

    app = _Admitting(http_app(door_of, media_reader(root.places)))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listener])
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{MCP_PATH}"
        finally:
            server.should_exit = True


@asynccontextmanager
async def over_http(address: str, era: str, token: str = "one", **more: Any) -> AsyncIterator[Client]:
    headers = {"x-token": token}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http), mode=era, **more) as client,
    ):
        yield client


def state_of(kernel: Kernel, ask: Ask) -> RequestState:
    return next(one.state for one in kernel.asks() if one.request.id == ask.request.id)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_waits_for_a_person_with_progress_and_then_runs(root: Root, era: str) -> None:
    told = ProgressRecorder()
    async with kernel_of(root) as kernel, served(root, kernel) as address:
        async with over_http(address, era) as client, anyio.create_task_group() as group:
            assert "echo_ask" in {one.name for one in (await client.list_tools()).tools}
            assert not (await client.call_tool("echo_free", {})).is_error
            results: list[str] = []

            async def run() -> None:
                done = await client.call_tool("echo_ask", {}, progress_callback=told)
                results.append(about(done)["status"])

            group.start_soon(run)
            ask = await waiting_ask(kernel)
            assert str(ask.request.caller) == "one via http"
            await until(lambda: "waiting for approval" in told.words)
            await approve(kernel, ask)
        assert results == ["success"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_killed_client_withdraws_what_it_asked(root: Root, era: str) -> None:
    async with kernel_of(root) as kernel, served(root, kernel) as address:
        process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen([sys.executable, "-c", KILLED, address, era], env=root.environ)
        )
        try:
            ask = await waiting_ask(kernel)
        finally:
            process.kill()
            process.wait()
        await until(lambda: state_of(kernel, ask) is RequestState.WITHDRAWN)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_cancelled_withdraws_and_the_client_goes_on(root: Root, era: str) -> None:
    async with (
        kernel_of(root) as kernel,
        served(root, kernel) as address,
        over_http(address, era) as client,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "echo_ask", {})
            ask = await waiting_ask(kernel)
            group.cancel_scope.cancel()
        await until(lambda: state_of(kernel, ask) is RequestState.WITHDRAWN)
        assert not (await client.call_tool("echo_free", {})).is_error


async def test_sessions_of_both_eras_hear_that_the_list_is_another(root: Root) -> None:
    old: list[object] = []
    new: list[object] = []

    async def handler(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            old.append(message)

    async with (
        kernel_of(root) as kernel,
        served(root, kernel) as address,
        over_http(address, OLD, message_handler=handler) as elder,
        over_http(address, NEW) as younger,
        younger.listen(tools_list_changed=True) as events,
        anyio.create_task_group() as group,
    ):
        assert elder.server_capabilities is not None
        assert elder.server_capabilities.tools is not None
        assert elder.server_capabilities.tools.list_changed

        async def listen() -> None:
            new.append(await anext(aiter(events)))

        group.start_soon(listen)
        (root.folder / "tools" / "bin-echo" / "run").unlink()
        root.write()
        root.sidecar("two", ECHO, tool("two.do"))
        await until(lambda: kernel.pending_trust())
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        await until(lambda: old and new)
        group.cancel_scope.cancel()


async def test_without_a_token_there_is_nothing_and_a_session_is_its_own_token_s(root: Root) -> None:
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "plain", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    async with kernel_of(root) as kernel, served(root, kernel) as address, httpx2.AsyncClient() as http:
        assert (await http.post(address, json=begin, headers=accept)).status_code == 401
        one = {**accept, "x-token": "one"}
        begun = await http.post(address, json=begin, headers=one)
        assert begun.status_code == 200
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await http.post(address, json=ping, headers={**one, **session})).status_code == 200
        other = {**accept, "x-token": "two", **session}
        assert (await http.post(address, json=ping, headers=other)).status_code == 404


async def test_what_is_no_message_is_refused_and_harms_nobody(root: Root) -> None:
    accept = {"accept": "application/json, text/event-stream", "x-token": "one"}
    modern = {**accept, "mcp-protocol-version": NEW, "content-type": "application/json"}
    async with kernel_of(root) as kernel, served(root, kernel) as address, httpx2.AsyncClient() as http:
        for body in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 5000, json.dumps({"id": 1}).encode()):
            for headers in (modern, {**accept, "content-type": "application/json"}):
                answer = await http.post(address, content=body, headers=headers)
                assert 400 <= answer.status_code < 500, (body[:20], answer.status_code, answer.text)
        async with over_http(address, OLD) as client:
            assert not (await client.call_tool("echo_free", {})).is_error


@pytest.mark.parametrize("era", ERAS)
async def test_a_fault_of_our_own_tells_the_client_nothing(
    root: Root, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: object, **more: object) -> None:
        raise KeyError("/secret/place")

    monkeypatch.setattr(LocalClient, "call", broken)
    async with kernel_of(root) as kernel, served(root, kernel) as address, over_http(address, era) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("echo_free", {})
    assert (raised.value.error.code, raised.value.error.message) == (INTERNAL_ERROR, "internal error")


async def test_a_server_of_the_newer_protocol_asks_the_model_of_the_client(tmp_path: Path) -> None:
    root = Root(tmp_path)
    server_of(root, "asker", ASKER, sampling=True)
    root.policy({"tool": "asker.*", "decision": "allow", "because": "test"})

    async def model(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="2"), model="small-1")

    async with kernel_of(root) as kernel, served(root, kernel) as address:
        await until(lambda: kernel.catalog().capability("asker.ask"))
        async with (
            over_http(address, OLD, sampling_callback=model) as client,
            anyio.create_task_group() as group,
        ):
            results: list[CallToolResult] = []

            async def call() -> None:
                results.append(await client.call_tool("asker_ask", {}))

            group.start_soon(call)
            question = await until(lambda: next(iter(kernel.questions()), None))
            assert (await approver_of(kernel).answer(question.id, "accept")).accepted
    assert [text_of(result) for result in results] == ["it is 2"]
