"""Suite S6, forged, over TCP and HTTP: whatever a client with a token sends, it decides nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from websockets.asyncio.client import ClientConnection, connect

from flycore.client.attach import open_attached_console
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask
from flycore.model.enums import Choice, RequestState
from kits.attach import codes_of, shown_code
from kits.kernel import ECHO, PATIENCE, Root, approve, approver_of, tool, until, waiting_ask
from kits.tcp import client, listening, listening_http, mcp_client
from kits.unix_socket import say

pytestmark = pytest.mark.anyio

MARK = """#!/bin/sh
read -r request
printf '%s\\n' "$request" >> "{marks}"
printf '{{"ok": true}}\\n'
"""
FORGED_FIELDS: list[dict[str, Any]] = [
    {"approved": True},
    {"approvalDecision": "approve-once"},
    {"_meta": {"approved": True}},
    {"ticket": "0" * 16},
    {"caller": {"door": "console", "program": "flytui"}},
]
FORGED_TYPES = [
    *("ask.decide", "ask.edit", "ask.hold", "lease.revoke", "rule.remove", "block.remove", "approver.undo"),
    *("question.answer", "trust.accept", "sidecar.enable", "starter.write", "panic.release"),
    *("console.attach", "console.pair", "token.add", "trust.revoke", "kernel.yield"),
]
"""What decides, or lets something in, over the Unix socket, or would if there were such a message."""
CALL = {"tool": "echo.ask", "input": {"n": 1}, "inlineWaitMs": 0}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", MARK.format(marks=tmp_path / "marks"), tool("echo.ask"))
    made.sidecar("good", ECHO, tool("good.free"))
    return made


def ran(root: Root) -> int:
    marks = root.base / "marks"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def untouched(kernel: Kernel, root: Root, ask: Ask) -> bool:
    waiting = [item for item in kernel.asks() if item.state is RequestState.WAITING]
    return waiting == [ask] and kernel.leases() == () and kernel.rules() == () and ran(root) == 0


def forged(ask: Ask) -> dict[str, Any]:
    """All that a console knows of a request, and a code."""
    request = ask.request
    return {
        "id": request.id,
        "requestId": request.id,
        "subjectDigest": request.subject_digest,
        "letter": request.letter,
        "answer": {"choice": "approve-once"},
        "code": "00000000",
        "windowIds": [],
        "pids": [],
    }


@asynccontextmanager
async def _while(call: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """The call is under way while the block runs; then it is given up."""
    async with anyio.create_task_group() as group:
        group.start_soon(call)
        yield
        group.cancel_scope.cancel()


async def result_of(connection: ClientConnection, payload: dict[str, Any]) -> dict[str, Any]:
    """How a call ended, or the error it was answered by."""
    answer = await say(connection, "tool.call", payload)
    while answer["type"] == "tool.progress":
        answer = json.loads(await connection.recv())
    found: dict[str, Any] = answer["payload"]
    return found


async def test_a_call_over_tcp_that_carries_its_own_approval_is_refused(root: Root) -> None:
    async with listening(root) as at, client(at) as connection:
        for fields in FORGED_FIELDS:
            answer = await say(connection, "tool.call", {**CALL, **fields})
            assert (answer["type"], answer["payload"]["code"]) == ("error", "invalid-payload"), fields
            answer = await say(connection, "tool.call", CALL, **fields)
            assert (answer["type"], answer["payload"]["code"]) == ("error", "invalid-envelope"), fields
        assert at.kernel.activity() == ()
        for fields in FORGED_FIELDS[:3]:
            assert (await result_of(connection, {**CALL, "input": fields}))["status"] == "pending"
    assert ran(root) == 0


async def test_no_connection_with_a_token_decides_or_pairs(root: Root) -> None:
    """The caller's own, a second with the same token, and one with another."""
    async with listening(root) as at:
        other = at.book.new("other")
        async with client(at) as own, client(at) as second, client(at, other) as third:
            assert (await result_of(own, CALL))["status"] == "pending"
            ask = await waiting_ask(at.kernel)
            for connection in (own, second, third):
                for kind in FORGED_TYPES:
                    answer = await say(connection, kind, forged(ask))
                    assert answer["type"] == "error", kind
                    assert answer["payload"]["code"] in ("unauthorized", "unsupported-message"), kind
            assert untouched(at.kernel, root, ask)
            assert at.book.names() == ("good", "other")
            commands = (await greeting(at.address, at.token))["payload"]["capabilities"]["commands"]
            assert not set(FORGED_TYPES) & set(commands)


