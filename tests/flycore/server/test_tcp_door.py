"""The TCP door, spoken to by a plain WebSocket client: who comes in, as whom, and what is for them."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from flycore.client.client import connect_unix
from flycore.model.errors import ProtocolError
from flycore.model.events import Event
from flycore.server.connection_limits import ConnectionLimits
from flycore.server.loopback import bind_loopback
from flycore.server.tokens import digest_of, new_token
from kits.kernel import ECHO, PATIENCE, Root, approve, tool, until, waiting_ask
from kits.tcp import called, client, head, listening, sent
from kits.unix_socket import say

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


async def test_a_token_s_name_is_the_caller(root: Root) -> None:
    async with listening(root) as at:
        assert at.kernel.status().listening == (at.address,)
        async with client(at) as connection, anyio.create_task_group() as group:
            assert await called(connection, "echo.free") == "success"
            group.start_soon(called, connection, "echo.ask")
            ask = await waiting_ask(at.kernel)
            assert str(ask.request.caller) == "good via tcp"
            await approve(at.kernel, ask)
    assert at.kernel.status().listening == ()


async def test_health_says_ok_and_nothing_else(root: Root) -> None:
    async with listening(root) as at:
        answer = await sent(at.port, head("GET /health HTTP/1.1", at.host))
    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200")
    assert body == b"ok\n"
    assert b"server:" not in top.lower()


LOCAL_ONLY = ["kernel.yield", "trust.revoke", "call.undo", "token.add", "token.revoke", "ask.decide"]


@pytest.mark.parametrize("kind", LOCAL_ONLY)
async def test_what_is_for_this_user_alone_is_refused(root: Root, kind: str) -> None:
    async with listening(root) as at, client(at) as connection:
        answer = await say(connection, kind)
        assert (answer["type"], answer["payload"]["code"]) == ("error", "unauthorized")


async def test_no_token_is_a_viewer_and_each_sees_its_own(root: Root) -> None:
    async with listening(root) as at:
        other = at.book.new("other")
        async with (
            client(at) as mine,
            client(at, other) as theirs,
            client(at, other) as third,
            anyio.create_task_group() as group,
        ):
            refused = await say(third, "client.hello", {"viewer": True})
            assert refused["payload"]["code"] == "unauthorized"
            group.start_soon(called, mine, "echo.ask")
            ask = await waiting_ask(at.kernel)
            assert (await say(theirs, "ask.list"))["payload"]["asks"] == []
            assert (await say(theirs, "history.list"))["payload"]["calls"] == []
            cancelled = await say(theirs, "tool.cancel", {"callId": ask.request.call_id})
            assert cancelled["payload"] == {"cancelled": False}
            async with client(at) as second:
                (seen,) = (await say(second, "ask.list"))["payload"]["asks"]
                assert seen["request"]["id"] == ask.request.id
            await approve(at.kernel, ask)


async def test_a_revoked_token_loses_its_connections_and_no_other_does(root: Root) -> None:
    async with listening(root) as at:
        other = at.book.new("other")
        async with client(at) as mine, client(at, other) as theirs:
            async with connect_unix(root.places.socket, viewer=True) as viewer:
                assert (await viewer.ask_for("token.revoke", {"name": "good"}))["accepted"]
            with pytest.raises(ConnectionClosed) as closed, anyio.fail_after(PATIENCE):
                await mine.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, at.token in str(closed.value)) == (4401, False)
            assert await called(theirs, "echo.free") == "success"
        answer = await sent(at.port, head("GET /ws HTTP/1.1", at.host, at.bearer))
        assert b" 401 " in answer.splitlines()[0]
    (line,) = [line for line in root.audit() if line["event"] == "TOKEN_CHANGED"]
    assert (line["token"], line["decision"]) == ("good", "revoked")


async def test_a_token_that_is_gone_from_the_file_is_gone(root: Root) -> None:
    async with listening(root) as at, client(at) as mine:
        at.book.revoke("good")
        with pytest.raises(ConnectionClosed), anyio.fail_after(PATIENCE):
            await mine.recv()


async def types_until(events: AsyncIterator[Event], last: str) -> list[str]:
    seen = [""]
    with anyio.fail_after(PATIENCE):
        while seen[-1] != last:
            seen.append((await anext(events)).type)
    return seen


async def test_tokens_are_made_by_a_viewer_and_told_of(root: Root) -> None:
    token = new_token()
    wanted = {"name": "new", "digest": digest_of(token)}
    async with listening(root) as at:
        async with connect_unix(root.places.socket) as agent, agent.events() as heard:
            with pytest.raises(ProtocolError, match="unauthorized"):
                await agent.ask_for("token.add", wanted)
            async with (
                connect_unix(root.places.socket, viewer=True) as viewer,
                viewer.events() as told,
            ):
                assert await viewer.ask_for("token.add", wanted) == {"accepted": True, "whyNot": ""}
                again = await viewer.ask_for("token.add", wanted)
                assert not again["accepted"]
                assert "token.changed" in await types_until(told, "token.changed")
                await agent.call("echo.free", {})
                assert "token.changed" not in await types_until(heard, "call.started")
        async with client(at, token) as connection:
            assert await called(connection, "echo.free") == "success"
    lines = [line for line in root.audit() if line["event"] == "TOKEN_CHANGED"]
    assert [(line["token"], line["decision"]) for line in lines] == [("new", "made")]
    assert "via socket" in lines[0]["decidedBy"]
    assert token not in json.dumps(root.audit())


async def test_who_waits_is_told_when_the_kernel_leaves(root: Root) -> None:
    told: list[str] = []

    async def call() -> None:
        async with client(at) as connection:
            told.append(await called(connection, "echo.ask"))

    async with anyio.create_task_group() as group, listening(root) as at:
        group.start_soon(call)
        await waiting_ask(at.kernel)
    assert told == ["denied"]


async def test_connections_of_one_token_are_counted(root: Root) -> None:
    async with listening(root, gate=ConnectionLimits(per_token=2, seconds=60)) as at:
        other = at.book.new("other")
        async with client(at), client(at), client(at, other):
            answer = await sent(at.port, head("GET /ws HTTP/1.1", at.host, at.bearer))
            assert b" 503 " in answer.splitlines()[0]
        await until(lambda: at.kernel.status().clients == 0)
        async with client(at) as again:
            assert await called(again, "echo.free") == "success"


def test_a_busy_port_gives_the_next_free_one() -> None:
    with bind_loopback(0, 10) as taken:
        port = taken.getsockname()[1]
        with bind_loopback(port, 10) as second:
            assert port < second.getsockname()[1] <= port + 20
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 65_535))
        foreign.listen()
        with pytest.raises(OSError, match="in use"):
            bind_loopback(65_535, 10)
