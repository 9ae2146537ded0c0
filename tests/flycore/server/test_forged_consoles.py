"""Suite S6, forged, for consoles of other processes: nobody decides who has not read the code where a person
sits, whatever they send and from wherever."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection

import flycore
from flycore.client.serve import open_served_kernel
from flycore.kernel.console_pairing import ALPHABET, LENGTH, TRIES
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.rpc.method_row import Kind
from flycore.rpc.methods import METHODS
from kits.attach import codes_of, shown_code
from kits.kernel import ECHO, Root, approver_of, close_console, open_console, tool, until, waiting_ask
from kits.unix_socket import plain, say, served

pytestmark = pytest.mark.anyio
DECIDING = sorted(method.message for method in METHODS if method.kind is Kind.DECISION)
HELLO = {"client": "flytui console", "viewer": True, "version": flycore.__version__}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.ask"), tool("echo.high", risk="high"))
    return made


@asynccontextmanager
async def viewer(root: Root) -> AsyncIterator[ClientConnection]:
    """What a console is before it is paired."""
    async with plain(root) as connection:
        assert (await say(connection, "client.hello", HELLO))["type"] == "ack"
        yield connection


@asynccontextmanager
async def asked(root: Root) -> AsyncIterator[tuple[Kernel, ClientConnection, Ask]]:
    """A kernel with a person, and a program whose call waits for them."""
    async with served(root) as kernel, plain(root) as agent:
        await agent.send(
            json.dumps(
                {
                    "protocol": "flyflor.ws.v1",
                    "id": "call",
                    "type": "tool.call",
                    "at": 0,
                    "payload": {"tool": "echo.high"},
                }
            )
        )
        yield kernel, agent, await waiting_ask(kernel)


def payload(kind: str, ask: Ask) -> dict[str, Any]:
    """A right payload of that message, about that request."""
    request = ask.request
    about = {"id": request.id, "subjectDigest": request.subject_digest}
    return {
        "ask.decide": {**about, "answer": {"choice": "approve-once"}},
        "ask.edit": {**about, "input": {}},
        "ask.hold": {"id": request.id, "held": True},
        "lease.revoke": {"id": "x"},
        "rule.remove": {"where": "policy.jsonc:1", "digest": "0" * 64},
        "block.remove": {"tool": "echo.high"},
        "question.answer": {"id": "panic", "option": "release"},
        "trust.accept": {"accepted": [["echo", "0" * 64]]},
        "sidecar.enable": {"sidecar": "echo", "enabled": False},
    }.get(kind, {})


async def refused_everything(connection: ClientConnection, kernel: Kernel, ask: Ask) -> None:
    """Nothing that decides is taken from that connection."""
    for kind in DECIDING:
        answer = await say(connection, kind, payload(kind, ask), id=kind)
        while answer.get("correlationId") != kind:
            answer = json.loads(await connection.recv())
        assert (answer["type"], answer["payload"]["code"]) == ("error", "unauthorized"), kind
    assert kernel.asks()[0] == ask


def another(code: str) -> str:
    """A code of the right form that is not that one."""
    return code[:-1] + ALPHABET[(ALPHABET.index(code[-1]) + 1) % len(ALPHABET)]


async def test_a_decision_before_pairing_counts_nowhere(root: Root) -> None:
    async with asked(root) as (kernel, agent, ask), viewer(root) as connection:
        await refused_everything(agent, kernel, ask)
        await refused_everything(connection, kernel, ask)
        assert (await say(connection, "console.attach"))["type"] == "console.pairing"
        await refused_everything(connection, kernel, ask)
        assert (await say(connection, "console.pair", {"code": "2" * LENGTH}))["payload"][
            "code"
        ] == "unauthorized"
        await refused_everything(connection, kernel, ask)
        assert kernel.status().consoles == 1


async def test_a_wrong_code_and_a_right_one_too_late_count_nowhere(root: Root) -> None:
    async with asked(root) as (kernel, _, ask), viewer(root) as connection:
        with codes_of(kernel) as events:
            await say(connection, "console.attach")
            code = await shown_code(events)
        for _ in range(TRIES):
            answer = await say(connection, "console.pair", {"code": another(code)})
            assert answer["payload"]["code"] == "unauthorized"
        assert (await say(connection, "console.pair", {"code": code}))["payload"]["code"] == "unauthorized"
        await refused_everything(connection, kernel, ask)
    refused = [line["reason"] for line in root.audit() if line["event"] == "CONSOLE_REFUSED"]
    assert refused == ["wrong"] * (TRIES - 1) + ["spent", "none"]
    assert code not in json.dumps(root.audit())


async def test_a_code_counts_on_its_own_connection_and_once(root: Root) -> None:
    """Overheard by another program, shown to another console, used already: worth nothing."""
    async with asked(root) as (kernel, _, ask), viewer(root) as thief, viewer(root) as console:
        with codes_of(kernel) as events:
            await say(console, "console.attach")
            code = await shown_code(events)
            assert (await say(thief, "console.pair", {"code": code}))["type"] == "error"
            await say(thief, "console.attach")
            await shown_code(events)
        assert (await say(thief, "console.pair", {"code": code}))["type"] == "error"
        assert (await say(console, "console.pair", {"code": code}))["payload"] == {"paired": True}
        assert (await say(thief, "console.pair", {"code": code}))["type"] == "error"
        await refused_everything(thief, kernel, ask)
        async with viewer(root) as later:
            assert (await say(later, "console.pair", {"code": code}))["type"] == "error"
            await refused_everything(later, kernel, ask)
        assert kernel.status().consoles == 2


async def test_a_paired_console_does_not_call_and_a_caller_does_not_pair(root: Root) -> None:
    async with asked(root) as (kernel, agent, _), viewer(root) as console:
        with codes_of(kernel) as events:
            await say(console, "console.attach")
            code = await shown_code(events)
        assert (await say(console, "console.pair", {"code": code}))["payload"] == {"paired": True}
        answer = await say(console, "tool.call", {"tool": "echo.ask"})
        assert answer["payload"]["code"] == "unauthorized"
        for kind, said in (("client.hello", HELLO), ("console.attach", {}), ("console.pair", {"code": code})):
            answer = await say(agent, kind, said, id=kind)
            while answer.get("correlationId") != kind:
                answer = json.loads(await agent.recv())
            assert answer["payload"]["code"] == "unauthorized", kind
        assert len(kernel.activity()) == 1


async def test_a_code_outlives_neither_its_connection_nor_helps_the_next_one(root: Root) -> None:
    async with asked(root) as (kernel, _, ask):
        with codes_of(kernel) as events:
            async with viewer(root) as first:
                await say(first, "console.attach")
                code = await shown_code(events)
        async with viewer(root) as second:
            assert (await say(second, "console.pair", {"code": code}))["type"] == "error"
            await refused_everything(second, kernel, ask)


async def test_a_paired_console_decides_though_the_one_that_showed_the_code_has_gone(root: Root) -> None:
    """It is a person's own. A program that asks when nobody is left to show a code gets none."""
    async with (
        open_served_kernel(root.places, on_wait=lambda *told: None) as kernel,
        viewer(root) as console,
        viewer(root) as program,
    ):
        open_console(kernel)
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        with codes_of(kernel) as events:
            await say(console, "console.attach")
            code = await shown_code(events)
        close_console(kernel)
        assert (await say(program, "console.attach"))["payload"]["code"] == "unauthorized"
        assert (await say(console, "console.pair", {"code": code}))["payload"] == {"paired": True}
        async with plain(root) as agent:
            await say(agent, "tool.call", {"tool": "echo.ask"})
            ask = await waiting_ask(kernel)
            await refused_everything(agent, kernel, ask)
            answer = await say(console, "ask.decide", payload("ask.decide", ask))
            assert answer["payload"]["outcome"] == {"accepted": True, "whyNot": ""}
            replayed = await say(console, "ask.decide", payload("ask.decide", ask))
            assert "already approved by the console on pid" in replayed["payload"]["outcome"]["whyNot"]


