"""Real sessions in which every frame, sent and received, is held against the published schema."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from websockets.asyncio.client import ClientConnection, unix_connect

import flycore
from flycore.kernel.kernel import Kernel
from flycore.model.enums import PackageScope
from flycore.rpc.events import EVENTS
from flycore.rpc.methods import ANSWERS
from flycore.rpc.schema import PAYLOADS, protocol_schema
from kits.kernel import ECHO, Root, approve, approver_of, request, tool, waiting_ask
from kits.packages import shell_example
from kits.unix_socket import served

pytestmark = pytest.mark.anyio

PATIENCE = 60.0
SCHEMA = protocol_schema()
CLIENT, SERVER = (
    jsonschema_rs.validator_for({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{side}Message"}]})
    for side in ("Client", "Server")
)
ASKING = {
    "capability.catalog.get": {"detail": True},
    "tool.call": {"tool": "echo.free", "input": {"message": "hello"}},
    "tool.create": {"name": "hello", "definition": {"name": "hello"}},
    "sampling.answer": {"samplingId": "none"},
    "tool.cancel": {"callId": "no such call"},
    "tool.schema.get": {"tool": "file.hash"},
    "history.detail.get": {"callId": "no such call"},
    "ask.detail.get": {"id": "no such request"},
    "call.picture.get": {"callId": "no such call"},
    "sidecar.probe": {"sidecar": "echo"},
    "starter.plan.get": {"sidecars": ["mock.echo"]},
    "starter.write": {"sidecars": ["mock.echo"], "digest": "0" * 64},
    "root.nested": {"root": "/no/such/root"},
    "call.undo": {"callId": "none", "look": True},
    "client.hello": {"client": "a test", "viewer": False},
    "token.add": {"name": "a", "digest": "0" * 64},
    "token.revoke": {"name": "a"},
    "login.change": {"sidecar": "x", "decision": "logged-in"},
    "console.attach": {"windowIds": [7], "pids": [1]},
    "console.pair": {"code": "2222-2222"},
    "console.refuse": {"pid": 1},
    "ask.decide": {"id": "x", "subjectDigest": "0", "answer": {"choice": "approve-once"}},
    "ask.edit": {"id": "x", "subjectDigest": "0", "input": {}},
    "ask.hold": {"id": "x", "held": True},
    "lease.revoke": {"id": "x"},
    "rule.remove": {"where": "x:1", "digest": "0"},
    "block.remove": {"tool": "x.y"},
    "question.answer": {"id": "x", "option": "y"},
    "trust.accept": {"accepted": [["x", "0"]]},
    "server.import": {"path": ".mcp.json", "name": "x", "digest": "0"},
    "sidecar.enable": {"sidecar": "x", "enabled": True},
    "sidecar.permit": {"sidecar": "x", "digest": "0"},
    "package.ask": {"action": "apply", "package": "x", "scope": "project"},
    "package.stage": {"source": "/no/such/file", "scope": "user"},
    "package.change": {"action": "remove", "package": "x", "scope": "project", "digest": ""},
    "package.discard": {"package": "x", "scope": "user"},
}
"""A payload for each message that needs one."""
LAST = ("kernel.yield", "panic")
"""After which nothing else can be asked."""


class Wire:
    """A connection that validates whatever passes, and remembers of which types it was."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self.sent: set[str] = set()
        self.received: set[str] = set()
        self.told: set[str] = set()

    async def say(self, kind: str, payload: Any = None) -> str:
        """Send a message; its id."""
        message_id = f"t{next(self._ids)}"
        message = {
            "protocol": "flyflor.ws.v1",
            "id": message_id,
            "type": kind,
            "at": 0.0,
            "requestId": "mine",
        }
        message["payload"] = {} if payload is None else payload
        CLIENT.validate(message)
        self.sent.add(kind)
        await self._connection.send(json.dumps(message))
        return message_id

    async def hear(self) -> dict[str, Any]:
        """The next message."""
        with anyio.fail_after(PATIENCE):
            message: dict[str, Any] = json.loads(await self._connection.recv())
        SERVER.validate(message)
        self.received.add(message["type"])
        if message["type"] == "event.publish":
            self.told.add(message["payload"]["type"])
        return message

    async def ask(self, kind: str, payload: Any = None) -> dict[str, Any]:
        """The last answer to a message: progress and events are passed over."""
        message_id = await self.say(kind, payload)
        while True:
            message = await self.hear()
            if message.get("correlationId") == message_id and message["type"] != "tool.progress":
                assert message["requestId"] == "mine"
                return message


