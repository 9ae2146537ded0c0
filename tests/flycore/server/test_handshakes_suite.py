"""Suite S10: twenty ways to come in that are none, each refused while a good client is served.

Over TCP and over HTTP, and those of the Unix socket there.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest

from flycore.client.client import connect_unix
from flycore.model.enums import Status
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.http import MAX_BODY_BYTES
from flycore.server.tcp import MAX_TCP_MESSAGE_BYTES
from flycore.server.unix import serve_unix
from kits.kernel import ECHO, PATIENCE, Root, kernel_of, tool, until
from kits.tcp import UPGRADE, Listening, called, client, head, listening, listening_http, mcp_client, sent
from kits.unix_socket import frame, plain, served

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

FULL = os.environ.get("FLYTUI_SUITES") == "full"
CONNECTS = 1000 if FULL else 250
HALF_OPEN = 50
MOST_PINGS = 2_000_000
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()

Serve = Callable[[], Awaitable[None]]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


@asynccontextmanager
async def over(
    door: str, root: Root, gate: ConnectionLimits | None = None
) -> AsyncIterator[tuple[Listening, Serve]]:
    """The door, with a good client inside: `serve` makes a call of it, which has to succeed. No call is
    refused for its number: they are few."""
    async with AsyncExitStack() as stack:
        if door == "tcp":
            at = await stack.enter_async_context(listening(root, gate=gate))
            inside = await stack.enter_async_context(client(at))

            async def serve() -> None:
                assert await called(inside, "echo.free") == "success"

        else:
            at = await stack.enter_async_context(listening_http(root, gate=gate))
            session = await stack.enter_async_context(mcp_client(at))

            async def serve() -> None:
                assert not (await session.call_tool("echo_free", {})).is_error

        await serve()
        yield at, serve


def request(door: str, *lines: str, target: str = "", method: str = "") -> bytes:
    """A handshake, or a request for a tool call, with these lines."""
    if door == "tcp":
        return head(f"{method or 'GET'} {target or '/ws'} HTTP/1.1", *lines, *UPGRADE)
    kinds = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
    first = f"{method or 'POST'} {target or '/mcp'} HTTP/1.1"
    return head(first, *lines, *kinds, f"Content-Length: {len(BODY)}") + BODY


def lines_of(case: str, at: Listening) -> tuple[list[str], str]:
    """Header lines and query of a refused request."""
    port = at.port
    hosts = {
        "host evil": ["Host: evil.example"],
        "host evil with our port": [f"Host: evil.example:{port}"],
        "no host": [],
        "two hosts": [at.host, at.host],
        "two hosts, one evil": [at.host, "Host: evil.example"],
        "LOCALHOST.": [f"Host: LOCALHOST.:{port}"],
        "localhost.": [f"Host: localhost.:{port}"],
        "another port": [f"Host: 127.0.0.1:{port + 1}"],
        "no port": ["Host: 127.0.0.1"],
        "two ports": [f"Host: 127.0.0.1:{port}:{port}"],
        "port with zeros": [f"Host: 127.0.0.1:0{port}"],
        "host with a user": [f"Host: evil@127.0.0.1:{port}"],
        "another loopback": [f"Host: 127.0.0.2:{port}"],
    }
    origins = {
        "origin evil": "https://evil.example",
        "origin null": "null",
        "origin of a rebound page": f"http://localhost:{port}",
        "origin of this address": f"http://127.0.0.1:{port}",
    }
    if case in hosts:
        return [*hosts[case], at.bearer], ""
    if case in origins:
        return [at.host, at.bearer, f"Origin: {origins[case]}"], ""
    return {
        "no token": ([at.host], ""),
        "wrong token": ([at.host, f"Authorization: Bearer {at.token[:-1]}x"], ""),
        "two tokens": ([at.host, at.bearer, at.bearer], ""),
        "another scheme": ([at.host, f"Authorization: Basic {at.token}"], ""),
        "token in a subprotocol": ([at.host, f"Sec-WebSocket-Protocol: {at.token}"], ""),
        "token in the query": ([at.host], f"?token={at.token}"),
        "token in the query too": ([at.host, at.bearer], f"?access_token={at.token}"),
    }[case]


CASES = [
    *("no token", "wrong token", "two tokens", "another scheme", "token in a subprotocol"),
    *("token in the query", "token in the query too"),
    *("origin evil", "origin null", "origin of a rebound page", "origin of this address"),
    *("host evil", "host evil with our port", "no host", "two hosts", "two hosts, one evil"),
    *("LOCALHOST.", "localhost.", "another port", "no port", "two ports", "port with zeros"),
    *("host with a user", "another loopback"),
]


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_a_request_that_is_not_ours_is_refused_with_a_reason(root: Root, door: str) -> None:
    """Refused in plain HTTP, nothing upgraded, no token repeated, nothing called, the good client served."""
    async with over(door, root) as (at, serve):
        path = "/ws" if door == "tcp" else "/mcp"
        for case in CASES:
            lines, query = lines_of(case, at)
            before = len(at.kernel.activity())
            answer = await sent(at.port, request(door, *lines, "Connection: close", target=path + query))
            assert answer.split()[1] in (b"400", b"401", b"403"), (case, answer)
            top, _, reason = answer.partition(b"\r\n\r\n")
            assert reason.strip(), case
            assert at.token.encode() not in answer, case
            assert b"server:" not in top.lower(), case
            await serve()
            assert len(at.kernel.activity()) == before + 1, case


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_what_is_no_handshake_is_refused(root: Root, door: str) -> None:
    """A plain POST, a plain GET, other methods and paths, garbage, and a request that is too long."""
    async with over(door, root) as (at, serve):
        wrong = [
            head("POST /ws HTTP/1.1", at.host, at.bearer, "Content-Length: 2") + b"{}",
            head("GET / HTTP/1.1", at.host, at.bearer, "Connection: close"),
            head("GET http://127.0.0.1/ws HTTP/1.1", at.host, at.bearer, "Connection: close"),
            head("CONNECT evil.example:443 HTTP/1.1", at.host, at.bearer),
            head("GET /ws HTTP/1.1", at.host, at.bearer, "Connection: close")
            if door == "tcp"
            else b"\r\n\r\n",
            b"GARBAGE\r\n\r\n",
            bytes(range(256)) * 8 + b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(64) + b"\r\n\r\n",
            head("GET /ws HTTP/1.1", at.host, at.bearer, "X-Long: " + "x" * 100_000),
            head("GET /ws HTTP/1.1", at.host, at.bearer, *(f"X-{number}: y" for number in range(5_000))),
        ]
        for data in wrong:
            answer = await sent(at.port, data)
            assert not answer or answer.split()[1][:1] == b"4", (data[:60], answer)
            assert b"101" not in answer[:20]
            assert at.token.encode() not in answer
            await serve()


async def test_a_message_of_more_than_a_mebibyte_ends_its_connection_alone(root: Root) -> None:
    async with over("tcp", root) as (at, serve), client(at) as large, client(at) as fits:
        await large.send("x" * (MAX_TCP_MESSAGE_BYTES + 1))
        await large.wait_closed()
        assert large.close_code == 1009
        await serve()
        padding = "y" * (MAX_TCP_MESSAGE_BYTES - 1_000)
        assert await called(fits, "echo.free", {"x": padding}) == "success"


async def test_a_body_of_more_than_a_mebibyte_is_refused(root: Root) -> None:
    async with over("http", root) as (at, serve):
        size = MAX_BODY_BYTES + 1
        first = head("POST /mcp HTTP/1.1", at.host, at.bearer, f"Content-Length: {size}")
        assert (await sent(at.port, first)).split()[1] == b"413"
        await serve()


@asynccontextmanager
async def opened(at: Listening) -> AsyncIterator[anyio.abc.SocketStream]:
    """A WebSocket of the good token on which only bytes are spoken."""
    async with await anyio.connect_tcp("127.0.0.1", at.port) as stream:
        await stream.send(request("tcp", at.host, at.bearer))
        assert b"101 Switching" in await stream.receive()
        yield stream


async def test_a_ping_flood_holds_up_nobody(root: Root) -> None:
    """Its sender never reads: it is dropped when too much is owed, and what it may send is bounded."""
    flood = frame(9, b"x" * 125) * 500
    async with over("tcp", root) as (at, serve), opened(at) as stream:
        count = at.kernel.status().clients
        with anyio.fail_after(PATIENCE), suppress(anyio.BrokenResourceError):
            for turn in range(MOST_PINGS // 500):
                await stream.send(flood)
                if turn % 40 == 0:
                    await serve()
        await until(lambda: at.kernel.status().clients == count - 1)
        await serve()


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_half_open_connections_are_bounded_in_time_and_number(root: Root, door: str) -> None:
    async with over(door, root, ConnectionLimits(seconds=1.0)) as (at, serve), AsyncExitStack() as stack:
        streams = []
        for number in range(HALF_OPEN):
            stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", at.port))
            await stream.send(b"" if number % 2 else f"GET /ws HTTP/1.1\r\n{at.host}\r\n".encode())
            streams.append(stream)
        await serve()
        with anyio.fail_after(PATIENCE):
            for stream in streams:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    while True:
                        await stream.receive()
        await serve()


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_a_slow_sender_is_dropped_and_holds_up_nobody(root: Root, door: str) -> None:
    """A byte now and then: each comes in time, the request never does."""
    async with over(door, root, ConnectionLimits(seconds=1.0)) as (at, serve):
        async with await anyio.connect_tcp("127.0.0.1", at.port) as stream:
            with anyio.fail_after(PATIENCE), suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                for byte in request(door, at.host, "X-Slow: " + "x" * 10_000):
                    await stream.send(bytes([byte]))
                    with anyio.move_on_after(0.05):
                        await stream.receive()
                pytest.fail("the whole request was taken")
        await serve()


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_a_thousand_connects_keep_out_nobody_who_brings_a_token(root: Root, door: str) -> None:
    async with (
        over(door, root, ConnectionLimits(half_open=16, seconds=600)) as (at, serve),
        AsyncExitStack() as stack,
    ):
        _many_descriptors()
        for number in range(CONNECTS):
            await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", at.port))
            if number % 100 == 99:
                await serve()
                answer = await sent(
                    at.port, request(door, at.host, at.bearer, "Connection: close", target="/x")
                )
                assert answer.split()[1] == b"404"
        assert _descriptors() < CONNECTS + 400
        if door == "tcp":
            async with client(at) as late:
                assert await called(late, "echo.free") == "success"
        else:
            async with mcp_client(at) as session:
                assert not (await session.call_tool("echo_free", {})).is_error


def _many_descriptors() -> None:
    """Let this process, which is both sides, open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))