async def test_a_program_that_was_shown_nothing_learns_nothing(root: Root) -> None:
    """A second connection of the calling program hears every event that there is, and of no code."""
    async with asked(root) as (kernel, _, _ask), viewer(root) as console, viewer(root) as second:
        assert (await say(second, "event.subscribe"))["type"] == "ack"
        with codes_of(kernel) as events:
            await say(console, "console.attach")
            code = await shown_code(events)
        await say(console, "console.pair", {"code": code})
        heard: list[str] = []
        with anyio.fail_after(30):
            while "console.attached" not in heard:
                text = await second.recv()
                assert code not in str(text)
                heard.append(json.loads(text)["payload"]["type"])
        assert "console.pairing" not in heard
        for kind in ("gateway.status.get", "history.list", "question.list", "ask.list", "doctor.get"):
            assert code not in json.dumps(await say(second, kind))
    await until(lambda: code not in json.dumps(root.audit()))


@pytest.mark.parametrize("version", ["", "0.0.1", "99.0.0"])
async def test_a_console_of_another_version_gets_no_code(root: Root, version: str) -> None:
    async with served(root) as kernel, plain(root) as connection:
        await say(connection, "client.hello", {**HELLO, "version": version})
        answer = await say(connection, "console.attach")
        assert answer["payload"]["code"] == "unauthorized"
        assert flycore.__version__ in answer["payload"]["message"]
        assert kernel.status().consoles == 1


async def test_a_seat_without_bounds_is_refused(root: Root) -> None:
    async with served(root), viewer(root) as connection:
        answer = await say(connection, "console.attach", {"windowIds": list(range(10_000))})
        assert answer["payload"]["code"] == "invalid-payload"
