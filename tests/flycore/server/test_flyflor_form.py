"""`flyflor.ws.v1` as Flyflor publishes it: the table *Two dialects* of the protocol's page, row by row, and a
client that sends what Flyflor's own client sends when it connects, by a URL of `flytui token url`."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import InvalidStatus

import flycore
from flycore.offline.tokens import token_url
from flycore.rpc.flyflor import EMPTY_READS
from flycore.server.tokens import digest_of, new_token
from kits.kernel import ECHO, PATIENCE, Root, approve, tool, waiting_ask
from kits.tcp import Listening, head, listening, sent
from kits.unix_socket import served

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
NOW = "2026-02-02T02:40:00.123Z"
FAILS = '#!/bin/sh\nread -r request\nprintf \'{"ok": false, "error": "no"}\\n\'\n'
SUBSCRIBED = ["tool.started", "tool.progress", "tool.succeeded", "tool.failed", "confirm.answered"]
BOOTSTRAP: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "client.hello",
        {
            "clientId": "flyflor-cli",
            "name": "flyflor-cli",
            "version": "0.1.0",
            "capabilities": {"ui": "ratatui"},
        },
    ),
    ("history.list", {"limit": 20}),
    ("task.list", {}),
    ("capability.catalog.get", {}),
    ("gateway.status.get", {}),
    ("fork.memory.get", {"limit": 5}),
    ("confirm.list", {"limit": 10}),
    ("event.subscribe", {"types": SUBSCRIBED}),
)
"""What Flyflor's client sends, in its order, without waiting for answers."""

TIME = {"type": "string", "format": "date-time", "pattern": r"^\d{4}-\d\d-\d\dT.*Z$"}
KITS = {
    "type": "object",
    "required": ["schemaVersion", "builtAt", "kits", "capabilities"],
    "properties": {
        "schemaVersion": {"const": 1},
        "builtAt": TIME,
        "kits": {
            "type": "array",
            "items": {
                "properties": {"kind": {"enum": ["cli", "tui", "gateway", "capability"]}},
                "required": ["id", "kind", "source"],
            },
        },
        "capabilities": {"type": "array", "items": {"type": "object"}},
    },
}
STATUS = {
    "type": "object",
    "required": [
        "channels",
        "clientCount",
        "connectedCount",
        "degradedCount",
        "gatewayRunning",
        "host",
        "port",
        "streamingCount",
    ],
    "properties": {"gatewayRunning": {"type": "boolean"}, "port": {"type": "integer"}, "startedAt": TIME},
}
TURN = {
    "type": "object",
    "required": ["assistantText", "eventId", "ts", "userText"],
    "properties": {"ts": {"type": "integer"}, "userText": {"type": "string"}},
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "server.hello": {
        "required": ["capabilities", "clientId", "connectedAt", "kits", "status"],
        "properties": {
            "connectedAt": TIME,
            "kits": KITS,
            "status": STATUS,
            "capabilities": {
                "required": ["commands", "eventStream", "protocol", "semanticTypes"],
                "properties": {
                    "semanticTypes": {
                        "items": {
                            "enum": [
                                "ask",
                                "data",
                                "error",
                                "event",
                                "input",
                                "ping",
                                "pong",
                                "stream",
                                "todo",
                            ]
                        }
                    }
                },
            },
        },
    },
    "ack": {
        "required": ["clientId", "received", "subscriptions"],
        "properties": {"subscriptions": {"type": "array"}},
    },
    "history.snapshot": {
        "anyOf": [{"required": ["history"]}, {"required": ["data"]}],
        "properties": {"history": {"items": TURN}},
    },
    "task.snapshot": {"required": ["data"]},
    "capability.catalog.snapshot": {
        "required": ["catalog", "kits"],
        "properties": {"catalog": {"type": ["object", "null"]}, "kits": KITS},
    },
    "gateway.status.snapshot": {"required": ["status"], "properties": {"status": STATUS}},
    "fork.memory.snapshot": {
        "required": ["data"],
        "properties": {"data": {"required": ["forks"]}},
    },
    "confirm.snapshot": {"required": ["data"], "properties": {"data": {"type": "array"}}},
    "pong": {"required": ["now"], "properties": {"now": TIME}},
    "error": {"required": ["code", "message"]},
    "event.publish": {
        "required": ["event"],
        "properties": {
            "event": {"required": ["type", "at", "payload"], "properties": {"at": TIME}},
        },
    },
}
"""The payloads as Flyflor publishes them: what its clients need of each."""


