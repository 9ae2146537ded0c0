"""The Unix socket under attack: what a program of the same user may try."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from flycore.approval.callers import identify_peer
from flycore.client.client import connect_unix
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.enums import Choice, Code, Status
from flycore.rpc.messages import MAX_MESSAGE_BYTES
from kits.kernel import ECHO, Root, approver_of, request, tool, until, waiting_ask
from kits.unix_socket import frame, plain, raw, say, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


async def test_an_agent_sees_its_own_calls_and_a_viewer_all(root: Root) -> None:
    mine = identify_peer(os.getpid(), "socket")
    async with served(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.ask", {"whose": "other"}))
        group.start_soon(kernel.call, request(kernel, "echo.ask", {"whose": "mine"}, caller=mine))
        other = (await waiting_ask(kernel, 2)) and kernel.asks()
        ids = {ask.request.caller.program: ask.request.id for ask in other}
        answer = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=5))
        foreign = next(ask.request for ask in other if ask.request.caller.program == "agent")
        await approver_of(kernel).decide(foreign.id, foreign.subject_digest, answer)
        for viewer, seen in ((False, 1), (True, 2)):
            async with connect_unix(root.places.socket, viewer=viewer) as client:
                assert len(await client.activity()) == seen
                assert len(await client.asks()) == seen
                assert len(await client.leases()) == seen - 1
                detail = await client.ask_for("ask.detail.get", {"id": ids["agent"]})
                assert len(detail["asks"]) == seen - 1
        group.cancel_scope.cancel()


async def test_an_agent_hears_of_its_own_calls_only(root: Root) -> None:
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket) as agent,
        connect_unix(root.places.socket, viewer=True) as viewer,
        agent.events() as heard_by_agent,
        viewer.events() as heard_by_viewer,
    ):
        foreign = request(kernel, "echo.free")
        await kernel.call(foreign)
        own = await agent.call("echo.free", {})
        calls: dict[str, set[str]] = {}
        for name, heard in (("agent", heard_by_agent), ("viewer", heard_by_viewer)):
            with anyio.fail_after(20):
                async for event in heard:
                    calls.setdefault(name, set()).add(str(event.payload.get("callId")))
                    if event.type == "call.finished" and event.payload["callId"] == own.call_id:
                        break
    assert foreign.call_id not in calls["agent"]
    assert {foreign.call_id, own.call_id} <= calls["viewer"]


async def test_a_connection_keeps_its_role(root: Root) -> None:
    async with served(root), plain(root) as connection:
        assert (await say(connection, "client.hello", {"viewer": True}))["type"] == "ack"
        again = await say(connection, "client.hello", {"viewer": False})
        assert again["payload"]["code"] == "unauthorized"
        assert (await say(connection, "tool.call", {"tool": "echo.free"}))["payload"][
            "code"
        ] == "unauthorized"


async def test_text_that_is_no_utf_8_is_answered_and_ends_nothing(root: Root) -> None:
    async with served(root), raw(root) as stream:
        await stream.send(frame(1, b'{"protocol": "\xff\xfe"}'))
        ping = json.dumps({"protocol": "flyflor.ws.v1", "id": "after", "type": "ping", "at": 0})
        await stream.send(frame(1, ping.encode()))
        heard = b""
        with anyio.fail_after(20):
            while b"pong" not in heard:
                heard += await stream.receive()
    assert b"invalid-envelope" in heard


async def test_a_peer_that_pings_and_never_reads_is_dropped(root: Root) -> None:
    flood = frame(9, b"x" * 125) * 500
    async with served(root) as kernel, raw(root) as stream:
        await until(lambda: kernel.status().clients == 1)
        sent = 0
        with anyio.fail_after(30), suppress(anyio.BrokenResourceError):
            while sent < 200 * 1024 * 1024:
                await stream.send(flood)
                sent += len(flood)
        assert sent < 20 * 1024 * 1024
        await until(lambda: kernel.status().clients == 0)
        async with connect_unix(root.places.socket) as client:
            assert (await client.call("echo.free", {})).status is Status.SUCCESS


async def test_a_peer_that_never_reads_its_answers_holds_up_nobody(root: Root) -> None:
    """It asks for the catalog again and again; what it is owed stays bounded, others are served."""
    ask = {"protocol": "flyflor.ws.v1", "id": "c", "type": "capability.catalog.get", "at": 0, "payload": {}}
    async with served(root) as kernel, raw(root) as stream, anyio.create_task_group() as group:

        async def pester() -> None:
            while True:
                await stream.send(frame(1, json.dumps(ask).encode()))

        group.start_soon(pester)
        group.start_soon(_subscribe, stream)
        async with connect_unix(root.places.socket) as client:
            before = _resident()
            for _ in range(100):
                assert (await client.call("echo.free", {})).status in (Status.SUCCESS, Status.DENIED)
            assert _resident() - before < 30 * 1024 * 1024
        await until(lambda: kernel.status().clients == 1)
        group.cancel_scope.cancel()


async def _subscribe(stream: anyio.abc.SocketStream) -> None:
    message = {"protocol": "flyflor.ws.v1", "id": "e", "type": "event.subscribe", "at": 0, "payload": {}}
    await stream.send(frame(1, json.dumps(message).encode()))


def _resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


ODD_IDS = ["", " ", "\u0000", "\u202e⟦", "a" * 100_000, "'; DROP", '"}{"', "☃", "../../x"]


@pytest.mark.parametrize("odd", ODD_IDS, ids=range(len(ODD_IDS)))
async def test_ids_are_only_ever_echoed(root: Root, odd: str) -> None:
    async with served(root), plain(root) as connection:
        answer = await say(connection, "ping", id=odd)
        assert (answer["type"], answer["correlationId"]) == ("pong", odd)
        taken = await say(connection, "tool.call", {"tool": "echo.free"}, id=odd)
        assert taken["correlationId"] == odd
        while taken["type"] != "tool.result":
            taken = json.loads(await connection.recv())
        assert taken["payload"]["status"] == "success"


async def test_a_giant_message_ends_its_connection_and_no_other(root: Root) -> None:
    async with served(root) as kernel, connect_unix(root.places.socket) as good:
        async with raw(root) as stream:
            await stream.send(b"\x81\xff" + (MAX_MESSAGE_BYTES + 1).to_bytes(8, "big") + bytes(4))
            with anyio.fail_after(20), suppress(anyio.EndOfStream):
                while True:
                    await stream.receive()
        result = await good.call("echo.free", {"x": "y" * 1_000_000})
        assert result.status is Status.SUCCESS
        await until(lambda: kernel.status().clients == 1)


async def test_a_cancelled_call_is_answered_as_cancelled(root: Root) -> None:
    async with served(root) as kernel, plain(root) as connection:
        for number in range(20):
            call = {"protocol": "flyflor.ws.v1", "id": f"c{number}", "type": "tool.call", "at": 0}
            await connection.send(json.dumps({**call, "payload": {"tool": "echo.ask"}}))
            cancel = {**call, "id": f"x{number}", "type": "tool.cancel"}
            await connection.send(json.dumps({**cancel, "payload": {"requestId": f"c{number}"}}))
            answers: dict[str, Any] = {}
            while answers.keys() != {"ack", "tool.result"}:
                message = json.loads(await connection.recv())
                if message["type"] != "tool.progress":
                    answers[message["type"]] = message["payload"]
            assert answers["ack"] == {"cancelled": True}
            assert answers["tool.result"]["error"]["code"] == Code.CANCELLED
        assert kernel.status().waiting == kernel.status().running == 0


async def test_an_agent_is_told_of_no_rule_and_takes_nothing_away(root: Root) -> None:
    root.policy({"tool": "x.y", "decision": "allow", "because": "mine"})
    async with served(root):
        for viewer, seen in ((False, 0), (True, 1)):
            async with connect_unix(root.places.socket, viewer=viewer) as client:
                assert len(await client.rules()) == seen
                assert await client.blocks() == ()
                for kind in ("lease.revoke", "block.remove", "rule.remove", "undo"):
                    with pytest.raises(Exception, match=r"unauthorized|unsupported-message"):
                        await client.ask_for(kind, {"id": "x", "tool": "x.y"})