@asynccontextmanager
async def wired(root: Root, *, viewer: bool) -> AsyncIterator[Wire]:
    """A greeted connection that is told of everything that happens."""
    async with unix_connect(
        str(root.places.socket), uri="ws://localhost/ws", compression=None, max_size=None
    ) as connection:
        wire = Wire(connection)
        assert (await wire.hear())["type"] == "server.hello"
        hello = {"client": "a test", "viewer": viewer, "version": flycore.__version__}
        await wire.ask("client.hello", hello)
        await wire.ask("event.subscribe")
        yield wire


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


async def used(root: Root, kernel: Kernel) -> None:
    """Something in every list: calls of several ends, a question, a lease of nobody, a request that waits."""
    async with wired(root, viewer=False) as wire:
        for payload in (
            ASKING["tool.call"],
            {"tool": "echo.fre"},
            {"tool": "web.search", "input": {"query": "x"}},
            {"tool": "echo.ask", "input": {"message": "later"}, "inlineWaitMs": 0},
        ):
            assert (await wire.ask("tool.call", payload))["type"] == "tool.result"
        assert "approval.asked" in wire.told
        assert "call.finished" in wire.told


@pytest.mark.parametrize("viewer", [True, False])
async def test_whatever_is_asked_is_answered_in_the_published_shape(root: Root, viewer: bool) -> None:
    async with served(root) as kernel:
        await used(root, kernel)
        async with wired(root, viewer=viewer) as wire:
            for kind in sorted(set(PAYLOADS) - set(LAST)):
                await wire.ask(kind, ASKING.get(kind))
            call = kernel.activity()[0]
            assert (await wire.ask("history.detail.get", {"callId": call.call_id}))["payload"][
                "calls"
            ] or not viewer
            await wire.ask("capability.catalog.get")
            await wire.ask("tool.schema.get", {"tool": "echo.fre"})
            for kind in LAST:
                await wire.ask(kind)
            assert wire.sent == set(PAYLOADS)
            only_callers, only_viewers = (
                {"tool.result", "tool.progress"},
                {
                    *("doctor.snapshot", "console.pairing", "call.undone", "terminal.proof"),
                    *("starter.snapshot", "starter.plan.snapshot", "package.checks"),
                },
            )
            missing = set(ANSWERS) - wire.received
            assert missing <= (only_callers if viewer else only_viewers)


async def test_what_happens_is_told_in_the_published_shape(root: Root) -> None:
    async with served(root) as kernel, wired(root, viewer=True) as wire, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.ask", {"message": "x"}))
        await approve(kernel, await waiting_ask(kernel))
        root.policy()
        root.sidecar("more", ECHO, tool("more.echo"))
        source = str(shell_example().folder(root.base))
        assert (await approver_of(kernel).stage_package(source, PackageScope.PROJECT)).accepted
        wanted = {"call.finished", "approval.asked", "approval.decided", "policy.changed", "catalog.changed"}
        wanted |= {"package.changed", "packages.changed", "question.asked"}
        while not wanted <= wire.told:
            await wire.hear()
        assert wire.told <= set(EVENTS)


async def test_events_are_chosen_by_class_and_by_type(root: Root) -> None:
    async with served(root), wired(root, viewer=False) as wire:
        for wanted in ({"classes": ["package"]}, {"types": ["call.finished"]}):
            assert (await wire.ask("event.subscribe", wanted))["payload"] == {
                "classes": [],
                "types": [],
                **wanted,
            }
            wire.told.clear()
            await wire.ask("tool.call", ASKING["tool.call"])
            while wire.told < set(wanted.get("types", ())):
                await wire.hear()
            await wire.ask("ping")
            assert wire.told == set(wanted.get("types", ()))


async def test_the_count_of_clients_is_live(root: Root) -> None:
    async with served(root), wired(root, viewer=False) as wire:
        for more in (1, 2, 1):
            if more == 2:
                async with wired(root, viewer=True):
                    assert (await wire.ask("gateway.status.get"))["payload"]["clientCount"] == 2
            with anyio.fail_after(PATIENCE):
                while (await wire.ask("gateway.status.get"))["payload"]["clientCount"] != 1:
                    pass  # the one that left is counted until the kernel has read its end