class Flyflor:
    """A client that speaks as Flyflor's does: every message has a time as text and a `requestId`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = itertools.count(1)

    async def say(self, kind: str, payload: Any = None) -> str:
        """Send a message; its id."""
        request_id = f"flyflor-cli-{kind.replace('.', '-')}-{next(self._ids)}"
        message = {
            "protocol": "flyflor.ws.v1",
            "id": f"env-{request_id}",
            "type": kind,
            "at": NOW,
            "requestId": request_id,
            "payload": {} if payload is None else payload,
        }
        await self._connection.send(json.dumps(message))
        return str(message["id"])

    async def hear(self) -> dict[str, Any]:
        """The next message, which has the published shape."""
        with anyio.fail_after(PATIENCE):
            message: dict[str, Any] = json.loads(await self._connection.recv())
        assert_published(message)
        return message

    async def ask(self, kind: str, payload: Any = None) -> dict[str, Any]:
        """The last answer to a message; progress and events are passed over."""
        message_id = await self.say(kind, payload)
        while True:
            message = await self.hear()
            if message.get("correlationId") == message_id and message["type"] != "tool.progress":
                assert message["requestId"] == message_id.removeprefix("env-")
                return message

    async def until_event(self, kind: str) -> dict[str, Any]:
        """The next event of that type."""
        while True:
            message = await self.hear()
            if message["type"] == "event.publish" and message["payload"]["event"]["type"] == kind:
                event: dict[str, Any] = message["payload"]["event"]
                return event


def assert_published(message: dict[str, Any]) -> None:
    """Hold a message against the published shapes."""
    event = message["type"] == "event.publish"
    assert message["protocol"] == ("flyflor.event.v1" if event else "flyflor.ws.v1")
    assert set(message) <= {"protocol", "id", "type", "at", "requestId", "correlationId", "payload"}
    jsonschema.validate(message["at"], TIME)
    assert datetime.fromisoformat(message["at"]).tzinfo is not None
    jsonschema.validate(message["payload"], PUBLISHED.get(message["type"], {}))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.sidecar("fails", FAILS, tool("fails.now"))
    rules = [{"tool": name, "decision": "allow", "because": "test"} for name in ("echo.free", "fails.now")]
    root.policy(*rules)
    return root


def url_of(at: Listening, name: str = "tui") -> str:
    """A URL for the client of that name."""
    token = new_token()
    at.book.add(name, digest_of(token), in_url=True)
    return token_url(at.address, token)


@asynccontextmanager
async def flyflor(url: str) -> AsyncIterator[Flyflor]:
    """Flyflor's client, connected by a URL and without headers."""
    async with connect(url, compression=None, proxy=None) as connection:
        client = Flyflor(connection)
        assert (await client.hear())["type"] == "server.hello"
        yield client


async def bootstrap(client: Flyflor) -> dict[str, dict[str, Any]]:
    """Send what Flyflor's client sends at once; the payload of each answer by its type."""
    sent = [await client.say(kind, payload) for kind, payload in BOOTSTRAP]
    answers = {}
    while sent:
        message = await client.hear()
        if message.get("correlationId") in sent:
            sent.remove(message["correlationId"])
            answers[message["type"]] = message["payload"]
    return answers