def _descriptors() -> int:
    """Open files of this process, which is both sides."""
    return len(os.listdir("/proc/self/fd"))


OTHER_USER = """
import os, socket, sys
os.chdir(os.path.dirname(sys.argv[1]))
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(os.path.basename(sys.argv[1]))
    peer.sendall(sys.argv[2].encode())
    print(peer.recv(4096).decode("latin-1").splitlines()[0])
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.root
async def test_another_user_on_the_unix_socket_is_refused(root: Root) -> None:
    """By the file's mode; and where that were open, by the peer's user."""
    async with served(root), connect_unix(root.places.socket) as good:
        for open_wide, told in ((False, "PermissionError"), (True, "HTTP/1.1 403 Forbidden")):
            if open_wide:
                root.places.socket.chmod(0o777)
                root.places.socket.parent.chmod(0o777)
            words = [str(root.places.socket), head("GET /ws HTTP/1.1", "Host: localhost", *UPGRADE).decode()]
            done = await anyio.run_process([sys.executable, "-c", OTHER_USER, *words], stderr=subprocess.PIPE)
            assert done.stdout.decode().strip() == told
            assert (await good.call("echo.free", {})).status is Status.SUCCESS


@pytest.mark.root
async def test_a_socket_folder_of_another_owner_is_not_used(root: Root) -> None:
    folder = root.places.socket.parent
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    async with kernel_of(root) as kernel:
        with pytest.raises(PermissionError, match="belongs to user 65534"):
            async with serve_unix(kernel, root.places.socket):
                pass
        assert list(folder.iterdir()) == []
        os.chown(folder, 0, 0)
        async with serve_unix(kernel, root.places.socket), plain(root):
            pass


async def test_a_stale_socket_file_is_replaced(root: Root) -> None:
    """Left behind by a kernel that was killed: nobody listens on it."""
    folder = root.places.socket.parent
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(root.places.socket))
    async with served(root), connect_unix(root.places.socket) as good:
        assert (await good.call("echo.free", {})).status is Status.SUCCESS