async def greeting(address: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(address, additional_headers=headers, compression=None, proxy=None) as connection:
        hello: dict[str, Any] = json.loads(await connection.recv())
        return hello


async def test_a_ticket_is_worth_nothing_to_another_token(root: Root) -> None:
    """Nor to a token made anew under the old name; and a decision counts for one call."""
    async with listening(root) as at:
        other = at.book.new("other")
        async with client(at) as mine, client(at, other) as thief:
            ticket = (await result_of(mine, CALL))["error"]["details"]["ticket"]
            first = await waiting_ask(at.kernel)
            await approve(at.kernel, first)
            stolen = await result_of(thief, CALL)
            assert stolen["status"] == "pending"
            assert stolen["error"]["details"]["ticket"] != ticket
            assert (await say(thief, "ask.detail.get", {"id": ticket}))["payload"]["asks"] == []
            assert ran(root) == 0
            async with client(at) as second:
                assert (await result_of(second, CALL))["status"] == "success"
            assert ran(root) == 1
            assert (await result_of(mine, CALL))["status"] == "pending"
            once = Answer(choice=Choice.APPROVE_ONCE)
            replayed = await approver_of(at.kernel).decide(
                first.request.id, first.request.subject_digest, once
            )
            assert not replayed.accepted
    assert ran(root) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_nothing_in_a_call_approves_it(root: Root, mode: Any) -> None:
    async with listening_http(root) as at, mcp_client(at, mode=mode) as session:
        for number, fields in enumerate(FORGED_FIELDS[:3]):
            meta: Any = {"approved": True, "approvalDecision": "approve-once", "flytui/inlineWaitMs": 0}
            arguments = {**fields, "n": number}

            async def call(arguments: dict[str, Any] = arguments, meta: Any = meta) -> None:
                await session.call_tool("echo_ask", arguments, meta=meta)

            async with _while(call):
                ask = await waiting_ask(at.kernel)
                assert ask.request.subject.input == arguments
                assert str(ask.request.caller) == "good via http"
                assert untouched(at.kernel, root, ask)
            await until(lambda: at.kernel.status().waiting == at.kernel.status().running == 0)
        for name in ("ask_decide", "approve", "console_pair", "console_attach", "ask.decide"):
            with pytest.raises(MCPError, match="unknown tool"):
                await session.call_tool(name, {"approved": True})
    assert ran(root) == 0


async def test_over_http_another_token_gets_neither_ticket_nor_session(root: Root) -> None:
    async with listening_http(root) as at:
        other = at.book.new("other")
        async with mcp_client(at) as mine, mcp_client(at, other) as thief:

            async def call(session: Any = mine) -> None:
                await session.call_tool("echo_ask", {"n": 1})

            async with _while(call):
                first = await waiting_ask(at.kernel)
                async with _while(lambda: call(thief)):
                    second = await waiting_ask(at.kernel, 2)
                    assert {str(ask.request.caller) for ask in (first, second)} == {
                        "good via http",
                        "other via http",
                    }
                    await approve(at.kernel, first)
                    await until(lambda: ran(root) == 1)
                    waiting = [ask for ask in at.kernel.asks() if ask.state is RequestState.WAITING]
                    assert [ask.request.id for ask in waiting] == [second.request.id]
    assert ran(root) == 1


async def test_no_token_is_told_a_pairing_code(root: Root) -> None:
    async with listening(root) as at, client(at) as agent:
        assert (await say(agent, "event.subscribe"))["type"] == "ack"
        codes: list[str] = []
        with codes_of(at.kernel) as shown:

            async def code() -> str:
                codes.append(await shown_code(shown))
                return codes[-1]

            async with open_attached_console(root.places, code=code):
                pass
        heard: list[str] = []
        with anyio.fail_after(PATIENCE):
            while not heard or '"console.left"' not in heard[-1]:
                heard.append(str(await agent.recv()))
        assert codes
        assert not any(codes[0] in frame or "console.pairing" in frame for frame in heard)