async def test_a_client_of_flyflor_connects_reads_hears_and_comes_back(root: Root) -> None:
    async with listening(root) as at:
        url = url_of(at)
        async with flyflor(url) as client, anyio.create_task_group() as group:
            answers = await bootstrap(client)
            assert "error" not in answers
            assert set(answers) == {
                *("ack", "history.snapshot", "task.snapshot", "capability.catalog.snapshot"),
                *("gateway.status.snapshot", "fork.memory.snapshot", "confirm.snapshot"),
            }
            assert answers["history.snapshot"]["history"] == []
            names = {one["name"] for one in answers["capability.catalog.snapshot"]["catalog"]["capabilities"]}
            assert {"echo.free", "fails.now"} <= names
            assert answers["gateway.status.snapshot"]["status"]["url"] == at.address
            await client.say("tool.call", {"tool": "echo.free", "input": {}})
            assert (await client.until_event("tool.started"))["payload"]["tool"] == "echo.free"
            assert (await client.until_event("tool.succeeded"))["payload"]["tool"] == "echo.free"
            await client.say("tool.call", {"tool": "fails.now", "input": {}})
            failed = await client.until_event("tool.failed")
            assert (failed["payload"]["tool"], failed["payload"]["error"]) == ("fails.now", "failed")
            group.start_soon(client.say, "tool.call", {"tool": "echo.ask", "input": {}})
            ask = await waiting_ask(at.kernel)
            assert ask.request.caller.claims == "flyflor-cli 0.1.0"
            await approve(at.kernel, ask)
            answered = await client.until_event("confirm.answered")
            assert answered["payload"]["requestId"] == ask.request.id
            await client.until_event("tool.succeeded")
        async with flyflor(url) as client:
            answers = await bootstrap(client)
            turns = answers["history.snapshot"]["history"]
            assert [turn["userText"].split()[0] for turn in turns] == ["echo.free", "fails.now", "echo.ask"]
            assert turns == sorted(turns, key=lambda turn: turn["ts"])
            assert "failed: no" in turns[1]["assistantText"]
            (confirm,) = answers["confirm.snapshot"]["data"]
            assert (confirm["status"], confirm["confirmAnswer"]["choiceIds"]) == ("answered", ["approved"])
            detail = await client.ask("history.detail.get", {"eventId": turns[0]["eventId"]})
            assert detail["payload"]["data"]["turn"] == turns[0]
            earlier = await client.ask("history.list", {"limit": 1, "beforeTs": turns[1]["ts"] - 1})
            assert earlier["payload"]["history"] == turns[:1]
            (one,) = (await client.ask("ask.list"))["payload"]["data"]
            assert one["ask"]["choices"] == []


DECIDES = ("confirm.answer", "ask.answer", "gateway.message.send", "task.plan.decide", "fork.create")


@pytest.mark.parametrize("kind", DECIDES)
async def test_nothing_of_flyflor_decides_or_runs_anything(root: Root, kind: str) -> None:
    async with listening(root) as at, flyflor(url_of(at)) as client:
        answer = await client.ask(
            kind, {"text": "go on", "context": {"toolApprovals": {"userToolCalls": True}}}
        )
        assert answer["payload"]["code"] == "unsupported-message"
        refused = await client.ask("ask.decide", {"id": "r", "subjectDigest": "", "answer": {}})
        assert refused["payload"]["code"] == "unauthorized"
        assert at.kernel.activity() == ()


async def test_a_url_token_is_good_for_the_websocket_over_tcp_alone(root: Root) -> None:
    async with listening(root) as at:
        url = url_of(at)
        token = url.partition("=")[2]
        for wrong in (
            f"{at.address}?token={at.token}",  # a token for headers
            f"{url}&x=1",
            f"{url}x",
            f"{at.address}?token=",
            f"{at.address}?Token={token}",
            f"{at.address}?x=1&token={token}",
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(wrong, compression=None, proxy=None)
            assert refused.value.response.status_code in (400, 401)
            assert token.encode() not in (refused.value.response.body or b"")
        for headers in ({"Authorization": f"Bearer {token}"}, {"Authorization": f"Bearer {at.token}"}):
            with pytest.raises(InvalidStatus):
                await connect(
                    at.address if token in headers["Authorization"] else url,
                    additional_headers=headers,
                    compression=None,
                    proxy=None,
                )
        with pytest.raises(InvalidStatus) as page:
            await connect(url, origin="http://127.0.0.1:1", compression=None, proxy=None)  # type: ignore[arg-type]  # the library's own alias of str
        assert page.value.response.status_code == 403
        answer = await sent(at.port, head(f"GET /health?token={token} HTTP/1.1", at.host))
        assert b" 400 " in answer.splitlines()[0]
        at.book.revoke("tui")
        with pytest.raises(InvalidStatus):
            await connect(url, compression=None, proxy=None)
    assert token not in json.dumps(root.audit())


# The table.

Form = dict[str, Any]
TABLE = PAGE.partition("## Two dialects")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines() if line[:1] == "|"
]


