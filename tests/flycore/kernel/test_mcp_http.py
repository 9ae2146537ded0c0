"""MCP servers on HTTP: a real one on loopback, what it is sent, and where connections never lead."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpcore2
import pytest

from flycore.model.enums import ProbeState, Status
from flycore.model.events import EventClass
from flycore.runners.mcp import http
from flycore.runners.mcp.http import AddressNotPublic, addresses_of
from kits.kernel import PATIENCE, Root, kernel_of, request, until
from kits.mcp_servers import connected, sidecar
from kits.private_addresses import NOT_PUBLIC

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
SECRET = "correct-horse-battery"
SERVER = """
import socket, sys
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("web", version="1")


@server.tool()
def shown(ctx: Context) -> str:
    "What it was sent."
    return ctx.request_context.request.headers.get("x-notes-token", "nothing")


listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listening])
"""


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """A server of the official SDK; its port."""
    async with await anyio.open_process([sys.executable, "-c", SERVER], stderr=None) as process:
        try:
            assert process.stdout is not None
            yield int(await process.stdout.receive())
        finally:
            process.kill()


@asynccontextmanager
async def answering(head: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A port at which every request gets that answer, and the requests."""
    asked: list[bytes] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            await stream.send(head + b"Content-Length: 0\r\nConnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), asked
        group.cancel_scope.cancel()


def entry(root: Root, port: int, **more: Any) -> None:
    """An entry `web` for the server at that port."""
    root.sidecars["web"] = {
        "kind": "mcp",
        "url": f"http://127.0.0.1:{port}/mcp",
        "permissions": {"network": True},
        **more,
    }
    root.write()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root without sidecars, where everything is allowed."""
    made = Root(tmp_path)
    made.policy(ALLOW)
    return made


async def test_a_call_over_http_and_its_secret_masked(root: Root) -> None:
    root.environ["NOTES_TOKEN"] = SECRET
    async with serving() as port:
        entry(
            root,
            port,
            headers={"X-Notes-Token": "${NOTES_TOKEN}"},
            permissions={"network": True, "secrets": ["NOTES_TOKEN"]},
        )
        async with kernel_of(root) as kernel:
            view = await connected(kernel, "web")
            assert view.stability.probe is ProbeState.HEALTHY
            result = await kernel.call(request(kernel, "web.shown"))
            assert result.status is Status.SUCCESS
            assert "nothing" not in str(result.output)
            assert SECRET not in str(result.output)
    assert SECRET not in str(root.audit())


async def test_a_redirect_is_not_followed(root: Root) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n") as (elsewhere, reached):
        away = f"HTTP/1.1 307 Away\r\nLocation: http://127.0.0.1:{elsewhere}/mcp\r\n".encode()
        async with answering(away) as (port, asked):
            entry(root, port)
            async with kernel_of(root) as kernel:
                view = await connected(kernel, "web")
                assert view.stability.probe is ProbeState.UNAVAILABLE
                assert "redirect" in view.stability.reasons[0].message
            assert asked
    assert reached == []


async def test_what_http_says_is_told(root: Root) -> None:
    async with answering(b"HTTP/1.1 401 No\r\n") as (port, _):
        entry(root, port)
        async with kernel_of(root) as kernel:
            view = await connected(kernel, "web")
            assert "HTTP 401" in view.stability.reasons[0].message


async def test_a_server_that_is_not_there_is_unavailable_in_a_sentence(root: Root) -> None:
    async with serving() as port:
        pass
    entry(root, port)
    async with kernel_of(root) as kernel:
        view = await connected(kernel, "web")
        assert view.stability.probe is ProbeState.UNAVAILABLE
        assert view.stability.reasons[0].message.startswith("the server could not be reached (")


async def test_a_call_that_finds_nobody_makes_the_server_looked_at(root: Root) -> None:
    async with AsyncExitStack() as running:
        entry(root, await running.enter_async_context(serving()))
        async with kernel_of(root) as kernel:
            assert (await connected(kernel, "web")).stability.probe is ProbeState.HEALTHY
            await running.aclose()
            result = await kernel.call(request(kernel, "web.shown"))
            assert result.status is Status.FAILED
            await until(lambda: sidecar(kernel, "web").stability.probe is ProbeState.UNAVAILABLE)


async def test_another_look_is_told_even_where_it_finds_the_same(root: Root) -> None:
    async with serving() as port:
        pass
    entry(root, port)
    async with kernel_of(root) as kernel:
        first = (await connected(kernel, "web")).stability.evidence.probe
        assert first is not None
        with kernel.bus.subscribe(frozenset((EventClass.SNAPSHOT,))) as events:
            kernel.probe("web")
            with anyio.fail_after(PATIENCE):
                async for event in events:
                    if event.type == "evidence.changed":
                        break
        again = sidecar(kernel, "web").stability.evidence.probe
        assert again is not None
        assert again.at > first.at


async def test_nothing_is_connected_to_before_trust(root: Root) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n") as (port, asked):
        entry(root, port)
        async with kernel_of(root, trusted=False) as kernel:
            await kernel.call(request(kernel, "web.shown"))
        assert asked == []


@pytest.mark.parametrize(
    ("found", "host", "fits"),
    [
        ("127.0.0.1", "localhost", True),
        ("93.184.215.14", "localhost", False),
        ("93.184.215.14", "mcp.example.com", True),
        ("127.0.0.1", "mcp.example.com", False),
        ("10.0.0.7", "mcp.example.com", False),
        ("169.254.169.254", "metadata.example.com", False),
    ],
)
async def test_where_a_name_may_lead(found: str, host: str, fits: bool) -> None:
    def resolved(name: str, port: int, seconds: float) -> list[str]:
        return [found]

    if fits:
        assert [str(address) for address in await addresses_of(host, 443, resolved)] == [found]
    else:
        with pytest.raises(AddressNotPublic):
            await addresses_of(host, 443, resolved)


@pytest.mark.suite
@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_name_that_leads_inside(address: str) -> None:
    for answer in ([address], ["93.184.215.14", address]):
        with pytest.raises(AddressNotPublic):
            await addresses_of("mcp.example.com", 443, lambda *_, answer=answer: answer)
    assert await addresses_of(f"[{address}]", 443) == [ip_address(address)]


async def test_a_name_without_an_address() -> None:
    def unknown(name: str, port: int, seconds: float) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(httpcore2.ConnectError):
        await addresses_of("nowhere.example.com", 443, unknown)


async def test_a_resolver_that_does_not_answer_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    try:
        with anyio.move_on_after(0.1) as scope:
            await addresses_of("slow.example.com", 443)
        assert scope.cancelled_caught
        monkeypatch.setattr(http, "CONNECT_S", 0.1)
        with pytest.raises(httpcore2.ConnectError):
            await addresses_of("slow.example.com", 443)
    finally:
        release.set()