def own(message: Form) -> Form:
    """A message of flytui's own clients."""
    return {"protocol": "flyflor.ws.v1", "id": "m1", "at": 0.0, "payload": {}, **message}


def theirs(message: Form) -> Form:
    """A message of Flyflor's clients."""
    return {**own(message), "at": NOW}


def keys(*names: str) -> Callable[[Form], bool]:
    """Whether an answer's payload has all these keys."""
    return lambda answer: set(names) <= answer["payload"].keys()


def is_code(code: str) -> Callable[[Form], bool]:
    """Whether an answer is that error, and names the message that it answers."""
    return lambda answer: answer["payload"].get("code") == code and answer["correlationId"] == "m1"


Check = tuple[Form, Callable[[Form], bool]]
CHECKS: dict[str, tuple[Check, Check]] = {
    "envelope": (
        (own({"type": "ping"}), lambda answer: isinstance(answer["at"], float)),
        (theirs({"type": "ping"}), lambda answer: isinstance(answer["at"], str)),
    ),
    "no `at`": tuple(  # type: ignore[dict-item]  # two equal checks
        2
        * [
            (
                {"protocol": "flyflor.ws.v1", "id": "m1", "type": "ping"},
                lambda answer: answer["type"] == "pong",
            )
        ]
    ),
    "wrong envelope": (
        (own({"type": "ping", "at": "yesterday"}), is_code("invalid-envelope")),
        (theirs({"type": "ping", "more": 1}), is_code("invalid-envelope")),
    ),
    "`client.hello`": (
        (own({"type": "client.hello", "payload": {"client": "x"}}), keys()),
        (theirs({"type": "client.hello", "payload": BOOTSTRAP[0][1]}), keys("clientId", "received")),
    ),
    "`ack`": (
        (
            own({"type": "event.subscribe", "payload": {"classes": ["tool"]}}),
            lambda answer: answer["payload"] == {"classes": ["tool"], "types": []},
        ),
        (
            theirs({"type": "event.subscribe", "payload": {"types": SUBSCRIBED, "requestId": "x"}}),
            lambda answer: answer["payload"]["subscriptions"] == [{"classes": [], "types": SUBSCRIBED}],
        ),
    ),
    "`pong`": ((own({"type": "ping"}), keys("now")), (theirs({"type": "ping"}), keys("now"))),
    "`gateway.status.snapshot`": (
        (own({"type": "gateway.status.get"}), keys("appRoot", "clientCount")),
        (
            theirs({"type": "gateway.status.get"}),
            lambda answer: answer["payload"]["status"]["gatewayRunning"],
        ),
    ),
    "`capability.catalog.snapshot`": (
        (own({"type": "capability.catalog.get"}), keys("schema", "capabilities", "kits")),
        (
            theirs({"type": "capability.catalog.get"}),
            lambda answer: (
                answer["payload"].keys() == {"catalog", "kits"}
                and answer["payload"]["kits"]["schemaVersion"] == 1
            ),
        ),
    ),
    "`history.snapshot`": (
        (own({"type": "history.list"}), keys("calls")),
        (theirs({"type": "history.list", "payload": {"limit": 2}}), keys("history", "nextBeforeTs")),
    ),
    "`history.detail.get`": (
        (own({"type": "history.detail.get", "payload": {"callId": "x"}}), keys("calls")),
        (
            theirs({"type": "history.detail.get", "payload": {"eventId": "x"}}),
            lambda answer: answer["payload"]["data"] is None,
        ),
    ),
    "`ask.snapshot`": (
        (own({"type": "ask.list"}), lambda answer: answer["payload"] == {"asks": []}),
        (theirs({"type": "ask.list", "payload": {"limit": 3}}), keys("asks", "data")),
    ),
    "`confirm.list`": (
        (own({"type": "confirm.list"}), keys("data")),
        (theirs({"type": "confirm.list", "payload": {"limit": 10}}), keys("data")),
    ),
    "reads of its memory": (
        (own({"type": "task.list"}), lambda answer: answer["payload"] == {"data": []}),
        (
            theirs({"type": "fork.memory.get", "payload": {"limit": 5}}),
            lambda answer: answer["payload"] == {"data": {"forks": []}},
        ),
    ),
    "chat, plans and answers": (
        (own({"type": "confirm.answer"}), is_code("unsupported-message")),
        (theirs({"type": "gateway.message.send"}), is_code("unsupported-message")),
    ),
    "unknown keys": (
        (own({"type": "history.list", "payload": {"more": 1}}), keys("calls")),
        (theirs({"type": "tool.call", "payload": {"tool": "x", "more": 1}}), is_code("invalid-payload")),
    ),
}
"""For each row of the table, a message in each form, and what its answer is."""
ELSEWHERE = ("frame", "---", "`server.hello`", "`event.publish`", "events of tools", "token")
"""Rows that other tests of this file hold, and the head of the table."""


def test_the_table_has_these_rows() -> None:
    assert [row[0] for row in ROWS if row[0] not in ELSEWHERE] == list(CHECKS)
    assert {row[0] for row in ROWS} >= set(ELSEWHERE)


def test_the_page_lists_the_reads_that_are_answered_without_data() -> None:
    (row,) = [row for row in ROWS if row[0] == "reads of its memory"]
    assert set(re.findall(r"`([a-z.]+)`", " ".join(row))) >= EMPTY_READS.keys()


@pytest.mark.parametrize("row", CHECKS)
async def test_each_frame_in_both_forms(root: Root, row: str) -> None:
    async with served(root):
        for message, is_right in CHECKS[row]:
            async with unix_connect(
                str(root.places.socket), uri="ws://localhost/ws", compression=None, max_size=None
            ) as connection:
                await connection.recv()
                await connection.send(json.dumps(message))
                with anyio.fail_after(PATIENCE):
                    answer = json.loads(await connection.recv())
                assert is_right(answer), answer


async def test_the_greeting_names_the_kernel_and_over_tcp_has_what_flyflor_promises(root: Root) -> None:
    own_keys = {"protocol": "flyflor.ws.v1", "version": flycore.__version__, "pid": os.getpid()}
    async with listening(root) as at:
        async with unix_connect(str(root.places.socket), uri="ws://localhost/ws", compression=None) as own:
            assert json.loads(await own.recv())["payload"] == own_keys
        bearer = {"Authorization": f"Bearer {at.token}"}
        for url, headers in ((url_of(at), {}), (at.address, bearer)):
            async with connect(url, additional_headers=headers, compression=None, proxy=None) as foreign:
                greeting = json.loads(await foreign.recv())["payload"]
            jsonschema.validate(greeting, PUBLISHED["server.hello"])
            assert own_keys.items() <= greeting.items()
            assert greeting["status"]["url"] == at.address


async def test_events_in_both_forms(root: Root) -> None:
    async with served(root):
        for at in (0.0, NOW):
            async with unix_connect(
                str(root.places.socket), uri="ws://localhost/ws", compression=None
            ) as connection:
                await connection.recv()
                for kind, payload in (
                    ("event.subscribe", {"classes": ["tool"]}),
                    ("tool.call", {"tool": "echo.free"}),
                ):
                    message = {**own({"type": kind, "payload": payload}), "at": at, "id": kind}
                    await connection.send(json.dumps(message))
                seen: dict[str, Form] = {}
                with anyio.fail_after(PATIENCE):
                    while not {"call.finished", "tool.succeeded"} <= seen.keys():
                        heard = json.loads(await connection.recv())
                        if heard["type"] == "event.publish":
                            seen[heard["payload"]["type"]] = heard
                assert {"call.started", "tool.started", "tool.succeeded"} <= seen.keys()
                for heard in seen.values():
                    assert ("event" in heard["payload"]) == (at == NOW)
                    assert isinstance(heard["payload"]["at"], float)
                    if at == NOW:
                        assert_published(heard)
